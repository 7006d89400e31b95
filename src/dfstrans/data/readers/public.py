"""Readers for public data sets: SMAP and MSL (telemanom), Server Machine Dataset, UEA and UCR archives."""

from __future__ import annotations

import ast
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dfstrans.data.conversion import default_sensor_names
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.cutting import cut
from dfstrans.data.readers.labels import LABEL_OPTIONS, to_labels
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.preparing import drop_sensors, first_of_bins, points_per_bin, prepare
from dfstrans.errors import DfstransError, list_few, option_name

COMMISSIONING = "train"  # the folder of both data sets with unlabelled, normal recordings of the same machines
_LENGTH = 500  # the paper's T for MSL and SMAP
_SPACECRAFT_LABELS = "labeled_anomalies.csv"
_SERVER_SENSORS = (
    *("cpu_r", "load_1", "load_5", "load_15", "mem_shmem", "mem_u"),
    *("mem_u_e", "total_mem", "disk_q", "disk_r", "disk_rb", "disk_svc"),
    *("disk_u", "disk_w", "disk_wa", "disk_wb", "si", "so"),
    *("eth1_fi", "eth1_fo", "eth1_pi", "eth1_po", "tcp_tw", "tcp_use"),
    *("active_opens", "curr_estab", "in_errs", "in_segs", "listen_overflows", "out_rsts"),
    *("out_segs", "passive_opens", "retransegs", "tcp_timeouts", "udp_in_dg", "udp_out_dg"),
    *("udp_rcv_buf_errs", "udp_snd_buf_errs"),
)


def commissioning_folder(path: Path) -> Path | None:
    """Return the folder with normal recordings of the machines that a public data set publishes; None without one.

    It can be read like the data set itself, and its episodes have no labels.
    """
    published = TELEMANOM.recognises(path) or SERVER_MACHINES.recognises(path)
    return path / COMMISSIONING if published and (path / COMMISSIONING).is_dir() else None


def _data_set(path: Path) -> tuple[Path, str]:
    """Return the folder of the data set and the part to read: its commissioning folder, or else the labelled one."""
    inside = path.name == COMMISSIONING and not (path / "test").is_dir()
    return (path.parent, COMMISSIONING) if inside else (path, "test")


def _contains(path: Path, *names: str) -> bool:
    return all((_data_set(path)[0] / name).exists() for name in names)


# ---- telemanom: SMAP and MSL ------------------------------------------------------------------------------------


def _read_telemanom(path: Path, options: ReadOptions) -> Episodes:
    """Read one part of one spacecraft, cut per channel: one telemetry sensor and its one-hot commands."""
    root, part = _data_set(path)
    faults = _channel_faults(root, options)
    channels = [channel for channel in faults if (root / part / f"{channel}.npy").is_file()]
    if not channels:
        raise DfstransError(
            f"expected {part}/<channel>.npy for channels such as {list_few(faults, 3)} in {root}, got none; "
            "unpack telemanom's data there"
        )
    series: list[npt.NDArray[np.float32]] = []
    for channel in channels:
        file = root / part / f"{channel}.npy"
        with opening(file, "a 2-D array (timepoint, column)"):
            array = np.load(file, allow_pickle=False)
            if array.ndim != 2 or (series and array.shape[1] != len(series[0])):
                raise DfstransError(
                    f"expected a 2-D array (timepoint, column) with the columns of {channels[0]} in {file}, "
                    f"got shape {array.shape}; restore it from a copy"
                )
            series.append(array.T.astype(np.float32))
    recordings = Episodes.from_arrays(
        series,
        None if part == COMMISSIONING else [int(bool(faults[channel])) for channel in channels],
        ids=channels,
        sensors=["telemetry", *(f"command_{number}" for number in range(1, len(series[0])))],
        faults=None if part == COMMISSIONING else [faults[channel] for channel in channels],
    )
    return cut(prepare(drop_sensors(recordings, options, path), options), options.length or _LENGTH, options.stride)


def _channel_faults(path: Path, options: ReadOptions) -> dict[str, list[Fault]]:
    """Return the anomalies of each channel of the spacecraft; a channel such as P-2 may have several lines."""
    file = path / _SPACECRAFT_LABELS
    with opening(file, "telemanom's label file"), file.open(newline="") as text:
        lines = list(csv.DictReader(text))
        craft = _choose_spacecraft({line["spacecraft"] for line in lines}, options, path)
        faults: dict[str, list[Fault]] = defaultdict(list)
        for line in lines:
            if line["spacecraft"] == craft:
                spans = ast.literal_eval(line["anomaly_sequences"])
                kinds = [kind.strip() for kind in line["class"].strip("[] ").split(",")]
                # the published ends are inclusive
                faults[line["chan_id"]] += [
                    Fault(int(first), int(last) + 1, kind=kind)
                    for (first, last), kind in zip(spans, kinds, strict=True)
                ]
    return {channel: sorted(found) for channel, found in faults.items()}


def _choose_spacecraft(found: set[str], options: ReadOptions, path: Path) -> str:
    if options.spacecraft in found:
        return str(options.spacecraft)
    if options.spacecraft is None and len(found) == 1:
        return found.pop()
    raise DfstransError(
        f"expected one of the spacecraft {list_few(sorted(found))} in {path}, got {options.spacecraft or 'none'}; "
        f"choose one, because their sensors differ ({option_name('spacecraft', 'SMAP')})"
    )


TELEMANOM = Reader(
    name=f"a telemanom folder ({_SPACECRAFT_LABELS}, test/<channel>.npy), or its folder {COMMISSIONING}/",
    options=frozenset({"length", "stride", "spacecraft"}),
    recognises=lambda path: _contains(path, _SPACECRAFT_LABELS, "test"),
    read=_read_telemanom,
    cuts=True,
)


# ---- Server Machine Dataset -------------------------------------------------------------------------------------


def _read_server_machines(path: Path, options: ReadOptions) -> Episodes:
    """Read one part of all machines, cut per machine; the labelled one with the sensors that the authors blame."""
    root, part = _data_set(path)
    files = sorted((root / part).glob("*.txt"))
    if not files:
        raise DfstransError(f"expected {part}/<machine>.txt in {root}, got none; unpack the data set there")
    series: list[npt.NDArray[np.float32]] = []
    for file in files:
        values = _read_numbers(file, pa.float32())
        if series and len(values) != len(series[0]):
            raise DfstransError(
                f"expected {len(series[0])} sensors in {file}, as in {files[0].name}, got {len(values)}; "
                "restore it from a copy"
            )
        series.append(values)
    points = None if part == COMMISSIONING else [*map(_server_labels, files, series)]
    n_sensors = len(series[0])
    sensors = _SERVER_SENSORS if n_sensors == len(_SERVER_SENSORS) else default_sensor_names(n_sensors)
    blamed = root / "interpretation_label"
    recordings = Episodes.from_arrays(
        series,
        None if points is None else [int(anomalous.any()) for anomalous in points],
        ids=[file.stem for file in files],
        sensors=sensors,
        faults=[_blamed_sensors(blamed / file.name, sensors) for file in files] if points and blamed.is_dir() else None,
    )
    recordings = drop_sensors(recordings, options, path)
    if points is not None and options.resample is not None:
        width = points_per_bin(recordings, options.resample)
        points = [np.logical_or.reduceat(one, first_of_bins(len(one), width)) for one in points]
    return cut(prepare(recordings, options), options.length or _LENGTH, options.stride, points)


def _server_labels(file: Path, values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Read which points of the recording in a file are anomalous."""
    root = file.parents[1]
    anomalous: npt.NDArray[np.bool_] = _read_numbers(root / "test_label" / file.name, pa.int8())[0].astype(np.bool_)
    if len(anomalous) != values.shape[1]:
        raise DfstransError(
            f"expected as many labels as points for {file.stem} in {root}, got {len(anomalous)} labels and "
            f"{values.shape[1]} points; restore the file that ends early from a copy"
        )
    return anomalous


def _read_numbers(path: Path, kind: Any) -> npt.NDArray[Any]:
    """Read a text table without a header: (column, row)."""
    with opening(path, "a table of the Server Machine Dataset"):
        with path.open() as file:
            names = [str(number) for number, _ in enumerate(file.readline().split(","))]
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=names),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, kind)),
        )
        return np.stack([table.column(name).to_numpy() for name in names])


def _blamed_sensors(path: Path, sensors: tuple[str, ...]) -> list[Fault]:
    """Parse lines `start-stop:dimensions`: 0-based half-open times, 1-based dimensions."""
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


SERVER_MACHINES = Reader(
    name="a ServerMachineDataset folder (test/, test_label/ and perhaps interpretation_label/), or its folder "
    f"{COMMISSIONING}/",
    options=frozenset({"length", "stride"}),
    recognises=lambda path: _contains(path, "test_label", "test"),
    read=_read_server_machines,
    cuts=True,
)


# ---- UEA and UCR archives ---------------------------------------------------------------------------------------


def _read_ts(path: Path, options: ReadOptions) -> Episodes:
    """Read one episode per line below `@data`: its dimensions, separated by colons, and its class."""
    with opening(path, "a .ts file"):
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    header, first = _ts_header(lines, path)
    has_label, *classes = header.get("classlabel", "false").split() or ["false"]
    series, words = [], []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.strip().split(":")
        if has_label.lower() == "true":
            words.append(parts.pop().strip())
        series.append(_ts_case(parts, header, f"line {number} of {path}"))
    if not series:
        raise DfstransError(f"expected cases below @data in {path}, got none: the file ends early; write it again")
    unknown = [word for word in words if classes and word not in classes]
    if unknown:
        raise DfstransError(
            f"expected the classes {list_few(classes)} at the line ends of {path}, got {list_few(unknown)}: "
            "a line ends early or is damaged; write the file again"
        )
    return Episodes.from_arrays(
        series,
        to_labels(pa.array(words), options, path) if words else None,
        sensors=[f"dimension_{number + 1}" for number in range(len(series[0]))],
    )


def _ts_header(lines: list[str], path: Path) -> tuple[dict[str, str], int]:
    """Return the fields before `@data`, names in lower case, and the index of the first line after it."""
    header: dict[str, str] = {}
    for number, line in enumerate(lines):
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            first = number + 1
            break
        if word.startswith("@"):
            header[word[1:].lower()] = rest.strip()
        elif word and not word.startswith("#"):
            raise DfstransError(
                f"expected header lines that start with @ before @data in {path}, got {line[:40]!r}; "
                "check whether it is a .ts file"
            )
    else:
        raise DfstransError(f"expected a line @data in {path}, got none: the file ends early; write it again")
    if header.get("timestamps", "false").lower() == "true":
        raise DfstransError(
            f"expected a .ts file without timestamps, got @timeStamps true in {path}; "
            "write the values on a regular grid without them"
        )
    if header.get("targetlabel", "false").split()[:1] == ["true"]:
        raise DfstransError(
            f"expected classes in {path}, got @targetLabel, a regression set without anomalies; use another data set"
        )
    header["dimensions"] = header.get("dimensions", header.get("dimension", ""))
    for name in ("dimensions", "serieslength"):
        if header.get(name) and not header[name].isdigit():
            raise DfstransError(f"expected a number as @{name} in {path}, got {header[name]!r}; correct it")
    return header, first


def _ts_case(parts: list[str], header: dict[str, str], where: str) -> npt.NDArray[np.float32]:
    """Parse one case: (n_dimensions, length)."""
    n_dimensions = header["dimensions"]
    if not parts or (n_dimensions and len(parts) != int(n_dimensions)):
        raise DfstransError(
            f"expected {n_dimensions or 'some'} dimensions in {where}, got {len(parts)}: the line ends early; "
            "write the file again"
        )
    cells = [["nan" if cell.strip() == "?" else cell for cell in text.split(",")] for text in parts]
    lengths = {len(dimension) for dimension in cells}
    expected = header.get("serieslength") if header.get("equallength", "").lower() == "true" else None
    if len(lengths) > 1 or (expected and lengths != {int(expected)}):
        raise DfstransError(
            f"expected {expected or 'equally many'} points in each dimension in {where}, got "
            f"{list_few(sorted(lengths))}: the line ends early or is damaged; write the file again"
        )
    try:
        return np.array(cells, dtype=np.float32)
    except ValueError as error:
        raise DfstransError(f"expected numbers or ? in {where}, got something else ({error}); correct it") from None


UEA = Reader(
    name="a UEA or UCR archive file (.ts)",
    options=LABEL_OPTIONS,
    recognises=lambda path: path.is_file() and path.suffix.lower() == ".ts",
    read=_read_ts,
)
