"""Whole journeys are plausible: they arrive, do not roll back, and stay within what a real drive can do."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.fleet import draw_conditions
from dfstrans.lab.elevator.journey import set_up
from tests.lab.elevator.journeys import N_SAMPLES, SEED, column, journey, member, trip
from tests.lab.elevator.measurements import levelling, limits, rollback

DAY = draw_conditions(SEED, (9, 0), 0)


def assert_level(numbers: range) -> None:
    found = np.array([levelling(number) for number in numbers])
    error, creep = found.T
    assert np.median(np.abs(error)) < 2.5e-3
    assert np.abs(error).max() < 10e-3
    assert np.abs(error - creep).max() < 4e-3  # what the drive sees it also holds
    down = creep != 0
    assert np.corrcoef(error[down], creep[down])[0, 1] > 0.8


def assert_plausible(numbers: range) -> None:
    voltage, current, ropes, ride = zip(*map(limits, numbers), strict=True)
    assert max(voltage) < 0.8  # of the limit; 0.70 in docs/elevator.md
    assert 15 < max(current) < 40  # A; 34
    assert max(ropes) < 1.85  # 1.71; beyond it the rope would slip
    median = np.median(ride, axis=0) / 9.81e-3
    assert (median > 2).all()  # mg; a real elevator is felt
    assert (median < 20).all()


def test_the_cabin_stops_at_its_floor() -> None:
    assert_level(range(24))


def test_the_cabin_does_not_roll_back() -> None:
    assert max(rollback(number) for number in range(24)) < 2e-3


def test_voltage_current_and_rope_forces_stay_within_limits() -> None:
    assert_plausible(range(12))


@pytest.mark.slow
def test_many_journeys_are_plausible() -> None:
    assert_level(range(200))
    assert max(rollback(number) for number in range(200)) < 2e-3
    assert_plausible(range(100))


def test_the_cabin_follows_the_curve_of_the_drive() -> None:
    setup = journey(0, calm=True)
    travelled = setup.drive.direction * 0.2 * column(setup.run(N_SAMPLES), "Phi")
    begin = round(setup.schedule.go * 400)
    asked = setup.curve.path[:, 0]
    at = (np.arange(begin, begin + len(asked) * 400 // 1000 - 1) - begin) / 400
    np.testing.assert_allclose(
        travelled[begin : begin + len(at)], np.interp(at, np.arange(len(asked)) / 1000, asked), atol=0.02
    )


def test_ripple_belongs_to_the_pulley_and_not_to_the_journey() -> None:
    """From a floor that is 2.8 m higher the pulley stands 2.8 m / R further, the waves by their order times that."""
    where = trip((9, 0))
    low, high = (
        set_up(member(where.installation), where._replace(start_floor=floor, stop_floor=9), DAY).plant.motor
        for floor in (1, 2)
    )
    for name, order in (("cogging", 120), ("ripple_6", 60), ("ripple_1", 10)):
        one, other = getattr(low, name), getattr(high, name)
        assert np.hypot(*one) == pytest.approx(np.hypot(*other))
        turned = np.arctan2(other.cosine, other.sine) - np.arctan2(one.cosine, one.sine)
        assert np.cos(turned - order * 2.8 / 0.2) == pytest.approx(1, abs=1e-9)
