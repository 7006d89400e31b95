"""What of the paper is to be reproduced, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.elevator.settings import Preset
from dfstrans.experiments.detection import DETECTION
from dfstrans.experiments.grid import Comparison
from dfstrans.experiments.protocols import ProtocolName
from dfstrans.experiments.tables import ResultTable

QUICK = {"folds": 1, "epochs": 1, "at_most": 60}
NO_RESULT = "QUICK LOOK, NO RESULT: "

Compute = Callable[[Comparison], dict[str, str]]  # what went wrong, by cell
Simulate = Callable[[Path, Preset], None]  # journeys at a place, unless they are there


@dataclass(frozen=True)
class Request:
    """What to reproduce, and how much of it; what is None is what the target has."""

    target: str
    out: Path
    data: Path | None = None
    data_sets: tuple[str, ...] | None = None
    protocols: tuple[ProtocolName, ...] | None = None
    models: tuple[str, ...] | None = None
    folds: int = 5
    overrides: dict[str, Any] = field(default_factory=dict)
    preset: Preset = "small"  # of the simulated elevator
    quick: bool = False
    finished: bool = False  # only show what is there
    counts_only: bool = False
    seeds: int = 1  # of the ablation
    threads: int | None = None  # of each process that computes cells
    model: Path | None = None  # whose diagnoses are drawn, of the recordings at `data`

    @property
    def seed(self) -> int:
        """Of splits and weights."""
        return int(self.overrides.get("seed", 0))

    @property
    def part(self) -> list[str]:
        """The settings that were given to choose a part of the target."""
        whole = (Request.folds, QUICK["folds"]) if self.quick else (Request.folds,)
        given = {
            "data_sets": self.data_sets is not None,
            "protocol": self.protocols is not None,
            "models": self.models is not None,
            "folds": self.folds not in whole,
        }
        return [setting for setting, is_given in given.items() if is_given]

    @property
    def table(self) -> Path:
        """Where the tables are written, of a request as it was given."""
        return (self.out / "quick" if self.quick else self.out) / f"{self.target.replace(':', '_')}.md"

    @property
    def only_shown(self) -> bool:
        """Whether nothing but cells is written: a part must not take the place of the whole.

        Of a part that was computed that is where a table of detection is there, which `finished` alone writes anew.
        """
        if self.finished:
            return bool(self.part)
        chosen = [setting for setting in self.part if setting != "folds" or self.folds < Request.folds]
        return bool(chosen) and not self.quick and self.target in DETECTION and self.table.exists()


class Outcome(NamedTuple):
    """What came of it."""

    tables: list[ResultTable] = []  # noqa: RUF012 never changed
    content: dict[str, Any] = {}  # noqa: RUF012 what the tables say, for programs
    written: list[Path] = []  # noqa: RUF012
    failed: dict[str, str] = {}  # noqa: RUF012
