"""TDMS, as LabVIEW writes it: the channels of a group are the columns of a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dfstrans.data.problems import Problem, report
from dfstrans.data.readers.columns import find_column, find_roles
from dfstrans.data.readers.containers import LABEL_NAME
from dfstrans.data.readers.opening import EmptyTableError, ReadOptions, opening
from dfstrans.data.readers.tables import TDMS_SUFFIX, Kind, Table
from dfstrans.errors import DfstransError, counted, list_few, option_name, require_package

_ID, _TIME = "episode_id", "time"  # columns that are made from the groups and the waveform properties
_UNITS = ("unit_string", "NI_UnitDescription")
_FIRST_YEAR = np.datetime64("1970-01-01")  # a start before is that of a clock that was not set (1904)


def is_tdms(path: Path) -> bool:
    """Return whether the file name has the suffix of TDMS."""
    return path.suffix.lower() == TDMS_SUFFIX


class TdmsTable(Table):
    """The channels of one group, or of all groups if their channels are alike: each group is then a recording.

    The waveform properties of the channels give the time; a property that the options name as the id, label or group
    becomes a column.
    """

    lines_before = None

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        file = _metadata(path)
        self._groups = _chosen(_recorded(file), options, path)
        first = self._groups[0]
        incomplete = file.file_status.incomplete_final_segment
        self._n_points = [_common_points(group, options, path, incomplete=incomplete) for group in self._groups]
        self._channels = {_header(channel): channel.name for channel in first.channels() if len(channel)}
        written = [{**file.properties, **group.properties} for group in self._groups]
        self._properties = {
            name: [str(about[name]) for about in written]
            for name in (options.id_column, options.label_column, options.group_column)
            if name is not None
            and find_column(tuple(self._channels), name) is None
            and all(name in about for about in written)
        }
        self.one_label = options.label_column in self._properties
        own = [_ID] if len(self._groups) > 1 else []
        usual = find_roles(tuple(self._channels), ReadOptions(), path)
        has_time = options.time_column is not None or usual.time is not None
        if not has_time and options.sampling_rate is None and _waveform(first)[0]:
            own.append(_TIME)
        self.names = (*own, *self._properties, *self._channels)
        if options.label_column is None and options.labels is None and usual.label is None:
            _suggest_label(written, path)

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        """Return the requested columns, the groups one below the other."""
        from nptdms import TdmsFile

        with opening(self.path, "TDMS"), self.path.open("rb") as content, TdmsFile.open(content) as file:
            return {name: pa.chunked_array([self._read(file, name, group) for group in self._groups]) for name in kinds}

    def _read(self, file: Any, name: str, group: Any) -> Any:
        number = self._groups.index(group)
        n = self._n_points[number]
        if name in self._channels:
            data = np.asarray(file[group.name][self._channels[name]][:n])
            if np.issubdtype(data.dtype, np.datetime64):
                return pa.array(data).cast(pa.timestamp("ns", "UTC"))
            return pa.array(data.astype(str) if np.iscomplexobj(data) else data)
        if name in self._properties:
            return pa.array([self._properties[name][number]] * n)
        return pa.array([group.name] * n) if name == _ID else _times(group, n)


def with_likely_group(path: Path, options: ReadOptions) -> ReadOptions:
    """Return the options with the largest group, if they name none and the groups differ; that is reported."""
    groups = _recorded(_metadata(path))
    if options.dataset is not None or _alike(groups):
        return options
    likely = max(groups, key=lambda group: sum(map(len, group.channels()))).name
    report(
        Problem(
            f"expected the name of a group of channels in {path} ({option_name('dataset')}), got none; the file "
            f"contains {_listed(groups)}; name one, perhaps {option_name('dataset', likely)}",
            file=path,
        )
    )
    return options.model_copy(update={"dataset": likely})


def _metadata(path: Path) -> Any:
    """Read everything but the values."""
    require_package("nptdms", "tdms", f"reading {path.name}")
    from nptdms import TdmsFile
    from nptdms.log import log_manager

    log_manager.set_level(logging.ERROR)  # a file that ends early is reported below
    with opening(path, "TDMS"), path.open("rb") as content:  # a path would also read an index, perhaps of another file
        file = TdmsFile.read_metadata(content)
    if file.file_status.incomplete_final_segment:
        report(
            Problem(
                f"{path} ends within its last segment, so its last points are missing; check whether it is complete",
                level="warning",
                file=path,
                kind="incomplete TDMS",
            )
        )
    return file


def _recorded(file: Any) -> list[Any]:
    """Return the groups that have values."""
    return [group for group in file.groups() if any(map(len, group.channels()))]


def _chosen(groups: list[Any], options: ReadOptions, path: Path) -> list[Any]:
    if not groups:
        raise EmptyTableError(f"expected channels with values in {path}, got none; write it again or remove it")
    named = [group for group in groups if group.name == options.dataset]
    if options.dataset is None and _alike(groups):
        named = groups
    if not named:
        raise DfstransError(
            f"expected the name of a group of channels in {path} ({option_name('dataset')}), got "
            f"{'none' if options.dataset is None else repr(options.dataset)}; the file contains {_listed(groups)}; "
            f"name one ({option_name('dataset', groups[0].name)})"
        )
    return named


def _alike(groups: Iterable[Any]) -> bool:
    """Return whether all groups have the same channels: then each is a recording."""
    return len({tuple(sorted(_header(channel) for channel in group.channels())) for group in groups}) <= 1


def _common_points(group: Any, options: ReadOptions, path: Path, *, incomplete: bool) -> int:
    """Return the points of the channels; reject other lengths, sampling rates or starts, unless they are dropped.

    The channels of an incomplete file may differ in length.
    """
    kept = [channel for channel in group.channels() if len(channel) and channel.name not in options.drop_sensors]
    grids: dict[Any, list[Any]] = {}
    for channel in kept:
        grid = 0 if incomplete else len(channel), channel.properties.get("wf_increment", 0), _start(channel)
        grids.setdefault(grid, []).append(channel)
    if len(grids) > 1:
        most = max(grids.values(), key=lambda channels: sum(map(len, channels)))
        others = ",".join(channel.name for channel in kept if channel not in most)
        shown = "; ".join(map(_described, grids.values()))
        raise DfstransError(
            f"expected channels of one length, sampling rate and start in group {group.name!r} of {path}, got {shown}; "
            f"drop the others ({option_name('drop_sensors', others)}), or name another group "
            f"({option_name('dataset', ...)})"
        )
    return min(map(len, kept), default=0)


def _suggest_label(written: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Report the first property with a usual name of a label."""
    for name, value in (item for about in written for item in about.items()):
        if LABEL_NAME.search(name) and str(value):
            report(
                Problem(
                    f"property {name!r} of {path} is {str(value)!r}; if it is the label, name it "
                    f"({option_name('label_column', name)})",
                    level="warning",
                    file=path,
                    kind="label of TDMS",
                )
            )
            return


def _start(channel: Any) -> np.datetime64 | None:
    """Return the date and time of the first point, None if it is unknown."""
    start = channel.properties.get("wf_start_time")
    if start is None or np.datetime64(start) < _FIRST_YEAR:
        return None
    offset = np.timedelta64(round(float(channel.properties.get("wf_start_offset", 0)) * 1e9), "ns")
    first: np.datetime64 = np.datetime64(start).astype("datetime64[ns]") + offset
    return first


def _waveform(group: Any) -> tuple[float, np.datetime64 | None]:
    """Return the seconds between two points and the date and time of the first."""
    channel = next(channel for channel in group.channels() if len(channel))
    return float(channel.properties.get("wf_increment", 0)), _start(channel)


def _times(group: Any, n: int) -> Any:
    increment, start = _waveform(group)
    since = np.round(np.arange(n) * increment * 1e9).astype("timedelta64[ns]")
    if start is None:
        return pa.array(since)
    return pa.array(start + since).cast(pa.timestamp("ns", "UTC"))


def _header(channel: Any) -> str:
    unit = next((channel.properties[name] for name in _UNITS if channel.properties.get(name)), "")
    return f"{channel.name} [{unit}]" if unit else str(channel.name)


def _listed(groups: Iterable[Any]) -> str:
    """All groups with their channels."""
    return list_few((f"{group.name!r} ({_described(group.channels())})" for group in groups), 30)


def _described(channels: Iterable[Any]) -> str:
    """Name channels, and the points, sampling rate and start of the first with values."""
    recorded = [channel for channel in channels if len(channel)]
    increment, start = recorded[0].properties.get("wf_increment", 0), _start(recorded[0])
    rate = f" at {1 / increment:g} Hz" if increment else ""
    begin = "" if start is None else f" from {start.astype('datetime64[ms]')}"
    return f"{list_few((channel.name for channel in recorded), 8)}: {counted(len(recorded[0]), 'point')}{rate}{begin}"
