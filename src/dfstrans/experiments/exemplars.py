"""Which episodes stand for a kind of anomaly in the paper's figures: those with point anomalies, those that last.

The paper's authors chose theirs by hand. Here it is a rule: of the episodes that the model did not learn from, those
that it is surest of. They flatter, and whoever draws them says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.errors import DfstransError

POINT_KINDS = ("bump",)  # of the simulated elevator: what the paper calls point anomaly journeys, PAJ
LASTING_KINDS = ("lubrication", "misalignment")  # friction journeys, FJ
LASTS = 0.5  # share of the time, from which on an anomaly of another kind is one that lasts
POINT_JOURNEYS = 5  # of fig:paj_ax_local
LASTING_JOURNEYS = NORMAL_JOURNEYS = 3  # of fig:paj_id_local
POINT_SENSORS, LASTING_SENSOR = ("Ax", "Ay"), "Iq"  # of fig:lta

SHOWN = {
    "fig:lsa": ("point",),
    "fig:mix": ("lasting",),
    "fig:lta": ("point", "lasting", "normal"),
    "fig:at_scores": ("anomalous",),
}
"""The kinds of episodes that a figure cannot do without."""
DESCRIBED = {
    "point": "episodes with point anomalies",
    "lasting": "episodes with anomalies that last",
    "normal": "normal episodes",
    "anomalous": "anomalous episodes",
}

Rows = npt.NDArray[np.intp]


class Exemplars(NamedTuple):
    """Rows of episodes, the surest first: with point anomalies, with some that last, normal; all that are anomalous."""

    point: Rows
    lasting: Rows
    normal: Rows
    anomalous: Rows


def exemplars_of(episodes: Episodes, probabilities: npt.NDArray[np.float64], threshold: float) -> Exemplars:
    """The episodes that stand for each kind.

    Anomalous are those that are labelled so and detected; where none is detected, as by a model that has only just
    begun, all that are labelled so; without labels, those that are detected.
    """
    detected = probabilities >= threshold
    truly = detected if episodes.labels is None else episodes.labels == 1
    chosen = truly & detected if (truly & detected).any() else truly
    surest = np.argsort(-probabilities, kind="stable")
    anomalous = surest[chosen[surest]]
    lasting = {int(row): _lasts(next(iter(episodes[[int(row)]]))) for row in anomalous}
    point = [row for row in anomalous if lasting[int(row)] is not True]
    # as in fig:PAJ38, one with two point anomalies goes first
    point.sort(key=lambda row: episodes.faults is None or len(episodes.faults[row]) != 2)
    return Exemplars(
        np.array(point, dtype=np.intp),
        np.array([row for row in anomalous if lasting[int(row)] is not False], dtype=np.intp),
        surest[~truly[surest]][::-1],
        anomalous,
    )


def require_shown(found: Exemplars, target: str, n_episodes: int) -> None:
    """Refuse recordings that lack a kind of episodes which the figure shows."""
    for kind in SHOWN[target]:
        if not len(getattr(found, kind)):
            raise DfstransError(
                f"expected {DESCRIBED[kind]} for {target} among the {n_episodes} episodes that can be shown, got no "
                "such; give more recordings, or train a better model (its test figures tell)"
            )


def _lasts(episode: Episode) -> bool | None:
    """Whether what is wrong is wrong for most of the time; None where nobody knows when it is."""
    if not episode.faults:
        return None
    kinds = {fault.kind for fault in episode.faults}
    if kinds <= set(POINT_KINDS) or kinds <= set(LASTING_KINDS):
        return kinds <= set(LASTING_KINDS)
    length = episode.values.shape[1]
    wrong = np.zeros(length, dtype=np.bool_)
    for fault in episode.faults:
        wrong[fault.start : fault.stop] = True
    return bool(wrong.mean() >= LASTS)


def moments_of_faults(episode: Episode, segment_length: int, most: int = 2) -> list[int]:
    """The segments in which the first faults have their middle; none where it is not known when they are."""
    middles = [(fault.start + fault.stop - 1) // 2 // segment_length for fault in episode.faults or ()]
    return sorted(dict.fromkeys(middles))[:most]


def group_name(kind: str) -> str:
    """A kind of fault with what the paper calls it."""
    paper = "PAJ" if kind in POINT_KINDS else "FJ" if kind in LASTING_KINDS else ""
    return f"{kind}, {paper}" if paper else kind
