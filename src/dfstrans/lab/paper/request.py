"""What of the paper is to be reproduced, and what came of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.detectors.saved_model import library_versions
from dfstrans.files import written_atomically
from dfstrans.lab.compare.comparison import ResultTable
from dfstrans.lab.compare.grid import Comparison
from dfstrans.lab.compare.protocols import ProtocolName
from dfstrans.lab.compare.runs import commit
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.printed import DETECTION

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


FIGURES = (".pdf", ".svg", ".png")


def with_record(request: Request, outcome: Outcome) -> Outcome:
    """The outcome, with a JSON file beside the figures if there are any."""
    if not any(path.suffix in FIGURES for path in outcome.written):
        return outcome
    path = request.out / f"{request.target.replace(':', '_')}.json"
    record = {
        "target": request.target,
        "quick": request.quick,
        "command": command(request),
        "seed": request.seed,
        "commit": commit(),
        "versions": library_versions(),
        **outcome.content,
    }
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return outcome._replace(written=[*outcome.written, path])


def command(request: Request) -> str:
    """What makes the figure, wherever the recordings are."""
    options = {
        "model": request.model and request.model.name,
        "data": request.data and request.data.name,
        "data_sets": request.data_sets and ",".join(request.data_sets),
        "protocol": request.protocols and ",".join(request.protocols),
        "models": request.models and ",".join(request.models),
        "folds": None if request.quick or request.folds == Request.folds else request.folds,
        "seeds": None if request.seeds == Request.seeds else request.seeds,
        "preset": None if request.preset == Request.preset else request.preset,
        **request.overrides,
    }
    words = ["dfstrans", "reproduce", request.target, "--out", "RESULTS"]
    for name, value in options.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), str(value)]
    return shlex.join([*words, *(["--quick"] if request.quick else [])])
