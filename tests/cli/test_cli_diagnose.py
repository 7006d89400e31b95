from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from dfstrans.report.page import file_stem, page_name
from tests.cli.command_line import output_of, refused, result_of


def test_diagnose_names_deviations(model: Path, table: Path, tmp_path: Path) -> None:
    found = result_of("diagnose", model, table, "--all", "--out", tmp_path / "d.csv")
    assert len(found) == 36
    written = pd.read_csv(tmp_path / "d.csv")
    assert written.episode_id.nunique() == 36
    strangest = written[written.episode_id == found[0]["episode_id"]].sort_values("deviation").iloc[-1]
    assert found[0]["interpretation"][0]["sensor"] == strangest.sensor
    assert output_of("diagnose", model, table, "--episode", "run_0003")[0].startswith("run_0003: ")
    out, _ = output_of("diagnose", model, table, "--all", "--no-trust")
    titles = ["episode", "probability", "verdict", "sensor", "distance", "drop in score", "when", "called by"]
    assert re.split("  +", out.splitlines()[0].strip()) == titles
    assert out.splitlines()[-1] == "… 6 more, see --html or --json"
    assert "got nobody" in refused("diagnose", model, table, "--episode", "nobody")


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_diagnosing_training_recordings_prints_a_remark(model: Path, table: Path) -> None:
    out, err = output_of("diagnose", model, table, "--all", "--no-trust", "--part", "test", "--json")
    assert len(json.loads(out)) < 10
    assert "too good" not in err
    assert "trained on most of these episodes" in output_of("diagnose", model, table, "--no-trust")[1]


def test_raw_json_contains_the_numbers_of_the_page(model: Path, table: Path) -> None:
    (found,) = result_of("diagnose", model, table, "--episode", "run_0003", "--raw")
    strangest = max(map(max, found["raw"]["deviation"]))
    assert found["ranked_by"] == "occlusion" or strangest == pytest.approx(found["segments"][0]["deviation"], abs=1e-4)
    assert len(found["raw"]["global_spatial_relevance"]) == len(found["raw"]["sensors"]) == 3
    assert "add --json" in refused("diagnose", model, table, "--raw")


def test_diagnosing_with_an_own_baseline_needs_a_model_that_knows_machines(model: Path, table: Path) -> None:
    err = refused("diagnose", model, table, "--own-baseline")
    assert "expected a model that compares each machine with itself for --own-baseline" in err


def test_diagnose_writes_pages(model: Path, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "one.html"
    output_of("diagnose", model, table, "--episode", "run_0003", "--html", page)
    text = page.read_text()
    assert "run_0003" in text
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text)
    some = [argument for name in ("run_0001", "run_0002", "run_0003") for argument in ("--episode", name)]
    output_of("diagnose", model, table, *some, "--no-trust", "--html", tmp_path / "pages")
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    assert len(names) == 5  # with the index and plotly's code
    assert all(name in names for name in re.findall(r'href="([^"]+)"', (tmp_path / "pages" / "index.html").read_text()))
    (tmp_path / "pages" / "mine-0123abcd.html").write_text("not written by diagnose")
    output_of("diagnose", model, table, *some[2:], "--no-trust", "--html", tmp_path / "pages")
    left = {path.name for path in (tmp_path / "pages").iterdir()}
    assert names - left == {page_name("run_0001")}
    assert left - names == {"mine-0123abcd.html"}
    assert "one --episode" in refused("diagnose", model, table, "--html", page)


def test_diagnose_writes_figures_for_print(model: Path, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    folder = tmp_path / "figures"
    surest = pd.read_csv(table).query("label == 1").episode_id.iloc[0]
    assert str(folder) in output_of("diagnose", model, table, "--episode", surest, "--no-trust", "--figures", folder)[1]
    kinds = {path.stem.removeprefix(file_stem(surest)) for path in folder.iterdir()}
    of_each, of_all = {"_signals", "_cells", "_attention", "_moments"}, {"temporal_relevance", "attention_trust"}
    assert of_each <= kinds
    assert kinds - of_each - of_all == {"temporal_relevance_beside_normal"}
    assert {path.suffix for path in folder.iterdir()} == {".pdf", ".svg"}


def test_episodes_that_are_too_short_or_empty_do_not_spoil_the_others(model: Path, table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table).drop(columns="label").query("episode_id in ['run_0001', 'run_0002', 'run_0003']")
    short = rows.query("episode_id == 'run_0001' and time < 5").assign(episode_id="short")
    empty = rows.query("episode_id == 'run_0001'").assign(episode_id="empty", a=None, b=None, c=None)
    pd.concat([rows, short, empty]).to_csv(tmp_path / "some.csv", index=False)
    out, err = output_of("diagnose", model, tmp_path / "some.csv", "--all", "--no-trust")
    assert len(out.splitlines()) == 1 + 3
    assert "skipped 2 of 5 episodes: short, empty" in err
    for name in ("short", "empty"):
        assert repr(name) in refused("diagnose", model, tmp_path / "some.csv", "--episode", name)
