"""Folders of recordings as five kinds of machine leave them behind, each with the faults such folders have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import pandas as pd

Values = npt.NDArray[np.float64]


def write_class_folders(folder: Path) -> None:
    """Valves, one file per stroke, in folders by condition: an odd file, a broken time, an empty sensor, absurd values.

    `0` is the healthy condition; `3` and `7` are codes of faults.
    """
    rng = np.random.default_rng(1)
    for condition, n in {"0": 24, "3": 12, "7": 12}.items():
        for stroke in range(n):
            values = _waves(rng, 4, 120)
            values[1] += 3 * (condition == "3")
            values[2, 60:80] += 4 * (condition == "7")
            table = pd.DataFrame(values.T, columns=["pressure [bar]", "flow [l/min]", "current [A]", "travel [mm]"])
            table.insert(0, "time [s]", np.arange(120) / 10)
            table["spare"] = np.nan
            if stroke % 5 == 0:
                table.loc[stroke, "flow [l/min]"] = 1e30  # the converter failed
            if (condition, stroke) == ("0", 3):
                table = table.rename(columns={"current [A]": "Strom"})
            if (condition, stroke) == ("3", 4):
                table["time [s]"] = table["time [s]"].to_numpy()[::-1]
            path = folder / condition / f"stroke_{stroke:02}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            table.to_csv(path, index=False)


def write_servers(folder: Path) -> None:
    """Servers, one long recording each, with a label per row and a table of the faults."""
    rng = np.random.default_rng(2)
    faults = []
    for server in range(4):
        values, label = _waves(rng, 3, 2000), np.zeros(2000, dtype=int)
        for start in rng.choice(np.arange(2, 18), size=4, replace=False) * 100 + 20:
            values[server % 3, start : start + 50] += 5
            label[start : start + 50] = 1
            faults.append((f"server_{server}", "overload", ("cpu", "disk", "net")[server % 3], start, start + 49))
        table = pd.DataFrame(values.T, columns=["cpu", "disk", "net"]).assign(label=label)
        table.insert(0, "minute", np.arange(2000))
        table["host"] = f"host {server}.example"  # text that is neither a sensor nor a label
        table.to_csv(folder / f"server_{server}.csv", index=False)
    pd.DataFrame(faults, columns=["id", "fault", "sensors", "start", "last"]).to_csv(folder / "faults.csv", index=False)


def write_vibrations(folder: Path) -> None:
    """One HDF5 file of a bearing test rig, in its own layout: 48 runs of 3 accelerometers at 2 kHz."""
    rng = np.random.default_rng(3)
    values, state = rng.normal(size=(6000, 48, 3)), np.array(["healthy"] * 24 + ["outer race"] * 12 + ["cage"] * 12)
    values[:, 24:36, 1] *= 2.5
    values[::60, 36:, 2] += 12
    with h5py.File(folder / "rig.h5", "w") as file:
        file["acquisition/accelerometers"] = values.astype(np.float32)
        file["acquisition/rate"] = 2000.0
        file["meta/condition"] = state.astype("S")


def write_cycles(folder: Path) -> None:
    """Moulding cycles of several batches in one table, with its own names for what a cycle and its quality are."""
    rng = np.random.default_rng(4)
    tables = []
    for cycle in range(72):
        values = _waves(rng, 3, 60)
        bad = cycle % 3 == 0
        values[0, 20:40] += 4 * bad
        tables.append(
            pd.DataFrame(values.T, columns=["melt [°C]", "screw [mm]", "force [kN]"]).assign(
                Schuss=cycle, batch=f"B{cycle // 6}", quality="scrap" if bad else "fine", operator="day shift"
            )
        )
    pd.concat(tables).to_csv(folder / "cycles.csv", index=False)


def write_duplicates(folder: Path) -> None:
    """Pump runs with a label table; some were exported twice, under another name and with another batch number."""
    rng = np.random.default_rng(5)
    labels = []
    for run in range(40):
        values, label = _waves(rng, 3, 100), ("ok", "nok")[run % 2]
        values[2] += 3 * (run % 2)
        for name in (f"run_{run}", f"copy_of_{run}")[: 2 if run % 4 == 0 else 1]:
            pd.DataFrame(values.T, columns=["inlet", "outlet", "power"]).to_csv(folder / f"{name}.csv", index=False)
            labels.append((name, label))
    pd.DataFrame(labels, columns=["run", "result"]).to_csv(folder / "labels.csv", index=False)


def _waves(rng: np.random.Generator, n_sensors: int, n_points: int) -> Values:
    phase = rng.uniform(0, 2 * np.pi, size=(n_sensors, 1))
    waves: Values = np.sin(np.arange(n_points) / 7 + phase) + 0.3 * rng.normal(size=(n_sensors, n_points))
    return waves


HABITS: dict[str, Callable[[Path], None]] = {
    "valves": write_class_folders,
    "servers": write_servers,
    "bearings": write_vibrations,
    "moulding": write_cycles,
    "pumps": write_duplicates,
}
