from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans.lab.elevator.machine import SENSOR_NAMES, SENSORS
from dfstrans.lab.elevator.page import AFFECTED, fault_figure, normal_figure, write_journeys
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(SimulationSettings(normal=6, faulty=3, seed=7))


def test_faulty_journey_is_drawn_with_its_twin_and_the_difference(fleet: Fleet) -> None:
    journey = fleet.journey(8)
    figure = fault_figure(journey)
    assert len(figure.data) == 3 * len(SENSOR_NAMES)
    marked = [shape for shape in figure.layout.shapes if shape.fillcolor == AFFECTED]
    assert marked
    column = SENSOR_NAMES.index("Ax")
    first = int(np.flatnonzero(journey.relevance[:, column] >= 1)[0])
    axis = f"x{3 * column + 3}"
    assert any(shape.xref == axis and shape.x0 == pytest.approx(first * 0.25) for shape in marked)
    shown = [figure.layout[f"yaxis{3 * SENSOR_NAMES.index('Fc') + number}"].range for number in (1, 2)]
    force = np.concatenate([journey.twin, journey.clean])[:, SENSOR_NAMES.index("Fc")]
    assert shown[0] == shown[1]  # on one scale, to be compared
    assert shown[0][0] < force.min() < force.max() < shown[0][1]
    dotted = {shape.x0 for shape in figure.layout.shapes if shape.line.dash == "dot"}
    assert len(dotted) == len(journey.faults)


def test_page_draws_recorded_sensors_and_names_the_faulty_one(tmp_path: Path) -> None:
    fleet = Fleet(SimulationSettings(normal=1, faulty=1, faults=("sensor-gain",), seed=7, sensors="no-friction"))
    journey = fleet.journey(1)
    figure = fault_figure(journey)
    assert len(figure.data) == 3 * 18
    assert not [note.text for note in figure.layout.annotations if "Friction" in note.text]
    assert len(normal_figure({"up": fleet.journey(0)}).data) == 18
    sensor = journey.faults[0].sensors[0]
    page = write_journeys(tmp_path / "journeys.html", fleet).read_text(encoding="utf-8")
    assert f"sensor-gain (severity {journey.faults[0].severity:.2g}, {sensor})" in page
    for column, name in enumerate(journey.sensors):
        axis = figure.layout[f"yaxis{3 * column + 3}"]
        assert (axis.range == (-1, 1)) == (name != sensor)  # nothing changed, and no scale of nothing
        marked = [shape for shape in figure.layout.shapes if shape.fillcolor == AFFECTED]
        assert {shape.xref for shape in marked} == {f"x{3 * journey.sensors.index(sensor) + 3}"}


def test_normal_journeys_are_drawn_side_by_side(fleet: Fleet) -> None:
    figure = normal_figure({"up": fleet.journey(0), "down": fleet.journey(1)})
    assert len(figure.data) == 2 * len(SENSOR_NAMES)
    assert {shape.xref for shape in figure.layout.shapes} == {"x", "x2"}
    texts = [note.text for note in figure.layout.annotations]
    assert texts[:2] == ["up", "down"]
    assert texts[2:] == [f"<b>{name}</b><br>{unit}" for name, unit, *_ in SENSORS]


def test_page_shows_both_directions_and_every_fault_and_is_self_contained(fleet: Fleet, tmp_path: Path) -> None:
    page = write_journeys(tmp_path / "journeys.html", fleet).read_text(encoding="utf-8")
    for expected in ("up from floor", "down from floor", "lubrication (", "misalignment (", "bump ("):
        assert expected in page
    assert 'src="http' not in page
