"""The scaler: learned from the training part, gaps ignored, nothing clipped, exact when stored."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.storage import StoredArray, StoredValues
from dfstrans.errors import DfstransError

NAN, INF = np.nan, np.inf


def two_episodes() -> Episodes:
    """Lengths 3 and 2; sensor a has a gap, b is constant; behind the end of the second stands garbage."""
    values = [[[0, 4, NAN], [7, 7, 7]], [[2, 10, -INF], [7, 7, 1e30]]]
    return Episodes.from_arrays(values, lengths=[3, 2], sensors=["a", "b"])


def test_ranges_and_means_worked_by_hand() -> None:
    scaler = SensorScaler.fit(two_episodes())
    assert scaler.sensors == ("a", "b")
    assert_array_equal(scaler.minimum, [0, 7])
    assert_array_equal(scaler.maximum, [10, 7])
    assert_array_equal(scaler.mean, [4, 7])
    assert_array_equal(scaler.constant, [False, True])
    assert_array_equal(scaler.factor, [0.1, 0])
    assert_array_equal(scaler.scaled_mean, np.float32([0.4, 0]))


def test_values_are_mapped_to_0_and_1_and_beyond_and_gaps_stay_gaps() -> None:
    scaler = SensorScaler.fit(two_episodes())
    scaled = scaler.transform(np.float32([[0, 5, 10, 20, -10, NAN], [7, 7, 8, 5, NAN, 7]]))
    assert scaled.dtype == np.float32
    assert_allclose(scaled[0], [0, 0.5, 1, 2, -1, NAN], rtol=1e-6)
    assert_array_equal(scaled[1], [0, 0, 0, 0, NAN, 0])  # constant in training: what it does later is no measure


def test_a_constant_sensor_stays_at_0_whatever_comes() -> None:
    scaler = SensorScaler(("a",), *np.full((3, 1), -3e38))
    with np.errstate(over="ignore", invalid="ignore"):
        assert_array_equal(scaler.transform(np.float32([[3e38, NAN, -3e38]])), [[0, NAN, 0]])


def test_values_out_of_range_are_counted_by_sensor_and_gaps_and_padding_are_not() -> None:
    scaler = SensorScaler.fit(two_episodes())
    later = Episodes.from_arrays([[[-1, 11, 10, NAN], [7, 7, 7, 8]], [[5, 99, 99, 99], [7, 1, 1, 1]]], lengths=[4, 1])
    assert scaler.count_out_of_range(later).tolist() == [2, 1]
    assert scaler.count_out_of_range(two_episodes()).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("step", "said"),
    [(1, "one value throughout as far as 32 bits tell, but a large one: b;"), (50, "few values only: b;")],
)
def test_a_counter_that_32_bits_cannot_tell_is_warned_of_in_training(step: float, said: str) -> None:
    counter = 1.7e9 + step * np.arange(50)
    episodes = Episodes.from_arrays(np.stack([np.arange(50), counter, np.full(50, 5)])[None], sensors=["a", "b", "c"])
    with pytest.warns(UserWarning, match=said):
        SensorScaler.fit(episodes)


def test_infinite_values_are_refused_and_named() -> None:
    episodes = Episodes.from_arrays([[[0, 1], [INF, 2]]], ids=["run 7"], sensors=["a", "b"])
    with pytest.raises(DfstransError, match=r"infinite values in episode 'run 7', sensors: b;"):
        SensorScaler.fit(episodes)


def test_a_sensor_without_a_single_value_is_refused_and_named() -> None:
    episodes = Episodes.from_arrays([[[0, 1], [NAN, NAN]], [[0, 1], [NAN, 5]]], lengths=[2, 1], sensors=["a", "b"])
    with pytest.raises(DfstransError, match=r"got none of: b; leave these sensors out"):
        SensorScaler.fit(episodes)


numbers = st.one_of(st.just(NAN), st.integers(-(10**6), 10**6).map(lambda n: n / 64))


@pytest.mark.filterwarnings("ignore:no value at all in training episodes")
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


def test_a_sensor_that_hardly_moves_gives_finite_numbers() -> None:
    values = np.float32([[[0, 1e-39, 5e-40]]])
    scaler = SensorScaler.fit(Episodes.from_arrays(values))
    assert np.isfinite(scaler.transform(values)).all()


def test_streamed_from_a_file_equals_in_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(7, 3, 20)).astype(np.float32)
    values[2, 1, 4:9] = NAN
    lengths = [20, 5, 20, 11, 1, 20, 19]
    with h5py.File(tmp_path / "values.h5", "w") as file:
        file["values"] = values
    stored = StoredValues.whole(StoredArray(tmp_path / "values.h5", "values", (7, 3, 20)))
    streamed = Episodes.from_arrays(stored, lengths=lengths)
    assert streamed.is_stored
    whole = SensorScaler.fit(Episodes.from_arrays(values, lengths=lengths))
    assert SensorScaler.fit(streamed).to_dict() == whole.to_dict()
    narrow = SensorScaler(whole.sensors, whole.minimum / 2, whole.maximum / 2, whole.mean)
    counts = narrow.count_out_of_range(streamed)
    assert counts.sum() > 0
    assert_array_equal(counts, narrow.count_out_of_range(streamed.in_memory()))


def test_the_order_of_episodes_does_not_matter_for_the_ranges() -> None:
    values = np.random.default_rng(1).normal(size=(6, 2, 9))
    one, other = (SensorScaler.fit(Episodes.from_arrays(v)) for v in (values, values[[5, 2, 0, 4, 1, 3]]))
    assert_array_equal(one.minimum, other.minimum)
    assert_array_equal(one.maximum, other.maximum)
    assert_allclose(one.mean, other.mean)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_round_trip_through_json_is_exact(rows: list[tuple[float, float, float]]) -> None:
    names = tuple(f"Temp. {i} [°C]" for i in range(len(rows)))
    scaler = SensorScaler(names, *(np.array(column) for column in zip(*rows, strict=True)))
    for content in (scaler.to_dict(), json.loads(json.dumps(scaler.to_dict()))):
        again = SensorScaler.from_dict(content)
        assert again.sensors == names
        for name in ("minimum", "maximum", "mean"):
            assert getattr(again, name).tobytes() == getattr(scaler, name).tobytes()


def test_training_episodes_without_a_value_are_warned_of() -> None:
    episodes = Episodes.from_arrays([[[1, 2]], [[NAN, NAN]], [[3, NAN]]], ids=["first", "dead", "gap"])
    with pytest.warns(UserWarning, match="no value at all in training episodes: dead; .*leave them out"):
        SensorScaler.fit(episodes)
