"""Splits into training, validation and test parts: stratified or grouped, reproducible by seed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
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
MAX_DRAWS = 30  # attempts to find groups that match the fractions
MAX_SWAPPED = 100  # groups; with more, moves suffice
TEST = 2  # the number of the test part
TOLERANCE = 0.2  # of the episodes that a part should have


def three_way_split(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    copies: Index | None = None,
    seed: int = 0,
    fractions: Fractions = PAPER_FRACTIONS,
    tested: Index | None = None,
) -> Split:
    """Return the row numbers of a training, validation and test part.

    Without groups, each class is shuffled and cut by the fractions, so that all parts have the same class balance. If
    validation gets only two of a class, a third one is moved there from training, as long as eight remain. With groups,
    whole groups are assigned to the parts, with sizes and class balance as close as the groups allow.

    `copies` holds the row of the first episode with the same values; copies go to the part of the first one, and groups
    that share copies to one part. No group of the rows `tested` goes to the test part.
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DfstransError(f"expected three fractions that add up to 1, got {fractions}")
    labels, rng = np.asarray(labels), np.random.default_rng(seed)
    first = np.arange(len(labels)) if copies is None else copies
    if groups is None:
        distinct = np.flatnonzero(first == np.arange(len(labels)))
        part = np.zeros(len(labels), dtype=np.int8)
        part[distinct] = _assign_rows(labels[distinct], fractions, rng)
        part = part[first]
    else:
        names, member = np.unique(_joined_groups(np.asarray(groups), first, fractions), return_inverse=True)
        barred = np.isin(np.arange(len(names)), member[[] if tested is None else tested])
        part = _assign_groups(labels, names, member, fractions, barred, rng)
    train, validation, test = (np.flatnonzero(part == number) for number in range(3))
    return train, validation, test


def folds(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    copies: Index | None = None,
    k: int = 5,
    seed: int = 0,
) -> Iterator[Split]:
    """Return k splits, each with its own seed; the first is that of `three_way_split`.

    With groups, a group that has been in a test part is in no other one until the rest is too small for a test part.
    """
    labels = np.asarray(labels, dtype=np.int64)
    sizes = np.bincount(labels, minlength=2)
    if sizes.min() < k:
        raise DfstransError(
            f"expected at least {k} episodes of each class for {k} folds, got {sizes.min()} of the rarer class; "
            "use fewer folds"
        )
    tested = np.arange(0)
    for split_seed in (seed, *np.random.SeedSequence(seed).generate_state(k)[1:]):
        split = three_way_split(labels, groups, copies=copies, seed=int(split_seed), tested=tested)
        yield split
        if groups is not None:
            tested = np.append(tested, split[2])
            left = sizes - np.bincount(labels[tested], minlength=2)
            if (left < (1 - TOLERANCE) * PAPER_FRACTIONS[2] * sizes).any():
                tested = tested[:0]


def validation_split(
    labels: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    copies: Index | None = None,
    fraction: float,
    seed: int = 0,
) -> tuple[Index, Index]:
    """Return the row numbers of a training and a validation part, for a fit without a validation part."""
    train, validation, _ = three_way_split(
        labels, groups, copies=copies, seed=seed, fractions=(1 - fraction, fraction, 0.0)
    )
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


def _joined_groups(groups: npt.NDArray[Any], first: Index, fractions: Fractions) -> npt.NDArray[Any]:
    """Give groups that share copies one name, that of the first in the alphabet, if the result can still be split.

    >>> groups = np.array(["a", "b", "c", "a", "d", "e"])
    >>> _joined_groups(groups, np.array([0, 1, 0, 3, 4, 5]), PAPER_FRACTIONS).tolist()
    ['a', 'b', 'a', 'a', 'd', 'e']
    """
    from scipy.sparse import coo_array  # here, so that the runtime needs NumPy alone
    from scipy.sparse.csgraph import connected_components

    names, member = np.unique(groups, return_inverse=True)
    links = coo_array((np.ones(len(groups)), (member, member[first])), shape=(len(names), len(names)))
    _, joined = connected_components(links, directed=False)
    _, leaders = np.unique(joined, return_index=True)
    if len(leaders) == len(names):
        return groups
    if np.bincount(joined[member]).max() > max(fractions) * len(groups) or len(leaders) < np.count_nonzero(fractions):
        warnings.warn(
            "episodes with the same values are in so many groups that a grouped split cannot keep them in one part, so "
            f"results may be too optimistic; keep one of each ({reading_option_name('drop_duplicates', True)})",
            stacklevel=4,
        )
        return groups
    return np.asarray(names[leaders[joined]][member])


def _assign_groups(
    labels: npt.NDArray[Any],
    names: npt.NDArray[Any],
    member: Index,
    fractions: Fractions,
    barred: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> npt.NDArray[np.int8]:
    """Return the part of each row, with whole groups in one part; those that are barred are not in the test part.

    Each draw assigns the groups in random order and improves the assignment. The first draw within the tolerance is
    taken, so that seeds differ; if there is none, the best.

    Shape:
        labels, member (row,); names, barred (group,) → (row,)
    """
    wanted_parts = int(np.count_nonzero(fractions))
    if len(names) < wanted_parts:
        raise DfstransError(
            f"expected at least {wanted_parts} groups to split by group, got {len(names)} ({list_few(names)}); name a "
            f"column with more groups ({reading_option_name('group_column', ...)}); if one long recording is cut into "
            "episodes, add a column with the day or shift of each row and name it "
            f"({reading_option_name('id_column', ...)}), so that each is a group; or split at random"
        )
    classes, coded = np.unique(labels, return_inverse=True)
    counts = np.zeros((len(names), len(classes) + 1))  # episodes of each class, and of all
    np.add.at(counts, (member, coded), 1)
    counts[:, -1] = counts.sum(axis=1)

    def draw() -> tuple[npt.NDArray[np.int8], float]:
        drawn = _draw_parts(counts[:, :-1], fractions, barred, rng.permutation(len(names)))
        return _improve(drawn, counts, fractions, barred)

    found = [draw()]
    while found[-1][1] > 0 and len(found) < MAX_DRAWS:
        found.append(draw())
    return min(found, key=lambda assignment: assignment[1])[0][member]


def _draw_parts(
    counts: npt.NDArray[np.float64], fractions: Fractions, barred: npt.NDArray[np.bool_], order: Index
) -> npt.NDArray[np.int8]:
    """Assign groups in the given order, each to the part that most needs the classes of the group.

    Shape:
        counts (group, class), barred (group,) → (group,)
    """
    share = counts / counts.sum(axis=0)
    n_groups, n_classes = share.shape
    missing = np.outer(fractions, np.ones(n_classes))  # (part, class): the share that each part still lacks
    part_of = np.zeros(n_groups, dtype=np.int8)
    open_parts = [number for number in range(3) if fractions[number] > 0]
    empty = set(open_parts)
    for assigned, group in enumerate(order):
        candidates = sorted(empty) if n_groups - assigned <= len(empty) else open_parts  # no part without a group
        if barred[group]:
            candidates = [number for number in candidates if number != TEST] or [0]
        choice = max(candidates, key=lambda number: float((missing[number] * share[group]).sum()))
        part_of[group] = choice
        missing[choice] -= share[group]
        empty.discard(choice)
    return part_of


def _improve(
    part_of: npt.NDArray[np.int8],
    counts: npt.NDArray[np.float64],
    fractions: Fractions,
    barred: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int8], float]:
    """Move and swap groups between parts while that brings the parts closer to what was promised.

    Shape:
        part_of, barred (group,); counts (group, class and total) → the improved parts, and how far they are off
    """
    open_parts = [number for number in range(3) if fractions[number] > 0]
    part_of = part_of.copy()
    totals = np.stack([counts[part_of == number].sum(axis=0) for number in range(3)])
    cost, improved = imbalance(totals, fractions), True
    while cost > 0 and improved:
        improved = False
        for change in _moves_and_swaps(part_of, open_parts):
            if any(part == TEST and barred[group] for group, part in change):
                continue
            changed = totals.copy()
            for group, part in change:
                changed[part_of[group]] -= counts[group]
                changed[part] += counts[group]
            changed_cost = imbalance(changed, fractions)
            if changed_cost < cost - 1e-12:
                for group, part in change:
                    part_of[group] = part
                totals, cost, improved = changed, changed_cost, True
                if cost == 0:
                    break
    return part_of, cost


def _moves_and_swaps(part_of: npt.NDArray[np.int8], open_parts: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield changes as pairs of a group and its new part: each move that leaves no part empty, then each swap.

    `part_of` may change between two of them.
    """
    n_groups = len(part_of)
    for group in range(n_groups):
        for part in open_parts:
            if part != part_of[group] and (part_of == part_of[group]).sum() > 1:
                yield [(group, part)]
    for group in range(n_groups if n_groups <= MAX_SWAPPED else 0):
        for other in range(group):
            if part_of[group] != part_of[other]:
                yield [(group, int(part_of[other])), (other, int(part_of[group]))]


def imbalance(totals: npt.NDArray[np.float64], fractions: Fractions) -> float:
    """Return how far parts are from their fractions, beyond the tolerance; 0 is as promised.

    A part may miss its number of episodes, or of one class, by a fifth or by one; a part without a class counts most.

    Shape:
        totals (part, class and total)

    >>> imbalance(np.array([[35, 35, 70.0], [7, 8, 15], [8, 7, 15]]), PAPER_FRACTIONS)
    0.0
    """
    wanted = np.outer(fractions, totals.sum(axis=0))
    off = np.maximum(np.abs(totals - wanted) - np.maximum(TOLERANCE * wanted, 1), 0) / np.maximum(wanted, 1)
    lacking = (totals < 1) & (np.array(fractions)[:, np.newaxis] > 0)
    return float((off**2).sum() + 100 * lacking.sum())


def describe_split(parts: Sequence[npt.NDArray[Any]]) -> str:
    """Describe the episodes and anomalies of each part, given its labels.

    >>> describe_split([np.array([0, 1, 0]), np.array([1])])
    '3 episodes (1 anomalous), 1 (1 anomalous)'
    """
    counts = [f"{len(part)} ({int(part.sum())} anomalous)" for part in parts]
    return ", ".join([counts[0].replace(" (", " episodes (", 1), *counts[1:]])
