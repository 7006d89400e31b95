"""Segments: gaps are filled, padding is never read, default lengths are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import (
    check_segment_length,
    count_segments,
    cut_segments,
    default_filters,
    default_segment_length,
    hold_last,
)
from dfstrans.errors import DfstransError
from dfstrans.settings import NetworkShape

NAN, INF = np.nan, np.inf
PAPER = NetworkShape.paper(n_sensors=1, segment_length=100)


def unit_scaler(n_sensors: int, mean: float = 0.25) -> SensorScaler:
    """A scaler that changes nothing."""
    names = tuple(f"sensor_{i + 1}" for i in range(n_sensors))
    return SensorScaler(names, np.zeros(n_sensors), np.ones(n_sensors), np.full(n_sensors, mean))


def of_lengths(*lengths: int) -> Episodes:
    return Episodes.from_arrays(np.zeros((len(lengths), 1, max(lengths))), lengths=lengths)


def filled_by_a_loop(row: list[float], fallback: float) -> list[float]:
    present = [value for value in row if not np.isnan(value)]
    last = present[0] if present else fallback
    filled = []
    for value in row:
        last = last if np.isnan(value) else value
        filled.append(last)
    return filled


maybe_missing = st.one_of(st.just(NAN), st.integers(-5, 5).map(float))


@given(st.lists(st.lists(maybe_missing, min_size=4, max_size=4), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_filling_gaps_equals_a_loop_over_points(rows: list[list[float]]) -> None:
    values = np.float32(rows[: len(rows) // 2 * 2]).reshape(-1, 2, 4)
    fallback = np.float32([7, 8])
    assert_array_equal(hold_last(np.float32([[NAN, 3, NAN, 4], [NAN] * 4]), fallback), [[3, 3, 3, 4], [8] * 4])
    expected = [[filled_by_a_loop(row.tolist(), fallback[s]) for s, row in enumerate(episode)] for episode in values]
    assert_array_equal(hold_last(values, fallback), expected)


def test_segments_worked_out_by_hand() -> None:
    # lengths 5 and 3, segments of 2: three segments and two, the last of each incomplete
    values = np.float32([[[1, 2, 3, 4, 5], [NAN, 20, NAN, 40, 50]], [[6, 7, 8, INF, -1], [NAN, NAN, NAN, 1e30, NAN]]])
    episodes, before = Episodes.from_arrays(values, lengths=[5, 3]), values.copy()
    segments, valid = cut_segments(episodes, unit_scaler(2), 2)
    assert segments.shape == (2, 3, 2, 2)
    assert segments.dtype == np.float32
    assert valid.tolist() == [[True, True, True], [True, True, False]]
    assert segments[0].tolist() == [[[1, 2], [20, 20]], [[3, 4], [20, 40]], [[5, 5], [50, 50]]]
    assert segments[1, :2].tolist() == [[[6, 7], [0.25, 0.25]], [[8, 8], [0.25, 0.25]]]
    assert_array_equal(values, before)  # the episodes stay as they are
    assert [count_segments(length, 4) for length in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]
    assert count_segments(np.array([1, 4, 5]), 4).tolist() == [1, 1, 2]


def test_values_are_scaled_and_a_missing_sensor_gets_its_training_mean() -> None:
    scaler = SensorScaler(("a", "b"), np.array([0.0, 10]), np.array([4.0, 30]), np.array([3.0, 15]))
    segments, _ = cut_segments(Episodes.from_arrays([[[0, 1, 2, 8], [NAN] * 4]]), scaler, 4)
    assert segments.tolist() == [[[[0, 0.25, 0.5, 2], [0.25] * 4]]]


@given(st.integers(1, 7), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.sampled_from([NAN, INF, -INF, 1e30]))
@settings(max_examples=40, deadline=None)
def test_padding_is_never_read(segment_length: int, lengths: list[int], garbage: float) -> None:
    rng = np.random.default_rng(len(lengths))
    values = np.full((len(lengths), 2, 15), garbage, dtype=np.float32)
    for row, length in enumerate(lengths):
        values[row, :, :length] = rng.normal(size=(2, length))
    together = cut_segments(Episodes.from_arrays(values, lengths=lengths), unit_scaler(2), segment_length)
    assert not np.isnan(together.values).any()
    assert together.values.shape[1] == -(-max(lengths) // segment_length)
    for row, length in enumerate(lengths):
        n = -(-length // segment_length)
        alone = cut_segments(Episodes.from_arrays(values[[row], :, :length]), unit_scaler(2), segment_length)
        assert together.valid[row].tolist() == [True] * n + [False] * (together.valid.shape[1] - n)
        assert_array_equal(together.values[row, :n], alone.values[0])
        joined = alone.values[0].transpose(1, 0, 2).reshape(2, -1)
        assert_array_equal(joined[:, :length], values[row, :, :length])
        assert_array_equal(
            joined[:, length:], np.repeat(values[row, :, length - 1 : length], n * segment_length - length, 1)
        )


def test_an_infinite_value_within_the_length_is_refused_by_name() -> None:
    episodes = Episodes.from_arrays([[[0.0, 1]], [[2, -INF]]], ids=["good", "bad"], sensors=["Ax"])
    with pytest.raises(DfstransError, match=r"episode 'bad', sensors: Ax;"):
        cut_segments(episodes, unit_scaler(1), 2)


@pytest.mark.parametrize(
    ("lengths", "segment_length"),
    [
        *(((500,), 50), ((8000,), 100), ((400,), 40), ((1000,), 100), ((30,), 8)),  # a tenth, at most 100: the paper's
        ((400, 500, 900), 50),  # of the median
        ((30, 1000, 1500), 30),  # but not longer than the shortest
    ],
)
def test_default_segment_lengths(lengths: tuple[int, ...], segment_length: int) -> None:
    assert default_segment_length(of_lengths(*lengths), PAPER) == segment_length


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=5), st.integers(1, 4), st.sampled_from([2, 4, 20]))
@settings(max_examples=60, deadline=None)
def test_default_segments_fit_the_width_and_the_pooling(lengths: list[int], blocks: int, filters: int) -> None:
    episodes = of_lengths(1)
    object.__setattr__(episodes, "lengths", np.array(lengths))  # long episodes without their memory
    network = NetworkShape.paper(n_sensors=1, segment_length=16, blocks=blocks, filters=filters, heads=1)
    length = default_segment_length(episodes, network)
    assert length >= 2**blocks
    assert count_segments(max(lengths), length) <= filters * (length // 2**blocks)
    if length > max(100, 2**blocks):  # and is no longer than it must be
        assert count_segments(max(lengths), length - 1) > filters * ((length - 1) // 2**blocks)


def test_segments_longer_than_the_shortest_episode_are_refused() -> None:
    episodes = Episodes.from_arrays(np.zeros((2, 1, 90)), lengths=[90, 40], ids=["long", "short"])
    check_segment_length(episodes, 40)
    with pytest.raises(DfstransError, match=r"at least 41 points.* got 40 in episode 'short'"):
        check_segment_length(episodes, 41)
    with pytest.raises(DfstransError, match="shorter segment_length and fewer convolution blocks"):
        check_segment_length(of_lengths(7, 90), 8)
    with pytest.raises(DfstransError, match="got 5 points of 90 sensors, which looks transposed"):
        check_segment_length(Episodes.from_arrays(np.zeros((2, 90, 5))), 8)


@pytest.mark.parametrize(
    ("longest", "segment_length", "heads", "filters"),
    [
        (500, 50, 8, 8),  # 10 segments, 48 dimensions
        (500, 50, 10, 10),  # 48 is not a multiple of 10; 60 is
        (8000, 100, 8, 10),  # 80 segments and a quarter in reserve: 100 of 120 dimensions
        (600, 20, 8, 20),  # 30 segments, 2 points left of each: 37 of 40 dimensions
        (500, 50, 1, 8),
    ],
)
def test_default_filters_suit_heads_and_encoding(longest: int, segment_length: int, heads: int, filters: int) -> None:
    network = NetworkShape.paper(n_sensors=1, segment_length=segment_length, filters=None, heads=1)
    assert default_filters(of_lengths(100, longest), network, heads) == filters
    assert NetworkShape.paper(n_sensors=1, segment_length=segment_length, heads=heads, filters=filters).d_model >= 1
    without_encoding = NetworkShape.paper(n_sensors=1, segment_length=20, filters=None, heads=1, encoding="vanilla")
    assert default_filters(of_lengths(6000), without_encoding, 8) == 8  # whatever the number of segments
