"""GradedTruth follows its episodes through selections, concatenations and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans import DfstransError, Episodes, Fault, load_episodes, save_episodes
from dfstrans.data.truth import GradedTruth

RNG = np.random.default_rng(0)
TRUTH = GradedTruth(
    segment_length=10,
    relevance=RNG.uniform(0, 3, (3, 4, 2)).astype(np.float16),
    phases=RNG.integers(0, 2, (3, 4)).astype(np.int8),
    phase_names=("rest", "work"),
    noise_ratio=RNG.uniform(0, 1e6, (3, 4, 2)).astype(np.float32),
)
EPISODES = Episodes.from_arrays(
    RNG.normal(size=(3, 2, 40)),
    [1, 0, 0],
    sensors=["a", "b"],
    faults=[[Fault(3, 9, ("a",), "bump", 1.25)], [], []],
    truth=TRUTH,
)


def assert_same_truth(given: GradedTruth | None, expected: GradedTruth) -> None:
    assert given is not None
    assert (given.segment_length, given.phase_names) == (expected.segment_length, expected.phase_names)
    for name in ("relevance", "phases", "noise_ratio"):
        assert_array_equal(getattr(given, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("truth", [TRUTH, replace(TRUTH, noise_ratio=None)], ids=["with ratio", "without"])
@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_truth_and_severity_survive_a_file(tmp_path: Path, suffix: str, truth: GradedTruth) -> None:
    after = load_episodes(save_episodes(replace(EPISODES, truth=truth), tmp_path / f"episodes{suffix}"))
    assert_same_truth(after.truth, truth)
    assert after.faults == EPISODES.faults


def test_truth_follows_selected_episodes_and_sensors() -> None:
    assert TRUTH.noise_ratio is not None
    expected = replace(
        TRUTH,
        relevance=TRUTH.relevance[[2, 0]][:, :, [1]],
        phases=TRUTH.phases[[2, 0]],
        noise_ratio=TRUTH.noise_ratio[[2, 0]][:, :, [1]],
    )
    assert_same_truth(EPISODES[[2, 0]].select_sensors(["b"]).truth, expected)


def test_concatenated_truth_has_a_noise_ratio_only_if_every_part_has_one() -> None:
    assert_same_truth(Episodes.concatenate([EPISODES[:1], EPISODES[1:]]).truth, TRUTH)
    assert GradedTruth.concatenate([TRUTH, replace(TRUTH, noise_ratio=None)]).noise_ratio is None


def test_truth_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(DfstransError, match="noise ratio for each of"):
        replace(TRUTH, noise_ratio=np.zeros((3, 4, 1), np.float32))
    with pytest.raises(DfstransError, match="same segments"):
        GradedTruth.concatenate([TRUTH, replace(TRUTH, segment_length=5)])
    with pytest.raises(DfstransError, match="truth of 3 episodes"):
        Episodes.from_arrays(np.zeros((3, 2, 40)), truth=TRUTH.select([0, 1]))


def test_cells_of_other_segments_take_the_largest_relevance_they_overlap() -> None:
    relevance = np.array([[[0.0], [3.0], [1.0], [0.0]]], dtype=np.float16)
    truth = GradedTruth(10, relevance, np.zeros((1, 4), np.int8), ("rest",))
    assert truth.cells(0, 20, 2).tolist() == [[3.0], [1.0]]
    assert truth.cells(0, 15, 3).tolist() == [[3.0], [3.0], [0.0]]
    assert truth.cells(0, 5, 8)[:, 0].tolist() == [0, 0, 3, 3, 1, 1, 0, 0]


def test_fault_cells_are_the_cells_with_a_relevance_of_1_or_more() -> None:
    assert_array_equal(EPISODES.fault_cells(1, 10), TRUTH.relevance[1] >= 1)
    assert_array_equal(EPISODES.fault_cells(1, 10), TRUTH.affected[1])
