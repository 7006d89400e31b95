"""Which episodes a detector can score: one that is too short, or empty, does not spoil a run over thousands."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.errors import DfstransError
from dfstrans.estimator import EpisodeClassifier
from dfstrans.inputs import match_sensors

NAMED = 10  # episodes that a remark names


class Scorable(NamedTuple):
    """The episodes that can be scored, and the others: each with its `id` and the `reason`, for JSON."""

    episodes: Episodes
    left_out: list[dict[str, str]]


def scorable(
    detector: EpisodeClassifier, episodes: Episodes, remark: Callable[[str], None], *, every: bool = False
) -> Scorable:
    """The episodes without those that are too short or too long for the detector or have no value at all.

    Those are named in a remark, each with its reason. With `every`, or when none is left, they are an error.
    """
    reasons = {**_of_wrong_length(detector, episodes), **_empty(detector, episodes)}
    if not reasons:
        return Scorable(episodes, [])
    if every or len(reasons) == len(episodes):
        raise DfstransError(reasons[min(reasons)])
    rows = sorted(reasons)
    named = [str(episodes.ids[row]) for row in rows]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    remark(f"left out {len(named)} of {len(episodes)} episodes: {', '.join(named[:NAMED])}{more}")
    first_of_each = {reasons[row].split(", got")[0]: reasons[row] for row in reversed(rows)}
    for reason in first_of_each.values():
        remark(f"  {reason}")
    left_out = [{"id": str(episodes.ids[row]), "reason": reasons[row]} for row in rows]
    return Scorable(episodes[np.setdiff1d(np.arange(len(episodes)), rows)], left_out)


def _of_wrong_length(detector: EpisodeClassifier, episodes: Episodes) -> dict[int, str]:
    """What the detector says against an episode's length, by row; of a length that suits, one episode is tried."""
    found: dict[int, str] = {}
    for length in np.unique(episodes.lengths):
        for row in np.flatnonzero(episodes.lengths == length).tolist():
            try:
                detector.check_lengths(episodes[[row]], detector.network_settings_)
            except DfstransError as error:
                found[row] = str(error)
            else:
                break
    return found


def _empty(detector: EpisodeClassifier, episodes: Episodes) -> dict[int, str]:
    """Episodes in which every sensor that the detector looks at is missing from beginning to end, by row."""
    return {
        row: f"expected at least one value of a sensor in each episode, got none in episode {episode.id!r}; record it "
        "again, or leave it out"
        for row, episode in enumerate(match_sensors(episodes, detector.sensors_))
        if _has_no_value(episode)
    }


def _has_no_value(episode: Episode) -> bool:
    """Whether all is missing; most episodes show at their first point that it is not."""
    return bool(np.isnan(episode.values[:, 0]).all() and np.isnan(episode.values).all())
