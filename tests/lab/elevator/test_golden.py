"""The journeys of a seed never change without a new VERSION: files and results of others rest on them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dfstrans.lab.elevator.machine import NOISE, SENSOR_NAMES, SENSORS
from dfstrans.lab.elevator.simulation import VERSION
from tests.lab.elevator import golden

REMEDY = (
    "the journeys of a seed have changed: raise VERSION in simulation.py, then run python -m tests.lab.elevator.golden"
)
KEPT = json.loads(golden.FILE.read_text())


@pytest.fixture(scope="module")
def journeys() -> list[dict[str, Any]]:
    return golden.journeys()


def numbers(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    if isinstance(tree, dict | list):
        inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {f"{name}.{path}": leaf for name, branch in inner for path, leaf in numbers(branch).items()}
    return {"": tree}


def test_golden_journeys_have_the_current_version() -> None:
    assert KEPT["version"] == VERSION, "run python -m tests.lab.elevator.golden"


@pytest.mark.parametrize("row", range(3))
def test_draws_match_the_golden_file(journeys: list[dict[str, Any]], row: int) -> None:
    found, kept = numbers(journeys[row]["recipe"]), numbers(KEPT["journeys"][row]["recipe"])
    assert found.keys() == kept.keys(), REMEDY
    for path, value in kept.items():
        expected = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        assert found[path] == expected, f"{path}: {REMEDY}"


@pytest.mark.parametrize("row", range(3))
def test_clean_signals_match_the_golden_file(journeys: list[dict[str, Any]], row: int) -> None:
    """Within a thousandth of the noise: processors differ in how they round."""
    found, kept = (
        np.array([each["clean"][name] for name in SENSOR_NAMES]).T for each in (journeys[row], KEPT["journeys"][row])
    )
    np.testing.assert_allclose(found / NOISE, kept / NOISE, rtol=0, atol=1e-3, err_msg=REMEDY)


@pytest.mark.parametrize("row", range(3))
def test_measurements_match_the_golden_file(journeys: list[dict[str, Any]], row: int) -> None:
    """To one step of the resolution."""
    for sensor in SENSORS:
        found, kept = (each["measured"][sensor.name] for each in (journeys[row], KEPT["journeys"][row]))
        np.testing.assert_allclose(found, kept, rtol=1e-6, atol=1.01 * sensor.resolution, err_msg=REMEDY)
