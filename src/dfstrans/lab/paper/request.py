"""What to reproduce of the paper, from which data sets, and the outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.detectors.saved_model import library_versions
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.lab.compare.comparison import ResultTable
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.protocols import PROTOCOLS, ProtocolName
from dfstrans.lab.compare.runs import command_line, commit
from dfstrans.lab.elevator.journey_file import is_simulated, simulate_to_file
from dfstrans.lab.elevator.settings import Preset, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.report.print_figures import write_figures

# ---- data sets ------------------------------------------------------------------------------------------------------

LENGTH = 500  # points of a sub-series, as in the paper
OVERLAPPING_STRIDE = 50  # the printed figures cannot be reached without overlap; this stride comes close


class Shape(NamedTuple):
    """The input size of the paper's networks."""

    n_sensors: int
    n_timepoints: int
    segment_length: int


class DataSet(NamedTuple):
    """A data set of the paper."""

    title: str
    folder: str | None  # inside the folder of public data; None: simulated
    source: str
    shape: Shape
    read: dict[str, Any] = {}  # noqa: RUF012 never changed


TELEMANOM = "telemanom of Hundman et al. 2018 (https://github.com/khundman/telemanom)"
DATA_SETS: dict[str, DataSet] = {
    "elevator": DataSet("Elevator", None, "dfstrans simulate elevator", Shape(20, 8000, 100)),
    "smd": DataSet(
        "SMD",
        "ServerMachineDataset",
        "the folder ServerMachineDataset of OmniAnomaly, Su et al. 2019 (https://github.com/NetManAIOps/OmniAnomaly)",
        Shape(38, 500, 50),
    ),
    "msl": DataSet("MSL", "telemanom", TELEMANOM, Shape(55, 500, 50), {"spacecraft": "MSL"}),
    "smap": DataSet("SMAP", "telemanom", TELEMANOM, Shape(25, 500, 50), {"spacecraft": "SMAP"}),
}


class Recordings(NamedTuple):
    """Where recordings are, and how to read them."""

    path: Path
    read: dict[str, Any]


def data_folder(given: Path | None) -> Path:
    """The given folder, that of DFSTRANS_DATA, or one in the user's cache, in this order."""
    if given is not None:
        return given
    if "DFSTRANS_DATA" in os.environ:
        return Path(os.environ["DFSTRANS_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dfstrans"


def effective_protocol(name: str, protocol: ProtocolName) -> ProtocolName:
    """The protocol of a data set: journeys are recorded one by one, so they cannot overlap."""
    return "no-overlap" if name == "elevator" and protocol == "paper-like" else protocol


def store_path(out: Path, name: str, protocol: ProtocolName, preset: Preset, suffix: str = "") -> Path:
    """The file of the finished runs of a data set under a protocol."""
    data = f"elevator_{preset}" if name == "elevator" else name
    return out / f"{data}_{effective_protocol(name, protocol)}{suffix}.jsonl"


def recordings_of(name: str, protocol: ProtocolName, folder: Path, preset: Preset) -> Recordings:
    """Where a data set is and how it is read under a protocol; missing public data raise an error."""
    data = DATA_SETS[name]
    if data.folder is None:
        return Recordings(folder / f"elevator_{preset}.h5", {})
    path = folder / data.folder
    if not path.is_dir():
        raise DfstransError(
            f"expected {data.folder}/ in {folder} for {data.title}, got no such folder; put {data.source} there, name "
            f"the folder that has it ({option_name('data', ...)} or the variable DFSTRANS_DATA), or choose other "
            f"{option_name('data_sets')}"
        )
    stride = OVERLAPPING_STRIDE if PROTOCOLS[protocol].overlapping else LENGTH
    return Recordings(path, {**data.read, "length": LENGTH, "stride": stride})


def simulate_elevator(
    path: Path, preset: Preset, advance: Callable[[int], None] = lambda _: None, jobs: int = 1
) -> None:
    """Simulate the journeys of a preset unless they exist; resume an interrupted simulation."""
    fleet = Fleet(SimulationSettings.of(preset, {}))
    if not is_simulated(path, fleet):
        simulate_to_file(path, fleet, jobs=jobs, advance=advance)


# ---- request and outcome --------------------------------------------------------------------------------------------

QUICK = {"folds": 1, "epochs": 1, "at_most": 60}
QUICK_LOOK = "QUICK LOOK, NO RESULT: "
FORMATS = ("pdf", "svg", "png")

Compute = Callable[[Comparison], dict[str, str]]  # error messages by run
Simulate = Callable[[Path, Preset], None]  # writes journeys to a file unless they exist


@dataclass(frozen=True)
class Request:
    """What to reproduce, and how to compute it; None means the default of the target."""

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
    finished: bool = False  # compute nothing
    counts_only: bool = False
    seeds: int = 1
    threads: int | None = None
    model: Path | None = None  # a trained model for figures of diagnoses, with its recordings at `data`
    compute: Compute = lambda comparison: compute_runs(Grid(comparison))
    simulate: Simulate = simulate_elevator

    @property
    def seed(self) -> int:
        """The seed of splits and weights."""
        return int(self.overrides.get("seed", 0))

    @property
    def part(self) -> list[str]:
        """The given options that select a part of the target."""
        whole = (Request.folds, QUICK["folds"]) if self.quick else (Request.folds,)
        given = {
            "data_sets": self.data_sets is not None,
            "protocol": self.protocols is not None,
            "models": self.models is not None,
            "folds": self.folds not in whole,
        }
        return [name for name, is_given in given.items() if is_given]

    @property
    def options(self) -> list[str]:
        """The given options that not every target has."""
        given = {
            "threads": self.threads is not None,
            "seeds": self.seeds != Request.seeds,
            "model": self.model is not None,
            "counts_only": self.counts_only,
        }
        return [*self.part, *(name for name, is_given in given.items() if is_given)]

    @property
    def name(self) -> str:
        """The target as the name of a file."""
        return self.target.replace(":", "_")


class Outcome(NamedTuple):
    """Tables, their content for programs, the written files, and the error messages of failed runs."""

    tables: list[ResultTable] = []  # noqa: RUF012 never changed
    content: dict[str, Any] = {}  # noqa: RUF012
    written: list[Path] = []  # noqa: RUF012
    failed: dict[str, str] = {}  # noqa: RUF012


def write_target(request: Request, draw: Callable[[], Any]) -> list[Path]:
    """Write the figure of the target in all formats for print."""
    return write_figures(request.out, {request.name: draw}, FORMATS)


def with_record(request: Request, outcome: Outcome) -> Outcome:
    """The outcome, with a JSON file next to its figures that records how they were made."""
    if not any(path.suffix.removeprefix(".") in FORMATS for path in outcome.written):
        return outcome
    path = request.out / f"{request.name}.json"
    record = {
        "target": request.target,
        "quick": request.quick,
        "command": command(request),
        "seed": request.seed,
        "commit": commit(),
        "versions": library_versions(),
        **outcome.content,
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return outcome._replace(written=[*outcome.written, path])


def command(request: Request) -> str:
    """The command of a request, with file names instead of paths."""
    options = {
        "model": request.model,
        "data": request.data,
        "data_sets": request.data_sets and ",".join(request.data_sets),
        "protocol": request.protocols and ",".join(request.protocols),
        "models": request.models and ",".join(request.models),
        "folds": None if request.quick or request.folds == Request.folds else request.folds,
        "seeds": None if request.seeds == Request.seeds else request.seeds,
        "preset": None if request.preset == Request.preset else request.preset,
        **request.overrides,
        "quick": request.quick,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return command_line("dfstrans", "reproduce", request.target, "--out", "RESULTS", options=given)
