"""Splits: every episode once, classes or groups as promised, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dfstrans.data.splits import folds, three_way_split, validation_split
from dfstrans.errors import DfstransError

LABELS = np.array([1] * 20 + [0] * 80)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_every_episode_is_in_exactly_one_part(labels: list[int], seed: int) -> None:
    parts = three_way_split(np.array(labels), seed=seed)
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert set(labels) == set(np.array(labels)[parts[0]].tolist())


def test_parts_have_the_balance_of_the_whole() -> None:
    parts = three_way_split(LABELS)
    assert [len(part) for part in parts] == [70, 15, 15]
    assert [int(LABELS[part].sum()) for part in parts] == [14, 3, 3]


@pytest.mark.parametrize(
    ("anomalous", "shared"),
    [(12, [8, 2, 2]), (13, [8, 3, 2]), (14, [9, 3, 2]), (15, [10, 3, 2]), (17, [11, 3, 3]), (18, [12, 3, 3])],
)
def test_validation_gets_the_third_anomaly_that_a_threshold_needs(anomalous: int, shared: list[int]) -> None:
    labels = np.array([1] * anomalous + [0] * (120 - anomalous))
    assert [int(labels[part].sum()) for part in three_way_split(labels, seed=5)] == shared


def _shares_of_rounding_alone(n: int) -> list[int]:
    """What each part gets where every part has one by rounding."""
    ends = np.rint(np.cumsum((0.70, 0.15, 0.15)) * n).astype(int)
    return np.diff(ends, prepend=0).tolist()


def test_splits_with_three_validation_anomalies_are_those_of_rounding_alone() -> None:
    for n in range(12, 600):
        found = [len(part) for part in three_way_split(np.ones(n, dtype=np.int8))]
        rounded = _shares_of_rounding_alone(n)
        assert found[2] == rounded[2]
        assert found == rounded or (rounded[1] == 2 and found[1] == 3)


def _digest(parts: Iterable[npt.NDArray[np.intp]]) -> str:
    return hashlib.sha256(b"|".join(part.astype(np.int64).tobytes() for part in parts)).hexdigest()[:12]


@pytest.mark.parametrize(
    ("episodes", "anomalous", "first", "five"),
    [
        (120, 15, "573ae850635c", "e15cb86166e9"),
        (120, 16, "8cf2af324b18", "fe8a5e3fc020"),
        (120, 19, "6580280aab88", "60f83cb8839c"),
        (136, 40, "ed3c4c482cde", "1d3fe32626b1"),
        (949, 289, "d2765195cd7c", "7c7f8c17074a"),
        (2000, 300, "da5527538539", "15bb905c8bf5"),
    ],
)
def test_splits_of_finished_results_stay_as_they_are(episodes: int, anomalous: int, first: str, five: str) -> None:
    labels = np.zeros(episodes, dtype=np.int8)
    labels[np.linspace(0, episodes - 1, anomalous).astype(int)] = 1
    assert _digest(three_way_split(labels)) == first
    assert _digest(part for split in folds(labels, k=5) for part in split) == five


def test_the_seed_decides_the_split() -> None:
    for one, other in zip(three_way_split(LABELS, seed=3), three_way_split(LABELS, seed=3), strict=True):
        assert_array_equal(one, other)
    assert not np.array_equal(three_way_split(LABELS, seed=3)[2], three_way_split(LABELS, seed=4)[2])


@given(st.integers(3, 12), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_no_group_is_in_two_parts_and_no_part_is_empty(n_groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 80)])
    labels = rng.integers(0, 2, len(groups))
    parts = three_way_split(labels, groups, seed=seed)
    owners = [set(groups[part].tolist()) for part in parts]
    assert all(owners)
    assert sum(map(len, owners)) == n_groups
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(groups)))


def test_too_few_groups_or_bad_fractions_are_refused() -> None:
    with pytest.raises(DfstransError, match=r"at least 3 groups.*got 2 \(a, b\)"):
        three_way_split(np.array([0, 1, 0]), np.array(["a", "b", "a"]))
    with pytest.raises(DfstransError, match="add up to 1"):
        three_way_split(LABELS, fractions=(0.5, 0.1, 0.1))


def test_folds_differ_and_come_back() -> None:
    tests = [tuple(test.tolist()) for _, _, test in folds(LABELS, k=5, seed=1)]
    assert len(set(tests)) == 5
    assert tests == [tuple(test.tolist()) for _, _, test in folds(LABELS, k=5, seed=1)]


def test_more_folds_than_anomalies_are_refused() -> None:
    with pytest.raises(DfstransError, match="got 2 of the rarer one; use fewer folds"):
        list(folds(np.array([1, 1, 0, 0, 0, 0]), k=3))


def test_a_validation_part_is_split_off() -> None:
    train, validation = validation_split(LABELS, fraction=0.25)
    assert (len(train), len(validation)) == (75, 25)
    assert LABELS[validation].sum() == 5
    by_group = validation_split(LABELS, np.arange(100) // 10, fraction=0.2)
    assert not set((by_group[0] // 10).tolist()) & set((by_group[1] // 10).tolist())


def test_groups_are_drawn_anew_until_every_part_has_both_classes() -> None:
    labels = np.array([1, 0, 0, 0] * 3 + [0] * 24)
    groups = np.repeat(np.arange(9), 4)  # three of nine groups have an anomaly
    for seed in range(30):
        parts = three_way_split(labels, groups, seed=seed)
        assert all(labels[rows].any() for rows in parts), seed
        assert sorted(np.concatenate(parts).tolist()) == list(range(36))


def test_where_no_drawing_can_help_there_is_one_all_the_same() -> None:
    labels = np.array([1, 0] * 2 + [0] * 16)
    parts = three_way_split(labels, np.repeat(np.arange(10), 2))
    assert sorted(np.concatenate(parts).tolist()) == list(range(20))
    assert not all(labels[rows].any() for rows in parts)
