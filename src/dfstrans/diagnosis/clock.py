"""How the times of an episode are shown: as the recording's own date and time where they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.grid import SECONDS
from dfstrans.data.readers.cutting import recording_and_start


@dataclass(frozen=True)
class Clock:
    """Shows times of an episode as date and time if its start is known, else as time since the recording began.

    `offset` is the time from the beginning of the recording to that of the episode, if the episode is a piece of it.
    """

    unit: str = ""  # "points" without a sampling interval, empty if unknown
    offset: float = 0.0
    start: np.datetime64 | None = None
    zone: str = ""

    @classmethod
    def of(cls, episodes: Episodes, episode: Episode) -> Clock:
        """Return the clock of one of the episodes."""
        unit = episodes.time_unit if episodes.interval else "points"
        piece = recording_and_start(episode.id)
        offset = float(f"{piece[1] * (episodes.interval or 1):.12g}") if piece else 0.0
        start = episode.start if unit in SECONDS else None
        return cls(unit, offset, start, "" if start is None else episodes.time_zone)

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Clock:
        """Return the clock of a diagnosis in its JSON form."""
        started = None if content["started"] is None else np.datetime64(content["started"])
        return cls(content["time_unit"], content["offset"], started, content["time_zone"])

    @property
    def title(self) -> str:
        """Title of a time axis."""
        if self.start is not None:
            return f"date and time, {self.zone}" if self.zone else "date and time"
        return f"time in {self.unit}" if self.unit else "time"

    def at(self, times: npt.ArrayLike) -> list[Any]:
        """Return times since the start of the episode as values of a time axis: numbers, or dates as text.

        >>> Clock("s", 60.0).at([0, 1.5])
        [60.0, 61.5]
        >>> Clock("min", start=np.datetime64("2024-05-31T23:59")).at([1.5])
        ['2024-06-01T00:00:30.000000']
        """
        if self.start is None:
            return [float(f"{time:.12g}") for time in np.asarray(times) + self.offset]
        return [str(time) for time in self._dates(times)]

    def length(self, duration: float) -> float:
        """Return a duration on the axis of `at`, on which dates count in milliseconds."""
        return duration if self.start is None else duration * SECONDS[self.unit] * 1e3

    def span(self, start: float, end: float, between: str = " – ", *, within: float | None = None) -> str:
        """Format a span of time; the date is not repeated within a day.

        Where all times from the start to `within` are of one day, the date is left out altogether.

        >>> Clock("s").span(9, 10.5), Clock("", 60.0).span(9, 10.5, " to ")
        ('9 – 10.5 s', '69 to 70.5')
        >>> clock = Clock("s", start=np.datetime64("2024-05-31T22:59"))
        >>> clock.span(9, 10.5), clock.span(0, 60, within=600)
        ('2024-05-31 22:59:09 – 22:59:10.5', '22:59 – 23:00')
        """
        if self.start is None:
            first, last = self.at([start, end])
            return f"{first:.9g}{between}{last:.9g} {self.unit}".rstrip()
        dates = self._dates([start, end])
        unit = next(one for one in ("m", "s", "us") if (dates == dates.astype(f"M8[{one}]")).all())
        (day, began), (last_day, ended) = (str(one.astype(f"M8[{unit}]")).split("T") for one in dates)
        if unit == "us":
            began, ended = (one.rstrip("0").rstrip(".") for one in (began, ended))
        if within is not None and len(set(self._dates([0, within]).astype("M8[D]").tolist())) == 1:
            return f"{began}{between}{ended}"
        return f"{day} {began}{between}{ended if day == last_day else f'{last_day} {ended}'}"

    def _dates(self, times: npt.ArrayLike) -> npt.NDArray[np.datetime64]:
        assert self.start is not None  # checked by the callers
        since = np.rint(np.asarray(times) * SECONDS[self.unit] * 1e6).astype("m8[us]")
        return np.asarray(self.start.astype("M8[us]") + since)
