"""The Server Machine Dataset in the folder in which its authors publish it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dfstrans.data.episodes import Episodes, Fault, default_sensor_names
from dfstrans.data.readers.cutting import cut
from dfstrans.data.readers.opening import ReadOptions, opening, require_content
from dfstrans.errors import DfstransError

NAME = "a ServerMachineDataset folder (test/, test_label/ and perhaps interpretation_label/)"
OPTIONS = frozenset({"length", "stride"})
_LENGTH = 500
SENSORS = (
    *("cpu_r", "load_1", "load_5", "load_15", "mem_shmem", "mem_u"),
    *("mem_u_e", "total_mem", "disk_q", "disk_r", "disk_rb", "disk_svc"),
    *("disk_u", "disk_w", "disk_wa", "disk_wb", "si", "so"),
    *("eth1_fi", "eth1_fo", "eth1_pi", "eth1_po", "tcp_tw", "tcp_use"),
    *("active_opens", "curr_estab", "in_errs", "in_segs", "listen_overflows", "out_rsts"),
    *("out_segs", "passive_opens", "retransegs", "tcp_timeouts", "udp_in_dg", "udp_out_dg"),
    *("udp_rcv_buf_errs", "udp_snd_buf_errs"),
)


def recognises(path: Path) -> bool:
    """Whether the path is a folder with the parts test and test_label."""
    return (path / "test_label").is_dir() and (path / "test").is_dir()


def read(path: Path, options: ReadOptions) -> Episodes:
    """The test part of all machines that are there, cut per machine, with the sensors that the authors blame."""
    files = sorted((path / "test").glob("*.txt"))
    if not files:
        raise DfstransError(f"expected test/<machine>.txt in {path}, got none; unpack the data set there")
    series: list[npt.NDArray[np.float32]] = []
    points: list[npt.NDArray[np.bool_]] = []
    faults: list[list[Fault]] = []
    for file in files:
        values = _numbers(file, pa.float32())
        if series and len(values) != len(series[0]):
            raise DfstransError(
                f"expected {len(series[0])} sensors in {file}, as in {files[0].name}, got {len(values)}; "
                "restore it from a copy"
            )
        anomalous = _numbers(path / "test_label" / file.name, pa.int8())[0].astype(np.bool_)
        if len(anomalous) != values.shape[1]:
            raise DfstransError(
                f"expected as many labels as points for {file.stem} in {path}, got {len(anomalous)} labels and "
                f"{values.shape[1]} points: a file ends early; restore it from a copy"
            )
        series.append(values)
        points.append(anomalous)
        faults.append(_faults(path / "interpretation_label" / file.name, _names(len(values))))
    recordings = Episodes.from_arrays(
        series,
        [int(anomalous.any()) for anomalous in points],
        ids=[file.stem for file in files],
        sensors=_names(len(series[0])),
        faults=faults if (path / "interpretation_label").is_dir() else None,
    )
    return cut(recordings, options.length or _LENGTH, options.stride, points)


def _names(n_sensors: int) -> tuple[str, ...]:
    return SENSORS if n_sensors == len(SENSORS) else default_sensor_names(n_sensors)


def _numbers(path: Path, kind: Any) -> npt.NDArray[Any]:
    """A text table without a header: (column, row)."""
    require_content(path, "a table of the Server Machine Dataset")
    with opening(path, "a table of the Server Machine Dataset"):
        with path.open() as file:
            width = len(file.readline().split(","))
        names = [str(place) for place in range(width)]
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=names),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, kind)),
        )
        return np.stack([table.column(name).to_numpy() for name in names])


def _faults(path: Path, sensors: tuple[str, ...]) -> list[Fault]:
    """Lines `start-stop:dimensions`: 0-based half-open times, 1-based dimensions."""
    if not path.is_file():
        return []
    faults = []
    with opening(path, "lines start-stop:dimensions"):
        for line in filter(None, map(str.strip, path.read_text().splitlines())):
            span, _, dimensions = line.partition(":")
            start, stop = map(int, span.split("-"))
            blamed = [int(number) for number in dimensions.split(",")]
            if not all(1 <= number <= len(sensors) for number in blamed):
                raise DfstransError(f"expected dimensions 1 to {len(sensors)} in {path}, got {line!r}; restore it")
            faults.append(Fault(start, stop, tuple(sensors[number - 1] for number in blamed)))
    return faults
