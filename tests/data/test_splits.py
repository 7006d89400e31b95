"""Splits: every episode once, classes and groups as promised, reproducible by seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import combinations

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


@pytest.mark.parametrize(
    ("anomalous", "sizes"),
    [(12, [8, 2, 2]), (13, [8, 3, 2]), (15, [10, 3, 2]), (17, [11, 3, 3]), (18, [12, 3, 3]), (20, [14, 3, 3])],
)
def test_split_is_balanced_and_validation_gets_three_anomalies(anomalous: int, sizes: list[int]) -> None:
    labels = np.array([1] * anomalous + [0] * 100)
    parts = three_way_split(labels, seed=5)
    assert [int(labels[part].sum()) for part in parts] == sizes
    assert [int((labels[part] == 0).sum()) for part in parts] == [70, 15, 15]


def test_part_sizes_are_rounded() -> None:
    for n in range(12, 600):
        found = [len(part) for part in three_way_split(np.ones(n, dtype=np.int8))]
        rounded = np.diff(np.rint(np.cumsum((0.70, 0.15, 0.15)) * n).astype(int), prepend=0).tolist()
        assert found[2] == rounded[2]
        assert found == rounded or (rounded[1] == 2 and found[1] == 3)


def _digest(parts: Iterable[npt.NDArray[np.intp]]) -> str:
    return hashlib.sha256(b"|".join(part.astype(np.int64).tobytes() for part in parts)).hexdigest()[:12]


@pytest.mark.parametrize(
    ("episodes", "anomalous", "first", "five"),
    [
        (120, 15, "573ae850635c", "38d256a84ebf"),
        (120, 16, "8cf2af324b18", "fe974aeb168f"),
        (120, 19, "6580280aab88", "1b98e9fd0fb2"),
        (136, 40, "ed3c4c482cde", "ec787f7a03cc"),
        (949, 289, "d2765195cd7c", "04e5d80dce2d"),
        (2000, 300, "da5527538539", "d678de328c8c"),
    ],
)
def test_splits_of_published_results_do_not_change(episodes: int, anomalous: int, first: str, five: str) -> None:
    labels = np.zeros(episodes, dtype=np.int8)
    labels[np.linspace(0, episodes - 1, anomalous).astype(int)] = 1
    assert _digest(three_way_split(labels)) == first
    assert _digest(part for split in folds(labels, k=5) for part in split) == five


def test_grouped_splits_do_not_change() -> None:
    labels, groups = np.arange(200) % 7 == 0, np.arange(200) // 9
    assert _digest(part for split in folds(labels, groups, k=5) for part in split) == "385620c55313"


@given(st.integers(3, 12), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_no_group_is_in_two_parts_and_no_part_is_empty(n_groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 80)])
    parts = three_way_split(rng.integers(0, 2, len(groups)), groups, seed=seed)
    owners = [set(groups[part].tolist()) for part in parts]
    assert all(owners)
    assert sum(map(len, owners)) == n_groups
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(groups)))


@pytest.mark.parametrize("seed", range(5))
def test_uneven_groups_are_balanced_over_episodes_and_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 120, 24)
    groups = np.repeat(np.arange(24), sizes)
    labels = (rng.random(len(groups)) < rng.uniform(0.02, 0.5, 24)[groups]).astype(np.int8)
    parts = three_way_split(labels, groups, seed=seed)
    for part, fraction in zip(parts, (0.70, 0.15, 0.15), strict=True):
        for of_all, of_part in ((len(labels), len(part)), (labels.sum(), labels[part].sum())):
            assert abs(of_part - fraction * of_all) <= max(0.2 * fraction * of_all, 1)


def test_a_group_is_tested_again_only_when_the_others_are_too_few() -> None:
    labels, groups = np.tile([0, 0, 1, 0], 50), np.arange(200) // 10
    tested = [set(groups[test].tolist()) for _, _, test in folds(labels, groups, k=12)]
    assert sum(map(len, tested[:6])) == len(set().union(*tested[:6])) >= 15
    assert set().union(*tested[6:]) & set().union(*tested[:6])
    alone = three_way_split(labels, groups)[2]
    assert tested[0] == set(groups[alone].tolist())


def test_copies_are_in_one_part() -> None:
    labels, copies = np.tile([0, 0, 1, 0], 50), np.arange(200) % 100
    for parts in (three_way_split(labels, copies=copies), *folds(labels, copies=copies, k=3)):
        assert sorted(np.concatenate(parts).tolist()) == list(range(200))
        assert not any(set(copies[a]) & set(copies[b]) for a, b in combinations(parts, 2))
    groups, copies = np.arange(200) // 10, np.arange(200)
    copies[15], copies[44] = 3, 31  # groups 0 and 1, and 3 and 4, share copies
    for seed in range(5):
        owners = [set(groups[part].tolist()) for part in three_way_split(labels, groups, copies=copies, seed=seed)]
        assert all(({0, 1} <= own or not {0, 1} & own) and ({3, 4} <= own or not {3, 4} & own) for own in owners)


def test_copies_in_all_groups_cause_a_warning() -> None:
    labels, groups, copies = np.tile([0, 1], 50), np.arange(100) // 10, np.arange(100)
    copies[::10] = 0
    with pytest.warns(UserWarning, match=r"cannot keep them in one part.*drop_duplicates=True"):
        three_way_split(labels, groups, copies=copies)


def test_groups_are_redrawn_until_every_part_has_both_classes() -> None:
    labels = np.array([1, 0, 0, 0] * 3 + [0] * 24)
    groups = np.repeat(np.arange(9), 4)  # three of nine groups have an anomaly
    for seed in range(30):
        assert all(labels[rows].any() for rows in three_way_split(labels, groups, seed=seed)), seed


def test_groups_are_split_even_if_a_part_cannot_have_both_classes() -> None:
    labels = np.array([1, 0] * 2 + [0] * 16)
    parts = three_way_split(labels, np.repeat(np.arange(10), 2))
    assert sorted(np.concatenate(parts).tolist()) == list(range(20))
    assert not all(labels[rows].any() for rows in parts)


def test_too_few_groups_bad_fractions_and_too_many_folds_are_refused() -> None:
    with pytest.raises(DfstransError, match=r"at least 3 groups.*got 2 \(a, b\)"):
        three_way_split(np.array([0, 1, 0]), np.array(["a", "b", "a"]))
    with pytest.raises(DfstransError, match="add up to 1"):
        three_way_split(LABELS, fractions=(0.5, 0.1, 0.1))
    with pytest.raises(DfstransError, match="got 2 of the rarer class; use fewer folds"):
        list(folds(np.array([1, 1, 0, 0, 0, 0]), k=3))


def test_folds_differ_from_each_other_and_by_seed() -> None:
    tests = {tuple(test.tolist()) for seed in (1, 2) for _, _, test in folds(LABELS, k=5, seed=seed)}
    assert len(tests) == 10


def test_a_validation_part_is_split_off() -> None:
    train, validation = validation_split(LABELS, fraction=0.25)
    assert (len(train), len(validation)) == (75, 25)
    assert LABELS[validation].sum() == 5
    by_group = validation_split(LABELS, np.arange(100) // 10, fraction=0.2)
    assert not set((by_group[0] // 10).tolist()) & set((by_group[1] // 10).tolist())
