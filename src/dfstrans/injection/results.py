"""What a study of planted faults found, by kind and strength; plain data, so that pages and programs can read it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple


class Metric(NamedTuple):
    """A figure of the diagnoses: its mean, what chance gives, a 95 % interval, and the floor of simple statistics."""

    value: float | None
    chance: float | None
    low: float | None
    high: float | None
    floor: float | None


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

    def value(self, name: str) -> float | None:
        """A figure by its name, of detection or of diagnosis."""
        if name in ("recall", "roc_auc", "pr_auc"):
            found: float | None = getattr(self, name)
            return found
        return self.diagnosis[name].value if name in self.diagnosis else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        content = dataclasses.asdict(self)
        return {**content, "diagnosis": {name: metric._asdict() for name, metric in self.diagnosis.items()}}


@dataclass(frozen=True)
class StudyResult:
    """All kinds and strengths, and what they were tried on."""

    statements: tuple[str, ...]
    training_episodes: int
    training_planted: int
    normal_tested: int
    false_alarms_per_100_normal: float
    threshold: float
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
            "cells": [cell.to_dict() for cell in self.cells],
        }
