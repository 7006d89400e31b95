from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfstrans import Diagnoser
from tests.cli.command_line import SMALL, output_of, refused, result_of


@pytest.mark.parametrize(
    ("sensors", "length", "segments", "parameters"),
    [(20, 100, 80, 3_878_033), (55, 50, 10, 4_197_153), (25, 50, 10, 2_225_553), (38, 50, 10, 3_079_913)],
)
def test_summary_gives_the_papers_parameter_counts(sensors: int, length: int, segments: int, parameters: int) -> None:
    content = result_of("summary", "--sensors", sensors, "--segment-length", length, "--segments", segments)
    assert content["parameters"] == parameters == sum(content["parts"].values())


def test_summary_of_our_preset_is_what_train_builds(model: Path) -> None:
    settings = json.loads((model / "model.json").read_text())["network"]
    shape = ("--sensors", settings["n_sensors"], "--segment-length", settings["segment_length"], "--segments", "3")
    assert result_of("summary", "--preset", "tuned", *shape, *SMALL[:8])["settings"] == settings  # as it was trained
    assert "got both" in refused("summary", model, "--preset", "tuned")


def test_summary_of_a_saved_model_shows_its_metrics(model: Path) -> None:
    out, _ = output_of("summary", model)
    for words in ("parameters", "PR-AUC", "cut into segments of", "calls it anomalous"):
        assert words in out


def test_all_settings_of_a_kind_of_detector_can_be_listed() -> None:
    listed = {row["name"]: row for row in result_of("summary", "--list-settings")["settings"]}
    assert listed.keys() == Diagnoser.default_settings().keys()
    assert all(row["help"] for row in listed.values())
    assert (listed["heads"]["default"], listed["heads"]["paper"]) == (2, 10)
    assert "fewest_in_leaf" in output_of("summary", "--list-settings", "--model", "boosting")[0]
