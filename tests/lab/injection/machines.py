"""Small machines of many sorts of sensor, for tests of injected faults."""

from __future__ import annotations

from typing import Any

import numpy as np

from dfstrans.data.episodes import Episodes

SENSORS = ("speed", "current", "count", "switch", "fixed", "gappy")


def machine(n: int = 12, length: int = 60, seed: int = 0, **known: Any) -> Episodes:
    """Two coupled sensors, a counter and a switch coupled to them, one that never moves, one with gaps."""
    rng = np.random.default_rng(seed)
    time = np.arange(length)
    episodes = []
    for _ in range(n):
        speed = np.sin(2 * np.pi * (time / 20 + rng.random())) + 0.05 * rng.standard_normal(length)
        current = 100 + 5 * speed + 0.2 * rng.standard_normal(length)
        gappy = rng.standard_normal(length)
        gappy[rng.integers(0, length, length // 4)] = np.nan
        rows = [speed, current, np.rint(6 * speed), speed > 0, np.full(length, 3.0), gappy]
        episodes.append(np.stack(rows).astype(np.float32))
    return Episodes.from_arrays(episodes, sensors=SENSORS, interval=0.1, **known)
