from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfstrans import Diagnoser
from tests.cli.command_line import SMALL, run


@pytest.mark.parametrize(
    ("sensors", "length", "segments", "parameters"),
    [(20, 100, 80, 3_878_033), (55, 50, 10, 4_197_153), (25, 50, 10, 2_225_553), (38, 50, 10, 3_079_913)],
)
def test_summary_gives_the_papers_parameter_counts(sensors: int, length: int, segments: int, parameters: int) -> None:
    arguments = ["--sensors", sensors, "--segment-length", length, "--segments", segments, "--json"]
    code, out, _ = run("summary", *arguments)
    assert code == 0
    content = json.loads(out)
    assert content["parameters"] == parameters == sum(content["parts"].values())


def test_summary_of_our_preset_is_what_train_builds(model: Path) -> None:
    settings = json.loads((model / "model.json").read_text())["network"]
    shape = ("--sensors", settings["n_sensors"], "--segment-length", settings["segment_length"], "--segments", "3")
    code, out, err = run("summary", "--preset", "tuned", *shape, *SMALL[:8], "--json")  # as it was trained
    assert code == 0, err
    assert json.loads(out)["settings"] == settings
    code, _, err = run("summary", model, "--preset", "tuned")
    assert code == 2
    assert "got both" in err


def test_summary_of_a_saved_model_shows_its_figures(model: Path) -> None:
    code, out, _ = run("summary", model)
    assert code == 0
    assert "parameters" in out
    assert "PR-AUC" in out
    assert "cut into segments of" in out
    assert "calls it anomalous from" in out


def test_all_settings_of_a_kind_of_detector_can_be_listed() -> None:
    code, out, _ = run("summary", "--list-settings", "--json")
    assert code == 0
    listed = {row["name"]: row for row in json.loads(out)["settings"]}
    assert listed.keys() == Diagnoser.default_settings().keys()
    assert all(row["help"] for row in listed.values())
    assert (listed["heads"]["default"], listed["heads"]["paper"]) == (8, 10)
    assert "fewest_in_leaf" in run("summary", "--list-settings", "--model", "boosting")[1]
