"""Small labelled data sets with planted anomalies whose sensor and moment are known exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import DfstransError

KINDS = ("burst", "offset")


def planted_episodes(
    n_normal: int = 300,
    n_anomalous: int = 100,
    n_sensors: int = 6,
    n_timepoints: int = 400,
    *,
    strength: float = 1.0,
    seed: int = 0,
) -> Episodes:
    """Generate episodes of coupled oscillations; anomalous ones have a disturbance in the first or the last sensor.

    All sensors follow the same two slow oscillations, each with its own weights, so that normal sensors explain each
    other. A disturbance lasts a tenth of the episode: a `burst` adds a fast oscillation, an `offset` raises the level.
    """
    if n_timepoints < 20 or n_sensors < 1 or n_normal < 0 or n_anomalous < 0:
        raise DfstransError(
            f"expected at least 20 timepoints, 1 sensor and no negative counts, got {n_timepoints} timepoints, "
            f"{n_sensors} sensors, {n_normal} normal and {n_anomalous} anomalous episodes"
        )
    rng = np.random.default_rng(seed)
    mixing = rng.uniform(0.4, 1.0, (n_sensors, 2)) * rng.choice([-1, 1], (n_sensors, 2))
    n = n_normal + n_anomalous
    labels = rng.permutation(np.repeat([0, 1], [n_normal, n_anomalous]))
    sensors = [f"S{i + 1}" for i in range(n_sensors)]
    values = np.stack([_normal_episode(mixing, n_timepoints, rng) for _ in range(n)])
    faults: list[list[Fault]] = [[] for _ in range(n)]
    for row in np.flatnonzero(labels):
        sensor = int(rng.choice([0, n_sensors - 1]))
        duration = n_timepoints // 10
        start = int(rng.integers(10)) * duration  # aligned with a tenth of the episode: one default segment
        kind = str(rng.choice(KINDS))
        _disturb(values[row, sensor, start : start + duration], kind, strength)
        faults[row].append(Fault(start, start + duration, (sensors[sensor],), kind))
    return Episodes.from_arrays(
        values,
        labels,
        ids=[f"run_{row:04d}" for row in range(n)],
        sensors=sensors,
        units=["mm/s"] * n_sensors,
        interval=0.01,
        time_unit="s",
        faults=faults,
    )


def _normal_episode(
    mixing: npt.NDArray[np.float64], n_timepoints: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Mix two oscillations of random phase and period into every sensor, with noise: (s, t)."""
    time = np.arange(n_timepoints) / n_timepoints
    cycles = np.array([2.0, 5.0]) * rng.uniform(0.97, 1.03, 2)
    sources = np.sin(2 * np.pi * (cycles[:, None] * time + rng.uniform(-0.05, 0.05, (2, 1))))
    mixed: npt.NDArray[np.float64] = mixing @ sources + 0.1 * rng.standard_normal((len(mixing), n_timepoints))
    return mixed


def _disturb(stretch: npt.NDArray[np.float64], kind: str, strength: float) -> None:
    """Change a stretch of one sensor in place."""
    if kind == "burst":
        stretch += strength * np.sin(2 * np.pi * np.arange(len(stretch)) / 6)
    else:
        stretch += 2.0 * strength
