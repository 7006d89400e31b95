"""The SMAP and MSL spacecraft telemetry in the folder in which telemanom publishes it."""

from __future__ import annotations

import ast
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.cutting import cut
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.errors import DfstransError, option_name, shortlist

NAME = "a telemanom folder (labeled_anomalies.csv, test/<channel>.npy)"
OPTIONS = frozenset({"length", "stride", "spacecraft"})
_LABELS = "labeled_anomalies.csv"
_LENGTH = 500  # the paper's T for MSL and SMAP


def recognises(path: Path) -> bool:
    """Whether the path is a folder with telemanom's label file and its test part."""
    return (path / _LABELS).is_file() and (path / "test").is_dir()


def read(path: Path, options: ReadOptions) -> Episodes:
    """The test part of one spacecraft, cut per channel: one telemetry sensor and its one-hot commands."""
    faults = _faults(path, options)
    channels = [channel for channel in faults if (path / "test" / f"{channel}.npy").is_file()]
    if not channels:
        raise DfstransError(
            f"expected test/<channel>.npy for channels such as {shortlist(faults, 3)} in {path}, got none; "
            "unpack telemanom's data there"
        )
    series: list[npt.NDArray[np.float32]] = []
    for channel in channels:
        file = path / "test" / f"{channel}.npy"
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
        [int(bool(faults[channel])) for channel in channels],
        ids=channels,
        sensors=["telemetry", *(f"command_{place}" for place in range(1, len(series[0])))],
        faults=[faults[channel] for channel in channels],
    )
    return cut(recordings, options.length or _LENGTH, options.stride)


def _faults(path: Path, options: ReadOptions) -> dict[str, list[Fault]]:
    """The anomalies of each channel of the spacecraft; a channel may have several lines (P-2 has)."""
    with opening(path / _LABELS, "telemanom's label file"), (path / _LABELS).open(newline="") as file:
        lines = list(csv.DictReader(file))
        craft = _spacecraft({line["spacecraft"] for line in lines}, options, path)
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


def _spacecraft(found: set[str], options: ReadOptions, path: Path) -> str:
    if options.spacecraft in found:
        return str(options.spacecraft)
    if options.spacecraft is None and len(found) == 1:
        return found.pop()
    raise DfstransError(
        f"expected one of the spacecraft {shortlist(sorted(found))} in {path}, got {options.spacecraft or 'none'}; "
        f"choose one, since their sensors differ ({option_name('spacecraft', 'SMAP')})"
    )
