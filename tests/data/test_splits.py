"""Splits: every episode once, classes or groups as promised, the same for the same seed."""

from __future__ import annotations

import numpy as np
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
