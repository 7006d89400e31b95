from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import run


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


def test_summary_of_a_saved_model_shows_its_figures(model: Path) -> None:
    code, out, _ = run("summary", model)
    assert code == 0
    assert "parameters" in out
    assert "PR-AUC" in out
    assert "cut into segments of" in out
    assert "calls it anomalous from" in out
