"""What each kind of fault does to a stretch, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.injection import effects

RAMP = np.array([1.0, 2.0, 3.0, 4.0])


def test_an_offset_moves_every_value_and_a_missing_one_stays_missing() -> None:
    np.testing.assert_array_equal(effects.offset(np.array([1.0, np.nan]), -2.5), [-1.5, np.nan])


def test_a_drift_is_off_by_the_whole_amount_at_its_end() -> None:
    np.testing.assert_allclose(effects.drift(RAMP, 4.0), [2, 4, 6, 8])


def test_a_gain_of_one_doubles_the_distance_from_the_centre() -> None:
    np.testing.assert_allclose(effects.gain(RAMP, 2.0, 1.0), [0, 2, 4, 6])


def test_a_gain_changes_a_value_one_spread_away_by_strength_spreads() -> None:
    assert effects.gain(np.array([5.0 + 0.7]), 5.0, 3.0)[0] - 5.7 == pytest.approx(3 * 0.7)


def test_a_noise_burst_has_the_wanted_deviation_and_no_bias() -> None:
    added = effects.noise_burst(np.zeros(40_000), 2.0, np.random.default_rng(0))
    assert abs(added.std() - 2.0) < 0.03
    assert abs(added.mean()) < 0.03


def test_what_is_stuck_holds_the_first_value_that_is_there() -> None:
    np.testing.assert_array_equal(effects.stuck(RAMP), [1, 1, 1, 1])
    np.testing.assert_array_equal(effects.stuck(np.array([np.nan, 7.0, np.nan, 9.0])), [np.nan, 7, np.nan, 7])


def test_a_dropout_reads_zero() -> None:
    np.testing.assert_array_equal(effects.dropout(np.array([7.0, np.nan, -3.0])), [0, np.nan, 0])


def test_a_lag_shows_what_was_read_earlier() -> None:
    np.testing.assert_array_equal(effects.lag(np.arange(10.0), 4, 8, 3), [1, 2, 3, 4])


def test_a_decoupled_sensor_moves_like_the_other_episode_around_its_own_level() -> None:
    other = np.array([30.0, 10.0, 20.0, 20.0])
    np.testing.assert_allclose(effects.decouple(RAMP, other, 1.0), 2.5 + np.array([10, -10, 0, 0]))
    np.testing.assert_allclose(effects.decouple(RAMP, other, 0.5), (RAMP + 2.5 + np.array([10, -10, 0, 0])) / 2)


def test_a_decoupled_sensor_keeps_its_own_value_where_one_of_the_two_is_missing() -> None:
    found = effects.decouple(np.array([1.0, 2.0, np.nan]), np.array([np.nan, 5.0, 6.0]), 1.0)
    np.testing.assert_array_equal(found, [1, 2, np.nan])
    nothing = np.full(2, np.nan)
    np.testing.assert_array_equal(effects.decouple(np.array([1.0, 2.0]), nothing, 1.0), [1, 2])


def test_a_switch_takes_points_of_the_other_episode_and_no_values_between() -> None:
    own, other = np.zeros(1000), np.ones(1000)
    found = effects.swap_points(own, other, 0.3, np.random.default_rng(0))
    assert set(found) == {0.0, 1.0}
    assert 0.25 < found.mean() < 0.35
    np.testing.assert_array_equal(effects.swap_points(own, other, 1.0, np.random.default_rng(0)), other)
