"""Splits into training, validation and test parts: stratified or grouped, reproducible by seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError, list_few, reading_option_name

Index = npt.NDArray[np.intp]
Split = tuple[Index, Index, Index]
Fractions = tuple[float, float, float]
SplitKind = Literal["random", "grouped"]  # grouped keeps each group in one part
PAPER_FRACTIONS: Fractions = (0.70, 0.15, 0.15)
MIN_PER_CLASS = 3  # validation episodes needed to calibrate a threshold and a temperature
MIN_TRAINING_PER_CLASS = 8  # training episodes per class that are never moved to the validation part
MAX_DRAWS = 100  # attempts to find parts that all have both classes


def three_way_split(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    seed: int = 0,
    fractions: Fractions = PAPER_FRACTIONS,
) -> Split:
    """Return the row numbers of a training, validation and test part.

    Without groups, each class is shuffled and cut by the fractions, so that all parts have the same class balance. If
    validation gets only two of a class, a third one is moved there from training, as long as eight remain. With groups,
    whole groups are assigned to the parts, with the class balance as close as the groups allow.
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DfstransError(f"expected three fractions that add up to 1, got {fractions}")
    labels = np.asarray(labels)
    if groups is None:
        part = _assign_rows(labels, fractions, np.random.default_rng(seed))
    else:
        part = _assign_groups(labels, np.asarray(groups), fractions, np.random.default_rng(seed))
    train, validation, test = (np.flatnonzero(part == number) for number in range(3))
    return train, validation, test


def folds(
    labels: npt.NDArray[Any], groups: npt.NDArray[Any] | None = None, *, k: int = 5, seed: int = 0
) -> Iterator[Split]:
    """Return k independent 70/15/15 splits, each with its own seed."""
    fewest = int(np.bincount(np.asarray(labels, dtype=np.int64), minlength=2).min())
    if fewest < k:
        raise DfstransError(
            f"expected at least {k} episodes of each class for {k} folds, got {fewest} of the rarer class; "
            "use fewer folds"
        )
    for fold_seed in np.random.SeedSequence(seed).generate_state(k):
        yield three_way_split(labels, groups, seed=int(fold_seed))


def validation_split(
    labels: npt.NDArray[Any], groups: npt.NDArray[Any] | None = None, *, fraction: float, seed: int = 0
) -> tuple[Index, Index]:
    """Return the row numbers of a training and a validation part, for a fit without a validation part."""
    train, validation, _ = three_way_split(labels, groups, seed=seed, fractions=(1 - fraction, fraction, 0.0))
    return train, validation


def _assign_rows(labels: npt.NDArray[Any], fractions: Fractions, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Return the part of each row: 0, 1 or 2."""
    part = np.zeros(len(labels), dtype=np.int8)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        part[rows] = np.repeat([0, 1, 2], _part_sizes(len(rows), fractions))
    return part


def _part_sizes(n: int, fractions: Fractions) -> list[int]:
    """Return how many of n rows each part gets; from three rows on, every part with a fraction gets at least one.

    >>> [_part_sizes(n, (0.70, 0.15, 0.15)) for n in (100, 18, 12, 4, 1)]
    [[70, 15, 15], [12, 3, 3], [8, 2, 2], [2, 1, 1], [1, 0, 0]]
    """
    ends = np.rint(np.cumsum(fractions) * n).astype(int).tolist()
    counts = [ends[0], ends[1] - ends[0], ends[2] - ends[1]]
    wanted = [number for number in range(3) if fractions[number] > 0]
    for number in wanted if n >= len(wanted) else [0]:  # too few for all parts: training comes first
        if counts[number] == 0:
            counts[int(np.argmax(counts))] -= 1
            counts[number] += 1
    if counts[1] == MIN_PER_CLASS - 1 and counts[0] > MIN_TRAINING_PER_CLASS:
        counts[0] -= 1
        counts[1] += 1
    return counts


def _assign_groups(
    labels: npt.NDArray[Any], groups: npt.NDArray[Any], fractions: Fractions, rng: np.random.Generator
) -> npt.NDArray[np.int8]:
    """Return the part of each row, with whole groups in one part.

    The groups are redrawn while a part lacks a class and there are enough groups of that class for all parts.
    """
    names, member = np.unique(groups, return_inverse=True)
    wanted_parts = int(np.count_nonzero(fractions))
    if len(names) < wanted_parts:
        raise DfstransError(
            f"expected at least {wanted_parts} groups to split by group, got {len(names)} ({list_few(names)}); name a "
            f"column with more groups ({reading_option_name('group_column', ...)}); if one long recording is cut into "
            "episodes, add a column with the day or shift of each row and name it "
            f"({reading_option_name('id_column', ...)}), so that each is a group; or split at random"
        )
    classes, coded = np.unique(labels, return_inverse=True)
    counts = np.zeros((len(names), len(classes)))
    np.add.at(counts, (member, coded), 1)
    share = counts / counts.sum(axis=0)  # (group, class): the group's share of the class
    part_of = greedy = _draw_parts(share, fractions, rng.permutation(len(names)))
    held_by = (share > 0).sum(axis=0)  # (class,): the number of groups that contain it
    if held_by.min() >= wanted_parts:
        rarer = np.flatnonzero(share[:, held_by.argmin()])
        for _ in range(MAX_DRAWS):
            if all((share[part_of == number] > 0).any(axis=0).all() for number in np.flatnonzero(fractions)):
                return part_of[member]
            first = rng.permutation(rarer)[:wanted_parts]  # one for each part
            others = rng.permutation(np.setdiff1d(np.arange(len(names)), first))
            part_of = _draw_parts(share, fractions, np.concatenate([first, others]), wanted_parts)
    return greedy[member]


def _draw_parts(
    share: npt.NDArray[np.float64], fractions: Fractions, order: Index, one_each: int = 0
) -> npt.NDArray[np.int8]:
    """Assign groups in the given order, each to the part that most needs the classes of the group.

    The first `one_each` groups go to different parts.

    Shape:
        share (group, class) → (group,)
    """
    n_groups, n_classes = share.shape
    missing = np.outer(fractions, np.ones(n_classes))  # (part, class): the share that each part still lacks
    part_of = np.zeros(n_groups, dtype=np.int8)
    open_parts = [number for number in range(3) if fractions[number] > 0]
    empty = set(open_parts)
    for assigned, group in enumerate(order):
        scarce = assigned < one_each or n_groups - assigned <= len(empty)  # leave no part without a group
        candidates = sorted(empty) if scarce and empty else open_parts
        choice = max(candidates, key=lambda number: float((missing[number] * share[group]).sum()))
        part_of[group] = choice
        missing[choice] -= share[group]
        empty.discard(choice)
    return part_of
