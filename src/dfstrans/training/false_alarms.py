"""Thresholds in a user's words: at most so many false alarms of a machine in a week."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import seconds_of
from dfstrans.errors import DfstransError, option_name, reading_option_name
from dfstrans.training.calibration import false_alarm_threshold
from dfstrans.training.evaluation import Scores

PERIODS = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0, "month": 2_629_800.0}  # seconds
WORDS = re.compile(r"(?P<number>\d+\.?\d*|\.\d+)\s*(?:/|per)\s*(?P<period>[a-z]+)")


class FalseAlarms(NamedTuple):
    """The largest number of false alarms of a machine in a period of recording; pauses do not count."""

    number: float
    period: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule such as `1/week`.

        >>> FalseAlarms.parse("2 per day")
        FalseAlarms(number=2.0, period='day')
        """
        found = WORDS.fullmatch(text.strip().lower())
        if found is None or found["period"] not in PERIODS:
            raise DfstransError(
                f"expected a number of false alarms of a machine per {', '.join(PERIODS)}, got {text!r}; write for "
                f"example {option_name('false_alarms', '1/week')}"
            )
        return cls(float(found["number"]), found["period"])

    def share(self, episodes: Episodes) -> float:
        """Return the share of such episodes that may be alarms on a machine without faults."""
        seconds = recorded_seconds(episodes)
        if seconds is None or not len(episodes):
            raise DfstransError(
                f"expected recordings of known duration for {option_name('false_alarms')}, got {len(episodes)} without "
                f"a sampling interval in a unit of time; name the column with the time "
                f"({reading_option_name('time_column', ...)}), or give the rate "
                f"({reading_option_name('sampling_rate', ...)})"
            )
        return min(1.0, self.number * seconds / PERIODS[self.period] / len(episodes))

    def threshold(self, probabilities: Scores, machine: Episodes, least: float) -> float:
        """Return the lowest threshold, from `least` on, that keeps this rule on a machine's episodes.

        They count as normal. The rule limits alarms; it never asks for more of them, so `least` is never undercut.
        """
        return max(least, false_alarm_threshold(probabilities, self.share(machine)).value)


def recorded_seconds(episodes: Episodes) -> float | None:
    """Return how long the machines were recorded, added up over episodes; None if that is unknown."""
    step = seconds_of(episodes.interval, episodes.time_unit)
    return None if step is None else float(episodes.lengths.sum() * step)


def weekly_false_alarms(episodes: Episodes, false_positives: int) -> float | None:
    """Return the mean false alarms of a machine in a recorded week; None if the duration of the episodes is unknown."""
    seconds = recorded_seconds(episodes)
    return false_positives * PERIODS["week"] / seconds if seconds else None
