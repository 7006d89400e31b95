"""The scaler: learned from the training part, ignores gaps, clips nothing, exact in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError

NAN, INF = np.nan, np.inf
# lengths 3 and 2; a has a gap, b is constant; the padding of the second is garbage
TWO = Episodes.from_arrays(
    [[[0, 4, NAN], [7, 7, 7]], [[2, 10, -INF], [7, 7, 1e30]]], lengths=[3, 2], sensors=["a", "b"]
)


def test_ranges_and_means_worked_out_by_hand() -> None:
    scaler = SensorScaler.fit(TWO)
    assert scaler.sensors == ("a", "b")
    assert_array_equal(scaler.minimum, [0, 7])
    assert_array_equal(scaler.maximum, [10, 7])
    assert_array_equal(scaler.mean, [4, 7])
    assert_array_equal(scaler.constant, [False, True])
    assert_array_equal(scaler.factor, [0.1, 0])
    assert_array_equal(scaler.scaled_mean, np.float32([0.4, 0]))


def test_values_are_not_clipped_and_gaps_stay_gaps() -> None:
    scaled = SensorScaler.fit(TWO).transform(np.float32([[0, 5, 10, 20, -10, NAN], [7, 7, 8, 5, NAN, 7]]))
    assert scaled.dtype == np.float32
    assert_allclose(scaled[0], [0, 0.5, 1, 2, -1, NAN], rtol=1e-6)
    assert_array_equal(scaled[1], [0, 0, 0, 0, NAN, 0])  # constant in training


def test_extreme_ranges_give_finite_numbers() -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        constant = SensorScaler(("a",), *np.full((3, 1), -3e38))
        assert_array_equal(constant.transform(np.float32([[3e38, NAN, -3e38]])), [[0, NAN, 0]])
    tiny = np.float32([[[0, 1e-39, 5e-40]]])
    assert np.isfinite(SensorScaler.fit(Episodes.from_arrays(tiny)).transform(tiny)).all()


def test_values_out_of_range_are_counted_without_gaps_and_padding() -> None:
    scaler = SensorScaler.fit(TWO)
    later = Episodes.from_arrays([[[-1, 11, 10, NAN], [7, 7, 7, 8]], [[5, 99, 99, 99], [7, 1, 1, 1]]], lengths=[4, 1])
    assert scaler.count_out_of_range(later).tolist() == [2, 1]
    assert scaler.count_out_of_range(TWO).tolist() == [0, 0]


@pytest.mark.parametrize(("factor", "found"), [(1000, 1000), (0.001, 0.001), (60, 60), (3.7, NAN), (1, NAN)])
def test_another_unit_is_told_by_its_factor(factor: float, found: float) -> None:
    level = np.random.default_rng(0).uniform(20, 80, size=(6, 1, 50))
    scaler = SensorScaler.fit(Episodes.from_arrays(np.concatenate([level, level - 50, np.ones_like(level)], axis=1)))
    part = level[2:3, :, 10:30]  # does not fill the range
    moved = np.concatenate([factor * part, part - 50, factor * part], axis=1)
    assert_array_equal(scaler.unit_factors(Episodes.from_arrays(moved)), [found, NAN, NAN])


@pytest.mark.parametrize(("step", "said"), [(1, "constant in float32: b;"), (50, "to a few values: b;")])
def test_a_counter_beyond_float32_precision_gives_a_warning(step: float, said: str) -> None:
    counter = 1.7e9 + step * np.arange(50)
    episodes = Episodes.from_arrays(np.stack([np.arange(50), counter, np.full(50, 5)])[None], sensors=["a", "b", "c"])
    with pytest.warns(UserWarning, match=said):
        SensorScaler.fit(episodes)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[[0, 1], [INF, 2]], [[0, 1], [0, 0]]], "infinite values in episode 'episode_0', sensors: b;"),
        ([[[0, 1], [NAN, NAN]], [[0, 1], [NAN, 5]]], "got none of: b; drop these sensors"),
    ],
)
def test_infinite_values_and_empty_sensors_are_refused_by_name(values: list[list[list[float]]], said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        SensorScaler.fit(Episodes.from_arrays(values, lengths=[2, 1], sensors=["a", "b"]))


numbers = st.one_of(st.just(NAN), st.integers(-(10**6), 10**6).map(lambda n: n / 64))


@pytest.mark.filterwarnings("ignore:training episodes without any value")
@given(st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_fit_equals_numpy_on_the_whole_and_maps_training_to_0_1(rows: list[list[float]]) -> None:
    values = np.float32(rows).reshape(-1, 2, 3)
    values[0, :, 0] = np.nan_to_num(values[0, :, 0])  # at least one value of each
    scaler = SensorScaler.fit(Episodes.from_arrays(values))
    assert_array_equal(scaler.minimum, np.nanmin(values, axis=(0, 2)))
    assert_array_equal(scaler.maximum, np.nanmax(values, axis=(0, 2)))
    assert_allclose(scaler.mean, np.nanmean(values.astype(np.float64), axis=(0, 2)), rtol=1e-12, atol=1e-9)
    scaled = scaler.transform(values)
    assert_array_equal(np.isnan(scaled), np.isnan(values))
    assert np.nanmin(scaled) == 0
    assert np.nanmax(scaled) <= 1 + 1e-6


def test_streaming_from_a_file_equals_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(7, 3, 20)).astype(np.float32)
    values[2, 1, 4:9] = NAN
    episodes = Episodes.from_arrays(values, lengths=[20, 5, 20, 11, 1, 20, 19])
    streamed = load_episodes(save_episodes(episodes, tmp_path / "set.h5"))
    whole = SensorScaler.fit(episodes)
    assert SensorScaler.fit(streamed).to_dict() == whole.to_dict()
    narrow = SensorScaler(whole.sensors, whole.minimum / 2, whole.maximum / 2, whole.mean)
    assert narrow.count_out_of_range(streamed).sum() > 0
    assert_array_equal(narrow.count_out_of_range(streamed), narrow.count_out_of_range(episodes))


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_round_trip_through_json_is_exact(rows: list[tuple[float, float, float]]) -> None:
    names = tuple(f"Temp. {i} [°C]" for i in range(len(rows)))
    scaler = SensorScaler(names, *(np.array(column) for column in zip(*rows, strict=True)))
    again = SensorScaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    assert again.sensors == names
    for name in ("minimum", "maximum", "mean"):
        assert getattr(again, name).tobytes() == getattr(scaler, name).tobytes()
