"""The fleet: what is drawn lies where it should, and each thing is drawn apart from all others."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.fleet import RANGES, Conditions, draw_conditions, draw_installation, draw_trip

FLOORS = (5, 8)


def test_installations_lie_in_their_ranges_and_a_third_has_no_compensation() -> None:
    drawn = [draw_installation(0, number).installation for number in range(60)]
    for name, (low, high) in RANGES.items():
        values = np.array([getattr(own, name) for own in drawn])
        if name == "compensation":
            assert 0.15 < (values == 0).mean() < 0.55
            values = values[values > 0]
        assert (values >= low).all(), name
        assert (values <= high).all(), name
        assert values.std() > 0.15 * (high - low), name
    for own in drawn:
        assert abs(own.weight - own.sling - own.body - own.balance * 630) <= 8


def test_trips_have_five_to_eight_floors_and_an_allowed_load() -> None:
    trips = [draw_trip(0, (0, number), 8, FLOORS) for number in range(800)]
    floors = [abs(trip.stop_floor - trip.start_floor) for trip in trips]
    assert sorted(set(floors)) == [5, 6, 7, 8]
    assert {trip.installation for trip in trips} == set(range(8))
    assert np.mean([trip.direction for trip in trips]) == pytest.approx(0, abs=0.12)
    for trip in trips:
        assert 0 <= min(trip.start_floor, trip.stop_floor) < max(trip.start_floor, trip.stop_floor) <= 9
        assert trip.distance == pytest.approx(2.8 * abs(trip.stop_floor - trip.start_floor))
        assert 0 <= trip.load <= 630
        assert 0.25 <= trip.on <= 0.6
        assert abs(trip.offset_x - 6) <= 0.42 * trip.load + 1e-9
        assert abs(trip.offset_y - 8) <= 0.50 * trip.load + 1e-9
        assert (trip.passengers == 0) == (trip.load == 0)
    counts = np.bincount([trip.passengers for trip in trips], minlength=9) / len(trips)
    np.testing.assert_allclose(counts[:5], [0.16, 0.22, 0.20, 0.14, 0.11], atol=0.05)
    assert np.mean([trip.load / trip.passengers for trip in trips if trip.passengers]) == pytest.approx(75, abs=2)


def test_conditions_vary_as_specified() -> None:
    days = [draw_conditions(0, (0, number), 2) for number in range(800)]

    def values(name: str) -> np.ndarray:
        return np.array([getattr(day, name) for day in days])

    def spread(name: str) -> float:
        return float(np.log(values(name)).std())

    assert spread("lubrication_cabin") == pytest.approx(np.hypot(0.10, 0.03), rel=0.1)
    both = np.log(values("lubrication_cabin") / values("lubrication_weight"))
    assert both.std() == pytest.approx(np.hypot(0.03, 0.03), rel=0.1)
    assert spread("static") == pytest.approx(0.05, rel=0.1)
    assert spread("stribeck_speed") == pytest.approx(0.08, rel=0.1)
    assert spread("wear") == pytest.approx(0.03, rel=0.1)
    assert values("load_gain").std() == pytest.approx(0.03, rel=0.1)
    assert values("load_offset").std() == pytest.approx(8, rel=0.1)
    assert values("rail_amplitude").std() == pytest.approx(0.1, rel=0.1)
    for name, low, high in (("ambient", 5, 35), ("supply", 517, 583), ("locked_cabin", -0.5, 0.5)):
        assert low <= values(name).min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values(name).max() <= high
    warmer = values("winding") - values("ambient")
    assert 5 <= warmer.min() < warmer.max() <= 65
    for day in days[:20]:
        assert np.sqrt(np.mean(day.fresh_cabin**2)) == pytest.approx(0.015)
        assert not np.array_equal(day.fresh_cabin, day.fresh_weight)


def test_movements_are_as_specified_and_need_passengers() -> None:
    moved = [draw_conditions(0, (0, number), 2).movements for number in range(400)]
    counts = np.bincount([len(events) for events in moved], minlength=4) / 400
    np.testing.assert_allclose(counts, [0, 0.55, 0.30, 0.15], atol=0.08)
    share, duration, x, y, z = np.concatenate(moved).T
    force = np.hypot(x, y)
    assert (share >= 0).all()
    assert (share <= 1).all()
    assert (duration >= 0.12).all()
    assert (duration <= 0.52).all()
    assert force.min() >= 20
    assert force.max() <= 20 * 10**0.9
    assert (np.abs(z) <= 2 * force).all()
    assert draw_conditions(0, (0, 0), 0).movements.shape == (0, 5)


def test_conditions_do_not_depend_on_passengers() -> None:
    """So that the null, in which nobody moves, has the same days."""
    empty, full = draw_conditions(0, (0, 3), 0), draw_conditions(0, (0, 3), 5)
    assert_same_but_for(empty, full, "movements")


def test_draws_depend_on_the_key_only() -> None:
    assert_same_but_for(draw_conditions(0, (0, 3), 2), draw_conditions(0, (0, 3), 2), "")
    assert draw_trip(0, (0, 3), 8, FLOORS) == draw_trip(0, (0, 3), 8, FLOORS)
    assert draw_installation(0, 3).installation == draw_installation(0, 3).installation
    trips = {draw_trip(seed, (group, n), 8, FLOORS).on for seed in (0, 1) for group in (0, 1, 2) for n in range(20)}
    assert len(trips) > 90  # of 120, on a grid of 351 ms
    days = {draw_conditions(seed, (group, n), 0).ambient for seed in (0, 1) for group in (0, 1, 2) for n in range(20)}
    assert len(days) == 120
    assert len({draw_installation(seed, n).installation.sling for seed in range(4) for n in range(8)}) == 32


def assert_same_but_for(first: Conditions, second: Conditions, name: str) -> None:
    for field in Conditions._fields:
        if field != name:
            np.testing.assert_array_equal(getattr(first, field), getattr(second, field), err_msg=field)
