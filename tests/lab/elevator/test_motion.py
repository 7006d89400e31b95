"""How a journey goes: its curve and its schedule."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.motion import longest_duration, s_curve, schedule

CURVES = [(14.0, 0.75, 0.8), (22.4, 0.95, 1.2), (16.8, 0.8437, 0.9719)]


@pytest.mark.parametrize(("distance", "acceleration", "jerk"), CURVES)
def test_the_curve_ends_exactly_there_and_at_rest(distance: float, acceleration: float, jerk: float) -> None:
    curve = s_curve(distance, 1.6, acceleration, jerk)
    np.testing.assert_allclose(curve.path[0], 0)
    np.testing.assert_allclose(curve.path[-1], [distance, 0, 0], atol=1e-10)
    assert len(curve.path) == round(curve.duration * 1000) + 1


@pytest.mark.parametrize(("distance", "acceleration", "jerk"), CURVES)
def test_the_curve_keeps_speed_acceleration_and_jerk(distance: float, acceleration: float, jerk: float) -> None:
    position, speed, pull = s_curve(distance, 1.6, acceleration, jerk).path.T
    assert speed.max() == pytest.approx(1.6, rel=2e-3)  # parts of whole ms
    assert np.abs(pull).max() == pytest.approx(acceleration, rel=2e-3)
    assert np.abs(np.diff(pull)).max() / 1e-3 == pytest.approx(jerk, rel=2e-3)
    np.testing.assert_allclose(np.diff(position) / 1e-3, (speed[1:] + speed[:-1]) / 2, atol=1e-6)
    np.testing.assert_allclose(np.diff(speed) / 1e-3, (pull[1:] + pull[:-1]) / 2, atol=1e-9)


def test_a_distance_too_short_for_full_speed_is_refused() -> None:
    with pytest.raises(ValueError, match="too short to reach"):
        s_curve(2.8, 1.6, 0.75, 0.8)


def test_the_schedule_by_hand() -> None:
    times = schedule(on=0.5, moving=10.0)
    np.testing.assert_allclose(times, [0.5, 0.8, 1.1, 11.1, 11.45, 11.70, 11.95])


def test_the_longest_journey_ends_before_the_recording() -> None:
    moving = 22.4 / 1.6 + 1.6 / 0.75 + 0.75 / 0.8  # the slowest installation that may be drawn
    assert longest_duration(8) == pytest.approx(
        0.6 + 0.3 + 0.3 + moving + 0.35 + 0.25 + 0.25, abs=5e-3
    )  # parts of whole ms
    assert longest_duration(8) < 20
