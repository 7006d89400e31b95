"""Splits into training, validation and test parts: stratified or grouped, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError, reading_option_name, shortlist

Index = npt.NDArray[np.intp]
Split = tuple[Index, Index, Index]
SplitKind = Literal["random", "grouped"]  # grouped: no group is in two parts
FEWEST_OF_EACH_CLASS = 3  # validation episodes; fewer settle no threshold and no temperature
DRAWINGS = 100  # of groups, before parts without one of the classes are taken as they are
FEWEST_TO_LEARN_FROM = 8  # of a class: training gives none away for that


def three_way_split(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    seed: int = 0,
    fractions: tuple[float, float, float] = (0.70, 0.15, 0.15),  # the paper's
) -> Split:
    """Row numbers of a training, validation and test part.

    Without groups each class is shuffled and cut by the fractions, so that the parts have the same balance; where that
    leaves validation two of a class, training gives it a third, as long as eight stay there. With
    groups whole groups are dealt out, so that none is in two parts, with the balance as close as the groups allow.
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DfstransError(f"expected three fractions that add up to 1, got {fractions}")
    labels = np.asarray(labels)
    if groups is None:
        part = _deal_rows(labels, fractions, np.random.default_rng(seed))
    else:
        part = _deal_groups(labels, np.asarray(groups), fractions, np.random.default_rng(seed))
    train, validation, test = (np.flatnonzero(part == number) for number in range(3))
    return train, validation, test


def folds(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    k: int = 5,
    seed: int = 0,
    fractions: tuple[float, float, float] = (0.70, 0.15, 0.15),
) -> Iterator[Split]:
    """k genuinely different 70/15/15 splits, each from a seed of its own."""
    fewest = int(np.bincount(np.asarray(labels, dtype=np.int64), minlength=2).min())
    if fewest < k:
        raise DfstransError(
            f"expected at least {k} episodes of each class for {k} folds, got {fewest} of the rarer one; "
            "use fewer folds"
        )
    for fold_seed in np.random.SeedSequence(seed).generate_state(k):
        yield three_way_split(labels, groups, seed=int(fold_seed), fractions=fractions)


def validation_split(
    labels: npt.NDArray[Any], groups: npt.NDArray[Any] | None = None, *, fraction: float, seed: int = 0
) -> tuple[Index, Index]:
    """Row numbers of a training and a validation part, for a fit that was given no validation part."""
    train, validation, _ = three_way_split(labels, groups, seed=seed, fractions=(1 - fraction, fraction, 0.0))
    return train, validation


def _deal_rows(
    labels: npt.NDArray[Any], fractions: tuple[float, float, float], rng: np.random.Generator
) -> npt.NDArray[np.int8]:
    part = np.zeros(len(labels), dtype=np.int8)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        part[rows] = np.repeat([0, 1, 2], _share_out(len(rows), fractions))
    return part


def _share_out(n: int, fractions: tuple[float, float, float]) -> list[int]:
    """How many of n rows each part gets; from three rows on, every part that is wanted gets at least one.

    Training gives a validation part of two a third one, which settles a threshold, and the test part stays as it is.

    >>> _share_out(100, (0.70, 0.15, 0.15)), _share_out(4, (0.70, 0.15, 0.15)), _share_out(1, (0.70, 0.15, 0.15))
    ([70, 15, 15], [2, 1, 1], [1, 0, 0])
    >>> _share_out(18, (0.70, 0.15, 0.15)), _share_out(12, (0.70, 0.15, 0.15))
    ([12, 3, 3], [8, 2, 2])
    """
    ends = np.rint(np.cumsum(fractions) * n).astype(int).tolist()
    counts = [ends[0], ends[1] - ends[0], ends[2] - ends[1]]
    wanted = [number for number in range(3) if fractions[number] > 0]
    for number in wanted if n >= len(wanted) else [0]:  # too few for all: training comes first
        if counts[number] == 0:
            counts[int(np.argmax(counts))] -= 1
            counts[number] += 1
    if counts[1] == FEWEST_OF_EACH_CLASS - 1 and counts[0] > FEWEST_TO_LEARN_FROM:
        counts[0] -= 1
        counts[1] += 1
    return counts


def _deal_groups(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any],
    fractions: tuple[float, float, float],
    rng: np.random.Generator,
) -> npt.NDArray[np.int8]:
    """Whole groups dealt out, drawn anew as long as a part has not all classes and another drawing might mend that."""
    names, member = np.unique(groups, return_inverse=True)
    wanted_parts = int(np.count_nonzero(fractions))
    if len(names) < wanted_parts:
        raise DfstransError(
            f"expected at least {wanted_parts} groups to split by group, got {len(names)} ({shortlist(names)}); name a "
            f"column that tells more of them apart ({reading_option_name('group_column', ...)}); where one long "
            "recording is cut, add a column with the day or the shift of each row and name it "
            f"({reading_option_name('id_column', ...)}), so that each is a group; or take a split that is not by group"
        )
    classes, coded = np.unique(labels, return_inverse=True)
    counts = np.zeros((len(names), len(classes)))
    np.add.at(counts, (member, coded), 1)
    share = counts / counts.sum(axis=0)  # of each class, how much of it each group holds
    part_of = greedy = _deal_once(share, fractions, rng.permutation(len(names)))
    held_by = (share > 0).sum(axis=0)  # of each class, by how many groups
    if held_by.min() >= wanted_parts:
        rarer = np.flatnonzero(share[:, held_by.argmin()])
        for _ in range(DRAWINGS):
            if all((share[part_of == number] > 0).any(axis=0).all() for number in np.flatnonzero(fractions)):
                return part_of[member]
            ahead = rng.permutation(rarer)[:wanted_parts]  # one for each part
            others = rng.permutation(np.setdiff1d(np.arange(len(names)), ahead))
            part_of = _deal_once(share, fractions, np.concatenate([ahead, others]), wanted_parts)
    return greedy[member]


def _deal_once(
    share: npt.NDArray[np.float64], fractions: tuple[float, float, float], order: Index, one_each: int = 0
) -> npt.NDArray[np.int8]:
    """Groups in that order, each to the part that lacks most of what the group brings: (group, class) → (group,).

    The first `one_each` go to different parts.
    """
    n_groups, n_classes = share.shape
    missing = np.outer(fractions, np.ones(n_classes))  # (part, class): what each part still lacks
    part_of = np.zeros(n_groups, dtype=np.int8)
    open_parts = [number for number in range(3) if fractions[number] > 0]
    empty = set(open_parts)
    for dealt, name in enumerate(order):
        scarce = dealt < one_each or n_groups - dealt <= len(empty)  # leave no part without a group
        candidates = sorted(empty) if scarce and empty else open_parts
        choice = max(candidates, key=lambda number: float((missing[number] * share[name]).sum()))
        part_of[name] = choice
        missing[choice] -= share[name]
        empty.discard(choice)
    return part_of
