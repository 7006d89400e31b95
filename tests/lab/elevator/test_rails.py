"""Rails: as rough as asked, in the band that was asked, and read by the kernel as drawn."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.plant import SLOPE_X, SLOPE_Y, W_X, W_Y
from dfstrans.lab.elevator.rails import HEIGHTS, bracket_profile, draw_rails, joints, rail_grid, random_profile


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(("rms", "band", "exponent"), [(3e-4, (0.05, 1), 2), (1e-5, (1, 12), 1.5), (0.15, (0.3, 5), 1)])
def test_a_random_profile_has_its_rms_band_and_slope_of_spectrum(
    rng: np.random.Generator, rms: float, band: tuple[float, float], exponent: float
) -> None:
    profiles = np.stack([random_profile(rng, rms, band, exponent) for _ in range(200)])
    np.testing.assert_allclose(np.sqrt((profiles**2).mean(axis=1)), rms)
    power = (np.abs(np.fft.rfft(profiles)) ** 2).mean(axis=0)
    frequency = np.fft.rfftfreq(len(HEIGHTS), 0.004)
    inside = (frequency >= band[0]) & (frequency <= band[1])
    assert power[~inside].sum() < 1e-20 * power.sum()
    fitted = np.polyfit(np.log(frequency[inside]), np.log(power[inside]), 1)[0]
    assert fitted == pytest.approx(-exponent, abs=0.15)


def test_a_bracket_profile_is_smooth_with_unit_rms(rng: np.random.Generator) -> None:
    profile = bracket_profile(rng, 1.0)
    assert np.sqrt(np.mean(profile**2)) == pytest.approx(1)
    assert profile.mean() == pytest.approx(0, abs=1e-12)
    power = np.abs(np.fft.rfft(profile * np.hanning(len(profile)))) ** 2
    slow = np.fft.rfftfreq(len(HEIGHTS), 0.004) < 0.8  # nodes every 2.5 m
    assert power[slow].sum() > 0.999 * power.sum()


def test_joint_is_a_decaying_step(rng: np.random.Generator) -> None:
    """The pieces are 5 m long: nothing a metre before the first joint, a jump at it, a seventh of it 1.2 m later."""
    profile = joints(rng, 1.0)
    before, after = np.interp([4.7, 5.12], HEIGHTS, profile)
    assert abs(before) < 1e-3 * abs(after)
    assert np.interp(6.32, HEIGHTS, profile) == pytest.approx(after * np.exp(-2), rel=0.02)
    np.testing.assert_allclose(profile[HEIGHTS < 4], 0, atol=1e-10)


def test_rails_are_as_rough_as_specified() -> None:
    for seed in range(6):
        rails = draw_rails(np.random.default_rng(seed))
        for bend in (rails.x, rails.y):
            assert 0.2e-3 < np.sqrt(np.mean(bend**2)) < 0.65e-3
        for gauge in (rails.gauge_cabin, rails.gauge_weight):
            assert 0.05e-3 < np.sqrt(np.mean(gauge**2)) < 0.25e-3
        for factor in (rails.factor_cabin, rails.factor_weight):
            assert factor.mean() == pytest.approx(1)
            assert 0.02 <= factor.std() <= 0.04


def test_rails_differ_by_side_and_direction() -> None:
    rails = draw_rails(np.random.default_rng(1))
    pairs = ((rails.x, rails.y), (rails.gauge_cabin, rails.gauge_weight), (rails.factor_cabin, rails.factor_weight))
    for first, second in pairs:
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.9


def test_slopes_in_the_grid_are_those_of_the_bends() -> None:
    rails = draw_rails(np.random.default_rng(2))
    grid = rail_grid(rails)
    assert grid.shape == (7600, 8)
    for bend, slope in ((W_X, SLOPE_X), (W_Y, SLOPE_Y)):
        climbed = np.concatenate([[0], np.cumsum((grid[1:, slope] + grid[:-1, slope]) / 2 * 0.004)])
        np.testing.assert_allclose(climbed, grid[:, bend] - grid[0, bend], atol=3e-6)
    np.testing.assert_array_equal(grid[:, W_X], rails.x)
    np.testing.assert_array_equal(grid[:, W_Y], rails.y)
