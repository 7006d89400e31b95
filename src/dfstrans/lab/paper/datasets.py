"""The four data sets of the paper: where they are, how they are cut, and the simulated elevator."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.compare.protocols import PROTOCOLS, ProtocolName
from dfstrans.lab.elevator.journey_file import is_simulated, simulate_to_file
from dfstrans.lab.elevator.settings import Preset, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet

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
