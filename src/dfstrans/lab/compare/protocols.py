"""Three protocols of cutting and splitting a data set, what is known of the test machines, and what this measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.cutting import recording_and_start
from dfstrans.data.readers.public import COMMISSIONING, commissioning_folder
from dfstrans.data.splits import Split, SplitKind, folds
from dfstrans.errors import DfstransError, option_name

ProtocolName = Literal["paper-like", "no-overlap", "grouped"]
BaselineName = Literal["none", "first", "own", "published"]
KNOWN_SHARE = 0.3  # of the recordings of a machine, with the baseline `first`
Rows = npt.NDArray[np.intp]
FEWEST = 4  # episodes of a class: two for training, one for each of the other parts


class Protocol(NamedTuple):
    """A way of cutting continuous recordings into episodes, and of splitting these."""

    split: SplitKind
    overlapping: bool
    meaning: str


PROTOCOLS: dict[ProtocolName, Protocol] = {
    "paper-like": Protocol(
        "random",
        overlapping=True,
        meaning="overlapping pieces, split at random: pieces of one anomaly are in training and in test, so this "
        "measures how well a model recognises what it has seen",
    ),
    "no-overlap": Protocol(
        "random",
        overlapping=False,
        meaning="no point is in two episodes, split at random: episodes of one machine may be in training and test",
    ),
    "grouped": Protocol(
        "grouped",
        overlapping=False,
        meaning="no channel, machine or installation is both in training and in test: how well a model does on one "
        "that it has never seen",
    ),
}


BASELINES: dict[BaselineName, str] = {
    "none": "nothing is known of the machines of the test part",
    "first": "of each machine of the test part, the first 30 % of the recordings are known without their labels, and "
    "only the others are evaluated",
    "own": "of each machine of the test part, all recordings are known without their labels",
    "published": "of each machine of the test part, the normal recordings are known that the data set publishes beside "
    f"the labelled ones ({COMMISSIONING}/)",
}
"""What a model knows about the machines of the test part of a grouped split, for each kind of baseline."""


def protocol_title(name: ProtocolName, baseline: BaselineName) -> str:
    """The name of a protocol with its baseline.

    >>> protocol_title("grouped", "none"), protocol_title("grouped", "own")
    ('grouped', 'grouped, baseline own')
    """
    return name if baseline == "none" else f"{name}, baseline {baseline}"


def protocol_meaning(name: ProtocolName, baseline: BaselineName) -> str:
    """What a protocol measures, and what is known of the test machines."""
    meaning = PROTOCOLS[name].meaning
    return f"{meaning}; {BASELINES[baseline]}" if name == "grouped" else meaning


def baselines_for(data: Path, split: SplitKind) -> list[BaselineName]:
    """The baselines that a comparison on these data can have."""
    if split != "grouped":
        return ["none"]
    return [name for name in BASELINES if name != "published" or commissioning_folder(data) is not None]


def check_baseline(data: Path, split: SplitKind, baseline: BaselineName) -> None:
    """Refuse a baseline of test machines with a split in which machines are in several parts, or without recordings."""
    if baseline != "none" and split != "grouped":
        raise DfstransError(
            f"expected {option_name('baseline', baseline)} only with {option_name('split', 'grouped')}, got it with a "
            f"{split} split, where machines of the test part are also in training; omit it"
        )
    if baseline not in baselines_for(data, split):
        raise DfstransError(
            f"expected telemanom or ServerMachineDataset with the published folder {COMMISSIONING}/ for "
            f"{option_name('baseline', baseline)}, got none in {data}; put that folder there, or choose another "
            f"baseline ({', '.join(baselines_for(data, split))})"
        )


def known_and_evaluated(test: Episodes, baseline: BaselineName) -> tuple[Rows, Rows]:
    """The rows of a test part that are known without labels, and those that are evaluated.

    The first recordings of a machine are the earliest ones, or those read first if their times are unknown. Published
    recordings are not among those of a split.
    """
    every = np.arange(len(test))
    if baseline in ("none", "published"):
        return every[:0], every
    if baseline == "own":
        return every, every
    order = every if test.starts is None else np.argsort(test.starts, kind="stable")
    groups = test.require_groups()[order]
    machines = [order[groups == name] for name in np.unique(groups)]
    known = np.sort(np.concatenate([rows[: round(KNOWN_SHARE * len(rows))] for rows in machines]))
    return known, np.setdiff1d(every, known)


def protocol_name(read: dict[str, Any], split: SplitKind) -> ProtocolName:
    """The protocol of recordings that are read and split in this way.

    >>> protocol_name({"length": 500, "stride": 50}, "random"), protocol_name({"length": 500}, "random")
    ('paper-like', 'no-overlap')
    >>> protocol_name({"length": 500, "stride": 50}, "grouped")
    'grouped'
    """
    if split == "grouped":
        return "grouped"
    length, stride = read.get("length"), read.get("stride")
    return "paper-like" if length is not None and stride is not None and stride < length else "no-overlap"


def splits_of(episodes: Episodes, split: SplitKind, n_folds: int, seed: int) -> list[Split]:
    """The splits, each with both classes in all parts; the first splits do not depend on the number of folds.

    The first is the split that `train` makes with the same seed. In a grouped split, a machine that has been tested is
    not tested again until the others are too few.
    """
    if n_folds < 1:
        raise DfstransError(f"expected at least one of {option_name('folds')}, got {n_folds}; correct it")
    labels = episodes.require_labels()
    if n_folds > (rarer := _rarer(labels)):
        splits_of(episodes, split, rarer, seed)  # reports what fewer folds would not solve
    groups = episodes.require_groups() if split == "grouped" else None
    copies = episodes.copies()
    episodes.warn_of_copies()
    found = list(folds(labels, groups, copies=copies, k=n_folds, seed=seed))
    for number, parts in enumerate(found):
        for part, rows in zip(("training", "validation", "test"), parts, strict=True):
            anomalous = int(labels[rows].sum())
            normal, least = len(rows) - anomalous, 2 if part == "training" else 1
            if min(anomalous, normal) < least:
                fewer = f" or fewer splits ({option_name('folds', number)})" if number else ""
                raise DfstransError(
                    f"expected at least {least} normal and {least} anomalous episodes in the {part} part of every "
                    f"split, got {normal} and {anomalous} in split {number}, since the groups are too few or too "
                    "uneven; add episodes of the rarer class or more groups of them, or try another "
                    f"{option_name('seed')}{fewer}"
                )
    return found


def part_ids(episodes: Episodes, split: Split) -> dict[str, list[str]]:
    """The ids of the episodes in each part of a split."""
    parts = zip(("train", "validation", "test"), split, strict=True)
    return {part: episodes.ids[rows].tolist() for part, rows in parts}


def recordings_on_both_sides(episodes: Episodes, splits: Sequence[Split]) -> int:
    """The number of recordings with pieces both in the training and in the test part of some split."""
    places = [recording_and_start(str(piece)) for piece in episodes.ids]
    recordings = np.array([None if place is None else place[0] for place in places], dtype=object)
    found = (set(recordings[train]) & set(recordings[test]) for train, _, test in splits)
    return len(set().union(*found) - {None})


def _rarer(labels: npt.NDArray[np.int8]) -> int:
    """The number of episodes of the rarer class; fewer than one split needs are refused."""
    anomalous = int(labels.sum())
    normal = len(labels) - anomalous
    if min(anomalous, normal) < FEWEST:
        raise DfstransError(
            f"expected at least {FEWEST} normal and {FEWEST} anomalous episodes, so that each part of a split has "
            f"both, got {normal} and {anomalous}; a detector learns from both, so add labelled episodes of the rarer "
            "class"
        )
    return min(anomalous, normal)
