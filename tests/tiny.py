"""Settings and episodes small enough to train in a second."""

from __future__ import annotations

from typing import Any

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import planted_episodes

TINY: dict[str, Any] = {
    "segment_length": 16,
    "epochs": 3,
    "batch_size": 8,
    "precision": "32",
    "network": {"filters": 4, "heads": 2, "feedforward": 16, "head_width": 8},
}


def tiny_episodes(seed: int = 0, n_normal: int = 24, n_anomalous: int = 12) -> Episodes:
    return planted_episodes(n_normal, n_anomalous, n_sensors=3, n_timepoints=48, seed=seed)
