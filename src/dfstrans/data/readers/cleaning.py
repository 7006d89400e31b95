"""What is done to the episodes of every format: sensors left out, infinite values refused or read as missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import dropped_columns, require_dropped
from dfstrans.data.readers.options import ReadOptions
from dfstrans.data.stored import StoredValues, infinite_to_nan
from dfstrans.errors import DfstransError, shortlist, spelled

OPTIONS = frozenset({"drop_sensors", "infinite_as_missing"})


def without_dropped(episodes: Episodes, options: ReadOptions, source: Path) -> Episodes:
    """The episodes without the sensors that `drop_sensors` names."""
    require_dropped(episodes.sensors, options, source)
    dropped = dropped_columns(episodes.sensors, options)
    if len(dropped) == episodes.n_sensors:
        raise DfstransError(f"expected to keep a sensor of {source}, got all in {spelled('drop_sensors')}; correct it")
    return episodes.select_sensors([name for name in episodes.sensors if name not in dropped]) if dropped else episodes


def without_infinite(episodes: Episodes, options: ReadOptions) -> Episodes:
    """The episodes without infinite values; those in a file are looked at only when they are read."""
    if isinstance(episodes.values, StoredValues):
        lazily = options.infinite_as_missing
        return replace(episodes, values=episodes.values.with_infinite_as_missing()) if lazily else episodes
    infinite = np.isinf(episodes.values)
    if not infinite.any():
        return episodes
    if options.infinite_as_missing:
        return replace(episodes, values=infinite_to_nan(episodes.values))
    rows, sensors, _ = np.nonzero(infinite)
    raise DfstransError(
        f"expected finite values, got {len(rows)} infinite ones in sensors "
        f"{shortlist(episodes.sensors[i] for i in np.unique(sensors))}, episodes: "
        f"{shortlist(episodes.ids[np.unique(rows)])}; correct them, or read them as missing "
        f"({spelled('infinite_as_missing', True)}); beyond 3.4e38, 32 bits end"
    )
