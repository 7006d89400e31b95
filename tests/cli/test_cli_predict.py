from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.command_line import run


def test_predict_needs_no_labels(model: Path, table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).drop(columns="label").to_csv(tmp_path / "new.csv", index=False)
    code, out, _ = run("predict", model, tmp_path / "new.csv")
    assert code == 0
    assert len(out.splitlines()) == 37


def test_predict_and_diagnose_ignore_unreadable_labels(model: Path, table: Path, tmp_path: Path) -> None:
    words = pd.read_csv(table).replace({"label": {0: "fine", 1: "broken"}})
    words.to_csv(tmp_path / "words.csv", index=False)
    _, expected, _ = run("predict", model, table)
    code, out, err = run("predict", model, tmp_path / "words.csv")
    assert code == 0, err
    assert out == expected
    assert "read without their labels: expected labels 0 (normal) or 1 (anomalous)" in err
    assert "--anomalous-value" in err
    one = ("--episode", "run_0003", "--no-trust", "--html", tmp_path / "one.html")
    code, out, err = run("diagnose", model, tmp_path / "words.csv", *one, "--label-column", "label")
    assert code == 0, err
    assert out.startswith("run_0003: ")
    assert "read without their labels" in err
    code, _, err = run("evaluate", model, tmp_path / "words.csv")
    assert code == 2
    assert "specify which value means anomalous" in err


@pytest.mark.filterwarnings("always")
def test_each_warning_is_shown_once(model: Path, table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).assign(more=1.0).to_csv(tmp_path / "more.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "more.csv")
    assert code == 0, err
    assert err.count("ignoring sensors that are unknown to the model: more") == 1


@pytest.mark.parametrize("command", ["predict", "evaluate", "diagnose"])
def test_another_sampling_interval_is_refused(model: Path, table: Path, tmp_path: Path, command: str) -> None:
    slower = pd.read_csv(table)
    slower["time"] *= 5
    slower.to_csv(tmp_path / "slower.csv", index=False)
    code, _, err = run(command, model, tmp_path / "slower.csv")
    assert code == 2
    assert "expected a sampling interval of 1, as in training, got 5; resample the recordings" in err


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_skipped_recordings_are_listed_with_a_remedy(model: Path, table: Path, tmp_path: Path) -> None:
    first = pd.read_csv(table).query("episode_id == 'run_0001'")
    short = [first.query("time < 5").assign(episode_id=name) for name in ("brief", "curt")]
    long = pd.concat([first] * 40).assign(episode_id="long", time=range(48 * 40))
    pd.concat([first, *short, long]).to_csv(tmp_path / "some.csv", index=False)
    code, out, err = run("predict", model, tmp_path / "some.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [row["episode_id"] for row in found["predictions"]] == ["run_0001"]
    assert [one["id"] for one in found["left_out"]] == ["brief", "curt", "long"]
    assert "got 5 in episode 'curt'" in found["left_out"][1]["reason"]
    reason = found["left_out"][2]["reason"]
    assert "points that this model can distinguish, got 1920 in episode 'long'; cut the recordings" in reason
    assert "--length …), or train again with longer segments" in reason
    assert "--filters" not in err


@pytest.mark.filterwarnings("always:no values of")
@pytest.mark.parametrize("command", ["predict", "evaluate", "diagnose"])
def test_a_sensor_without_a_value_is_warned_of(model: Path, table: Path, tmp_path: Path, command: str) -> None:
    rows = pd.read_csv(table)
    rows.loc[rows.episode_id == "run_0002", "b"] = None  # of one recording only: nothing to say
    rows.assign(c=None).to_csv(tmp_path / "silent.csv", index=False)
    code, _, err = run(command, model, tmp_path / "silent.csv")
    assert code == 0, err
    assert "no values of c in these recordings: the model sets such sensors to their training mean" in err


@pytest.mark.filterwarnings("ignore:values outside the range", "always:constant in training")
def test_sensor_constant_in_training_is_named_and_ignored(table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table).assign(b=3.0)
    rows.to_csv(tmp_path / "still.csv", index=False)
    code, _, err = run("train", tmp_path / "still.csv", "--out", tmp_path / "trees", "--model", "boosting")
    assert code == 0, err
    _, expected, err = run("predict", tmp_path / "trees", tmp_path / "still.csv")
    assert "throughout training" not in err
    rows.loc[5, "b"] = 4.0
    rows.to_csv(tmp_path / "moving.csv", index=False)
    code, out, err = run("predict", tmp_path / "trees", tmp_path / "moving.csv")
    assert code == 0, err
    assert out == expected
    assert f"constant in training, but not here: b ({1 / len(rows):.2g} of its values); the model" in err


@pytest.mark.filterwarnings("ignore:this processor does not support bf16")
def test_precision_can_be_chosen_for_networks_only(model: Path, table: Path, tmp_path: Path) -> None:
    _, exact, _ = run("predict", model, table)
    assert run("predict", model, table, "--precision", "32")[1] == exact
    code, out, err = run("predict", model, table, "--precision", "bf16")
    assert code == 0, err
    difference = pd.read_csv(StringIO(out))["probability"] - pd.read_csv(StringIO(exact))["probability"]
    assert difference.abs().max() < 0.05
    run("train", table, "--out", tmp_path / "trees", "--model", "boosting")
    code, _, err = run("predict", tmp_path / "trees", table, "--precision", "bf16")
    assert code == 2
    assert "expected a network, got boosting, which does not support bf16; use --precision auto" in err
    assert run("predict", tmp_path / "trees", table, "--precision", "auto")[0] == 0
