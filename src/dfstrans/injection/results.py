"""What a study of planted faults found, by kind and strength; plain data, so that pages and programs can read it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from dfstrans.injection.kinds import KINDS
from dfstrans.standing import Standing

TWO_SIDED = 1.959964  # standard deviations of a Gaussian that hold 95 %


class Metric(NamedTuple):
    """A figure of the diagnoses: its mean, what chance gives, a 95 % interval, and the floor of simple statistics."""

    value: float | None
    chance: float | None
    low: float | None
    high: float | None
    floor: float | None


def share_interval(share: float, n: int) -> tuple[float, float]:
    """Where the share of n episodes lies at 95 %, by Wilson's score; few that are all alike leave it wide, too.

    >>> [tuple(round(end, 2) for end in share_interval(*given)) for given in ((1.0, 2), (0.0, 7), (0.5, 20))]
    [(0.34, 1.0), (0.0, 0.35), (0.3, 0.7)]
    """
    lean = TWO_SIDED**2 / n
    middle = (share + lean / 2) / (1 + lean)
    half = math.sqrt(lean * share * (1 - share) + lean**2 / 4) / (1 + lean)
    return max(middle - half, 0.0), min(middle + half, 1.0)  # rounding may lead beyond


@dataclass(frozen=True)
class CellResult:
    """How faults of one kind and strength were detected, and those that were detected diagnosed.

    Areas under curves are against the same normal episodes for every kind and strength. `diagnosis` has the metrics
    `sensor_hit_rate`, `sensor_ac_at_3` and `segment_hit`; none where nothing was detected. None is a figure that the
    episodes do not define.
    """

    kind: str
    strength: float
    unit: str
    episodes: int
    detected: int
    recall: float | None
    roc_auc: float | None
    pr_auc: float | None
    diagnosis: dict[str, Metric]

    @property
    def shown_strength(self) -> str:
        """The strength with its unit."""
        return KINDS[self.kind].shown(self.strength)

    def value(self, name: str) -> float | None:
        """A figure by its name, of detection or of diagnosis."""
        if name in ("recall", "roc_auc", "pr_auc"):
            found: float | None = getattr(self, name)
            return found
        return self.diagnosis[name].value if name in self.diagnosis else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; those of recall have its 95 % interval beside it."""
        low, high = (None, None) if self.recall is None else share_interval(self.recall, self.episodes)
        found = {name: metric._asdict() for name, metric in self.diagnosis.items()}
        return {**dataclasses.asdict(self), "recall_low": low, "recall_high": high, "diagnosis": found}


@dataclass(frozen=True)
class StudyResult:
    """All kinds and strengths, what they were tried on, and by what detector.

    `threshold_note` tells how its threshold was chosen, `standing` whether it is better than guessing.
    """

    statements: tuple[str, ...]
    training_episodes: int
    training_planted: int
    epochs: int
    normal_tested: int
    false_alarms_per_100_normal: float
    threshold: float
    threshold_note: str
    standing: Standing
    sensors: int
    split: str
    settings: dict[str, Any]
    cells: tuple[CellResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        content = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **content,
            "statements": list(self.statements),
            "standing": self.standing._asdict(),
            "cells": [cell.to_dict() for cell in self.cells],
        }
