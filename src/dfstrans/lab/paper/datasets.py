"""The four data sets of the paper: where they are, how they are cut, and the elevator, which is simulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.compare.protocols import PROTOCOLS, ProtocolName
from dfstrans.lab.elevator.settings import Preset, SimulationSettings

LENGTH = 500  # points of a sub-series, as in the paper
OVERLAPPING_STRIDE = 50  # the printed figures are out of reach without overlap, and near at this stride


class Shape(NamedTuple):
    """What the paper's networks were built for."""

    n_sensors: int
    n_timepoints: int
    segment_length: int


class DataSet(NamedTuple):
    """A data set of the paper."""

    title: str
    folder: str | None  # in the folder of the public data; None: simulated
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


class Place(NamedTuple):
    """Where recordings are, and how to read them."""

    path: Path
    read: dict[str, Any]


def data_folder(given: Path | None) -> Path:
    """The folder that was given, or that DFSTRANS_DATA names, or one of the user's own for what can be simulated."""
    if given is not None:
        return given
    if "DFSTRANS_DATA" in os.environ:
        return Path(os.environ["DFSTRANS_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dfstrans"


def results_folder(out: Path, name: str, protocol: ProtocolName, preset: Preset) -> Path:
    """Where the cells of a data set under a protocol are."""
    data = f"elevator_{preset}" if name == "elevator" else name
    return out / f"{data}_{effective(name, protocol)}"


def effective(name: str, protocol: ProtocolName) -> ProtocolName:
    """The protocol that it comes to: journeys are recorded one by one, so that they cannot overlap."""
    return "no-overlap" if name == "elevator" and protocol == "paper-like" else protocol


def place_of(name: str, protocol: ProtocolName, folder: Path, preset: Preset) -> Place:
    """Where a data set is and how it is read under a protocol; an error tells what to do if it is not there."""
    data = DATA_SETS[name]
    if data.folder is None:
        return Place(folder / f"elevator_{preset}.h5", {})
    path = folder / data.folder
    if not path.is_dir():
        raise DfstransError(
            f"expected {data.folder}/ in {folder} for {data.title}, got no such folder; put {data.source} there, name "
            f"the folder that holds it ({option_name('data', ...)} or the variable DFSTRANS_DATA), or choose other "
            f"{option_name('data_sets')}"
        )
    stride = OVERLAPPING_STRIDE if PROTOCOLS[protocol].overlapping else LENGTH
    return Place(path, {**data.read, "length": LENGTH, "stride": stride})


def simulate_elevator(path: Path, preset: Preset, advance: Callable[[int], None], jobs: int = 1) -> None:
    """Simulate the journeys of a preset, unless they are there; an interrupted simulation goes on."""
    from dfstrans.lab.elevator.journey_file import is_simulated, simulate_to_file
    from dfstrans.lab.elevator.simulation import Fleet

    fleet = Fleet(SimulationSettings.of(preset, {}))
    if not is_simulated(path, fleet):
        simulate_to_file(path, fleet, jobs=jobs, advance=advance)
