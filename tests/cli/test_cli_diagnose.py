from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from dfstrans.report.page import file_stem, page_name
from tests.cli.command_line import run


def test_diagnose_names_deviations(model: Path, table: Path, tmp_path: Path) -> None:
    code, out, _ = run("diagnose", model, table, "--all", "--json", "--out", tmp_path / "d.csv")
    found = json.loads(out)
    assert code == 0
    assert len(found) == 36
    written = pd.read_csv(tmp_path / "d.csv")
    assert written.episode_id.nunique() == 36
    strangest = written[written.episode_id == found[0]["episode_id"]].sort_values("deviation").iloc[-1]
    assert found[0]["interpretation"][0]["sensor"] == strangest.sensor
    code, out, _ = run("diagnose", model, table, "--episode", "run_0003")
    assert code == 0
    assert out.startswith("run_0003: ")
    code, out, _ = run("diagnose", model, table, "--all", "--no-trust")
    assert code == 0
    assert out.splitlines()[0].split() == ["episode", "probability", "verdict", "sensor", "distance", "when"]
    assert out.splitlines()[-1] == "… 6 more, see --html or --json"
    code, _, err = run("diagnose", model, table, "--episode", "nobody")
    assert code == 2
    assert "got nobody" in err


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_diagnosing_training_recordings_prints_a_remark(model: Path, table: Path) -> None:
    code, out, err = run("diagnose", model, table, "--all", "--no-trust", "--part", "test", "--json")
    assert code == 0
    assert len(json.loads(out)) < 10
    assert "too good" not in err
    code, _, err = run("diagnose", model, table, "--no-trust")
    assert code == 0
    assert "trained on most of these episodes" in err


def test_raw_json_contains_the_numbers_of_the_page(model: Path, table: Path) -> None:
    code, out, _ = run("diagnose", model, table, "--episode", "run_0003", "--json", "--raw")
    assert code == 0
    (found,) = json.loads(out)
    strangest = max(map(max, found["raw"]["deviation"]))
    assert found["ranked_by"] == "occlusion" or strangest == pytest.approx(found["segments"][0]["deviation"], abs=1e-4)
    assert len(found["raw"]["global_spatial_relevance"]) == len(found["raw"]["sensors"]) == 3
    code, _, err = run("diagnose", model, table, "--raw")
    assert code == 2
    assert "add --json" in err


def test_diagnose_writes_pages(model: Path, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "one.html"
    code, _, _ = run("diagnose", model, table, "--episode", "run_0003", "--html", page)
    assert code == 0
    text = page.read_text()
    assert "run_0003" in text
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text)
    some = [argument for name in ("run_0001", "run_0002", "run_0003") for argument in ("--episode", name)]
    code, _, _ = run("diagnose", model, table, *some, "--no-trust", "--html", tmp_path / "pages")
    assert code == 0
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    assert len(names) == 5  # with the index and plotly's code
    assert all(name in names for name in re.findall(r'href="([^"]+)"', (tmp_path / "pages" / "index.html").read_text()))
    (tmp_path / "pages" / "mine-0123abcd.html").write_text("not written by diagnose")
    code, _, _ = run("diagnose", model, table, *some[2:], "--no-trust", "--html", tmp_path / "pages")
    assert code == 0
    left = {path.name for path in (tmp_path / "pages").iterdir()}
    assert names - left == {page_name("run_0001")}
    assert left - names == {"mine-0123abcd.html"}
    code, _, err = run("diagnose", model, table, "--html", page)
    assert code == 2
    assert "one --episode" in err


def test_diagnose_writes_figures_for_print(model: Path, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    folder = tmp_path / "figures"
    surest = pd.read_csv(table).query("label == 1").episode_id.iloc[0]
    command = ("diagnose", model, table, "--episode", surest, "--no-trust", "--figures", folder)
    code, _, err = run(*command)
    assert code == 0
    assert str(folder) in err
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
    code, out, err = run("predict", model, tmp_path / "some.csv", "--json")
    assert code == 0
    assert [row["episode_id"] for row in json.loads(out)["predictions"]] == ["run_0001", "run_0002", "run_0003"]
    assert "skipped 2 of 5 episodes: short, empty" in err
    assert "expected episodes of at least 16 points" in err
    assert "got none in episode 'empty'" in err
    code, out, err = run("diagnose", model, tmp_path / "some.csv", "--all", "--no-trust")
    assert code == 0
    assert len(out.splitlines()) == 1 + 3
    assert "skipped 2 of 5 episodes: short, empty" in err
    for name in ("short", "empty"):
        code, _, err = run("diagnose", model, tmp_path / "some.csv", "--episode", name)
        assert code == 2
        assert repr(name) in err
