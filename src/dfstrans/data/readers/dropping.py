"""Sensors that are left out of files whose columns have no other part to play."""

from __future__ import annotations

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.opening import shortlist
from dfstrans.data.readers.options import ReadOptions
from dfstrans.errors import DfstransError


def without_dropped(episodes: Episodes, options: ReadOptions) -> Episodes:
    """The episodes without the sensors that `drop_sensors` names."""
    unknown = [name for name in options.drop_sensors if name not in episodes.sensors]
    kept = [name for name in episodes.sensors if name not in options.drop_sensors]
    if unknown or not kept:
        raise DfstransError(
            f"expected some of the sensors {shortlist(episodes.sensors, 20)} in drop_sensors, got "
            f"{shortlist(unknown or options.drop_sensors)}; correct drop_sensors"
        )
    return episodes.select_sensors(kept) if options.drop_sensors else episodes
