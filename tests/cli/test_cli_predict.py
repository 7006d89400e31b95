from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.command_line import output_of, refused


def test_predict_and_diagnose_ignore_unreadable_labels(model: Path, table: Path, tmp_path: Path) -> None:
    words = pd.read_csv(table).replace({"label": {0: "fine", 1: "broken"}})
    words.to_csv(tmp_path / "words.csv", index=False)
    expected, _ = output_of("predict", model, table)
    out, err = output_of("predict", model, tmp_path / "words.csv")
    assert out == expected
    assert "read without their labels: expected labels 0 (normal) or 1 (anomalous)" in err
    assert "--anomalous-value" in err
    one = ("--episode", "run_0003", "--no-trust", "--html", tmp_path / "one.html")
    out, err = output_of("diagnose", model, tmp_path / "words.csv", *one, "--label-column", "label")
    assert out.startswith("run_0003: ")
    assert "read without their labels" in err
    assert "specify which value means" in refused("evaluate", model, tmp_path / "words.csv")


@pytest.mark.parametrize("command", ["predict", "evaluate", "diagnose"])
def test_another_sampling_interval_is_refused(model: Path, table: Path, tmp_path: Path, command: str) -> None:
    slower = pd.read_csv(table)
    slower["time"] *= 5
    slower.to_csv(tmp_path / "slower.csv", index=False)
    err = refused(command, model, tmp_path / "slower.csv")
    assert "expected a sampling interval of 1, as in training, got 5; resample the recordings" in err


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_skipped_recordings_are_listed_with_a_remedy(model: Path, table: Path, tmp_path: Path) -> None:
    first = pd.read_csv(table).drop(columns="label").query("episode_id == 'run_0001'")  # no labels are needed
    empty = first.assign(episode_id="empty", a=None, b=None, c=None)
    short = [first.query("time < 5").assign(episode_id=name) for name in ("brief", "curt")]
    long = pd.concat([first] * 40).assign(episode_id="long", time=range(48 * 40))
    pd.concat([first, *short, empty, long]).to_csv(tmp_path / "some.csv", index=False)
    out, err = output_of("predict", model, tmp_path / "some.csv", "--json")
    found = json.loads(out)
    assert [row["episode_id"] for row in found["predictions"]] == ["run_0001"]
    assert [one["id"] for one in found["skipped"]] == ["brief", "curt", "empty", "long"]
    assert "at least 16 points" in found["skipped"][1]["reason"]
    assert "got 5 in episode 'curt'" in found["skipped"][1]["reason"]
    assert "got none in episode 'empty'" in found["skipped"][2]["reason"]
    reason = found["skipped"][3]["reason"]
    assert "skipped 4 of 5 episodes: brief, curt, empty, long" in err
    assert "points that this model can distinguish, got 1920 in episode 'long'; cut the recordings" in reason
    assert "--length …), or train again with longer segments" in reason
    assert "--filters" not in err


@pytest.mark.filterwarnings("always:no values of")
@pytest.mark.parametrize("command", ["predict", "evaluate", "diagnose"])
def test_a_sensor_without_a_value_is_warned_of(model: Path, table: Path, tmp_path: Path, command: str) -> None:
    rows = pd.read_csv(table)
    rows.loc[rows.episode_id == "run_0002", "b"] = None  # of one recording only: nothing to say
    rows.assign(c=None).to_csv(tmp_path / "silent.csv", index=False)
    _, err = output_of(command, model, tmp_path / "silent.csv")
    assert "no values of c in these recordings: the model sets such sensors to their training mean" in err


@pytest.mark.filterwarnings("ignore:values outside the range", "always:constant in training")
def test_sensor_constant_in_training_is_named_and_ignored(table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table).assign(b=3.0)
    rows.to_csv(tmp_path / "still.csv", index=False)
    output_of("train", tmp_path / "still.csv", "--out", tmp_path / "trees", "--model", "boosting")
    expected, err = output_of("predict", tmp_path / "trees", tmp_path / "still.csv")
    assert "constant in training" not in err
    rows.loc[5, "b"] = 4.0
    rows.to_csv(tmp_path / "moving.csv", index=False)
    out, err = output_of("predict", tmp_path / "trees", tmp_path / "moving.csv")
    assert out == expected
    assert f"constant in training, but not here: b ({1 / len(rows):.2g} of its values); the model" in err


@pytest.mark.filterwarnings("always:values outside the range")
def test_recordings_in_another_unit_are_told_from_others_that_are_out_of_range(
    model: Path, table: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(table)
    for path, changed, words in (
        (
            "unit.csv",
            rows.assign(b=1000 * rows["b"]),
            "divided by 1000, the values of b are within it; if this is another unit",
        ),
        ("level.csv", rows.assign(b=rows["b"] + 1e5 / 3), "do not rely on the decisions: check these sensors"),
    ):
        changed.to_csv(tmp_path / path, index=False)
        _, err = output_of("predict", model, tmp_path / path)
        assert "values outside the range seen in training: b (" in err
        assert words in err


@pytest.mark.filterwarnings("ignore:this processor does not support bf16")
def test_precision_can_be_chosen_for_networks_only(model: Path, table: Path, tmp_path: Path) -> None:
    exact, _ = output_of("predict", model, table)
    assert output_of("predict", model, table, "--precision", "32")[0] == exact
    out, _ = output_of("predict", model, table, "--precision", "bf16")
    difference = pd.read_csv(StringIO(out))["probability"] - pd.read_csv(StringIO(exact))["probability"]
    assert difference.abs().max() < 0.05
    output_of("train", table, "--out", tmp_path / "trees", "--model", "boosting")
    err = refused("predict", tmp_path / "trees", table, "--precision", "bf16")
    assert "expected a network, got boosting, which does not support bf16; use --precision auto" in err
    output_of("predict", tmp_path / "trees", table, "--precision", "auto")
