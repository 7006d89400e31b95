from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, Episodes, Fault, load_episodes, save_episodes
from dfstrans.data.truth import Truth


def truth(
    n_episodes: int = 3, n_segments: int = 4, n_sensors: int = 2, segment_length: int = 10, noise_ratio: bool = True
) -> Truth:
    rng = np.random.default_rng(0)
    cells = (n_episodes, n_segments, n_sensors)
    return Truth(
        segment_length,
        rng.uniform(0, 3, cells).astype(np.float16),
        rng.integers(0, 2, (n_episodes, n_segments)).astype(np.int8),
        ("rest", "work"),
        rng.uniform(0, 1e6, cells).astype(np.float32) if noise_ratio else None,
    )


def episodes(known: Truth) -> Episodes:
    n, n_segments, n_sensors = known.relevance.shape
    values = np.random.default_rng(1).normal(size=(n, n_sensors, n_segments * known.segment_length))
    faults = [[Fault(3, 9, ("a",), "bump", 1.25)]] + [[] for _ in range(n - 1)]
    return Episodes.from_arrays(values, [1] + [0] * (n - 1), sensors=["a", "b"], faults=faults, truth=known)


def test_affected_is_one_or_more_and_strong_is_two_or_more() -> None:
    known = Truth(5, np.array([[[0.5, 1.0, 1.9, 2.0]]], dtype=np.float16), np.zeros((1, 1), np.int8), ("rest",))
    assert known.affected.tolist() == [[[False, True, True, True]]]
    assert known.strong.tolist() == [[[False, False, False, True]]]


def test_relevance_of_a_sensor_or_segment_is_that_of_its_worst_cell() -> None:
    cells = np.array([[[0.5, 1.0], [3.0, 0.0], [2.0, 0.25]]], dtype=np.float16)
    known = Truth(5, cells, np.zeros((1, 3), np.int8), ("rest",))
    assert known.sensor_relevance.tolist() == [[3.0, 1.0]]
    assert known.segment_relevance.tolist() == [[1.0, 3.0, 2.0]]


@pytest.mark.parametrize("noise_ratio", [True, False])
@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_truth_and_severity_survive_a_file(tmp_path: Path, suffix: str, noise_ratio: bool) -> None:
    before = episodes(truth(noise_ratio=noise_ratio))
    after = load_episodes(save_episodes(before, tmp_path / f"episodes{suffix}"))
    assert after.truth is not None
    assert before.truth is not None
    np.testing.assert_array_equal(after.truth.relevance, before.truth.relevance)
    np.testing.assert_array_equal(after.truth.phases, before.truth.phases)
    assert (after.truth.segment_length, after.truth.phase_names) == (10, ("rest", "work"))
    assert (after.truth.noise_ratio is None) == (not noise_ratio)
    if after.truth.noise_ratio is not None and before.truth.noise_ratio is not None:
        np.testing.assert_array_equal(after.truth.noise_ratio, before.truth.noise_ratio)
    assert after.faults is not None
    assert after.faults[0] == (Fault(3, 9, ("a",), "bump", 1.25),)


def test_truth_follows_episodes_and_sensors_that_are_selected() -> None:
    whole = episodes(truth())
    part = whole[[2, 0]].select_sensors(["b"])
    assert part.truth is not None
    assert whole.truth is not None
    np.testing.assert_array_equal(part.truth.relevance, whole.truth.relevance[[2, 0]][:, :, [1]])
    np.testing.assert_array_equal(part.truth.phases, whole.truth.phases[[2, 0]])
    assert part.truth.noise_ratio is not None
    assert whole.truth.noise_ratio is not None
    np.testing.assert_array_equal(part.truth.noise_ratio, whole.truth.noise_ratio[[2, 0]][:, :, [1]])


def test_truth_of_joined_episodes_is_the_joined_truth() -> None:
    whole = episodes(truth())
    joined = Episodes.concatenate([whole[:1], whole[1:]])
    assert joined.truth is not None
    assert whole.truth is not None
    np.testing.assert_array_equal(joined.truth.relevance, whole.truth.relevance)
    assert joined.truth.noise_ratio is not None
    assert whole.truth.noise_ratio is not None
    np.testing.assert_array_equal(joined.truth.noise_ratio, whole.truth.noise_ratio)


def test_joined_truth_has_a_noise_ratio_only_where_every_part_has_one() -> None:
    assert Truth.concatenate([truth(), truth(noise_ratio=False)]).noise_ratio is None


def test_a_noise_ratio_of_another_shape_is_refused() -> None:
    with pytest.raises(DfstransError, match="noise ratio for each of"):
        replace(truth(), noise_ratio=np.zeros((3, 4, 1), np.float32))


def test_truths_cut_differently_cannot_be_joined() -> None:
    with pytest.raises(DfstransError, match="same segments"):
        Truth.concatenate([truth(), truth(segment_length=5)])


def test_truth_of_another_shape_is_refused() -> None:
    with pytest.raises(DfstransError, match="truth of 3 episodes"):
        Episodes.from_arrays(np.zeros((3, 2, 40)), truth=truth(n_episodes=2))


def test_cells_of_longer_segments_take_the_largest_relevance_they_overlap() -> None:
    relevance = np.array([[[0.0], [3.0], [1.0], [0.0]]], dtype=np.float16)
    known = Truth(10, relevance, np.zeros((1, 4), np.int8), ("rest",))
    assert known.cells(0, 20, 2).tolist() == [[3.0], [1.0]]
    assert known.cells(0, 15, 3).tolist() == [[3.0], [3.0], [0.0]]
    assert known.cells(0, 5, 8)[:, 0].tolist() == [0, 0, 3, 3, 1, 1, 0, 0]


def test_fault_cells_are_the_affected_cells() -> None:
    whole = episodes(truth())
    assert whole.truth is not None
    np.testing.assert_array_equal(whole.fault_cells(1, 10), whole.truth.affected[1])
