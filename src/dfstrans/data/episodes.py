"""`Episodes`: labelled recordings of many sensors, in memory or in a file."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.conversion import (
    Values,
    as_labels,
    as_lengths,
    as_starts,
    as_values,
    check_count,
    check_unique,
    default_sensor_names,
    from_layout,
    from_long_frame,
    join,
    pad,
    time_span,
)
from dfstrans.data.splits import PAPER_FRACTIONS, Fractions, three_way_split
from dfstrans.data.storage import StoredValues
from dfstrans.data.truth import GradedTruth
from dfstrans.errors import DfstransError, counted, list_few, option_name, reading_option_name


class Fault(NamedTuple):
    """A known fault in an episode: points `start` to `stop` (exclusive), the affected sensors, kind and severity.

    An empty tuple of sensors, an empty kind or no severity means unknown.
    """

    start: int
    stop: int
    sensors: tuple[str, ...] = ()
    kind: str = ""
    severity: float | None = None

    def locates(self, length: int) -> bool:
        """Return whether the fault says where a recording of this length is anomalous, in time or among sensors."""
        return self[:3] != (0, length, ())


class Episode(NamedTuple):
    """One recording: values (n_sensors, length), without padding."""

    id: str
    values: npt.NDArray[np.float32]
    label: int | None
    group: str | None
    faults: tuple[Fault, ...] | None
    start: np.datetime64 | None = None


def mark_points(faults: Iterable[Fault], length: int) -> npt.NDArray[np.bool_]:
    """Mark the points of a recording that lie in one of its faults: (length,)."""
    marked = np.zeros(length, dtype=np.bool_)
    for fault in faults:
        marked[fault.start : fault.stop] = True
    return marked


@dataclass(frozen=True, eq=False, repr=False)
class Episodes:
    """Recordings of the same sensors, each a short period of a machine's operation with one label.

    Lengths may differ: everything beyond `lengths[i]` is padding, which is never used. NaN within the length is a
    missing value. `values` is an array, or `StoredValues`, which are read from a file on demand.

    `starts` is the date and time of the first point of each episode, as the clock of the recording showed it (NaT where
    unknown), and `time_zone` its zone: `UTC`, an offset such as `+02:00`, or empty if the recording names none.

    Shape:
        values (n_episodes, n_sensors, n_timepoints) float32; lengths, labels, ids, groups, starts (n_episodes,)
    """

    values: Values
    lengths: npt.NDArray[np.int64]
    ids: npt.NDArray[np.str_]
    sensors: tuple[str, ...]
    units: tuple[str, ...]
    labels: npt.NDArray[np.int8] | None = None
    interval: float | None = None
    groups: npt.NDArray[np.str_] | None = None
    faults: tuple[tuple[Fault, ...], ...] | None = None
    truth: GradedTruth | None = None
    time_unit: str = ""  # of the interval, such as s; empty if unknown
    starts: npt.NDArray[np.datetime64] | None = None
    time_zone: str = ""

    @classmethod
    def from_arrays(
        cls,
        values: npt.ArrayLike | Sequence[npt.ArrayLike] | StoredValues,
        labels: npt.ArrayLike | None = None,
        *,
        lengths: npt.ArrayLike | None = None,
        ids: Sequence[str] | npt.NDArray[Any] | None = None,
        sensors: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        interval: float | None = None,
        groups: Sequence[str] | npt.NDArray[Any] | None = None,
        faults: Sequence[Sequence[Fault]] | None = None,
        truth: GradedTruth | None = None,
        time_unit: str = "",
        starts: npt.ArrayLike | Sequence[Any] | None = None,
        time_zone: str = "",
    ) -> Self:
        """Check the arrays and build episodes from them.

        `values` is a 3-D array (episode, sensor, timepoint) or a list of 2-D arrays (sensor, timepoint) of any lengths.
        In a 3-D array NaN is a missing value, even at the end; if it pads shorter episodes, pass `lengths`.

        >>> Episodes.from_arrays(np.zeros((3, 2, 50)), labels=[0, 0, 1])
        Episodes: 3 (1 anomalous, 2 normal) × 2 sensors × 50 points
          sensors   sensor_1, sensor_2
          values    in memory, 0.0 MB
        """
        checked_values, full_lengths = as_values(values)
        n, n_sensors, n_timepoints = checked_values.shape
        id_list = [f"episode_{i}" for i in range(n)] if ids is None else [str(i) for i in ids]
        sensor_names = default_sensor_names(n_sensors) if sensors is None else tuple(map(str, sensors))
        unit_names = ("",) * n_sensors if units is None else tuple(map(str, units))
        check_count("episode ids", id_list, n)
        check_unique("episode ids", id_list, "rename or merge them")
        check_count("sensor names", sensor_names, n_sensors)
        check_unique("sensor names", sensor_names, "rename them")
        check_count("units", unit_names, n_sensors)
        if groups is not None:
            check_count("groups", groups, n)
        if faults is not None:
            check_count("lists of faults", faults, n)
        if truth is not None and (len(truth.relevance), truth.relevance.shape[2]) != (n, n_sensors):
            raise DfstransError(
                f"expected the truth of {n} episodes and {n_sensors} sensors, got that of "
                f"{len(truth.relevance)} episodes and {truth.relevance.shape[2]} sensors"
            )
        if interval is not None and not (np.isfinite(interval) and interval > 0):
            raise DfstransError(f"expected a sampling interval above 0, got {interval}")
        return cls(
            values=checked_values,
            lengths=full_lengths if lengths is None else as_lengths(lengths, n, n_timepoints),
            ids=np.asarray(id_list, dtype=np.str_),
            sensors=sensor_names,
            units=unit_names,
            labels=None if labels is None else as_labels(labels, n),
            interval=None if interval is None else float(interval),
            groups=None if groups is None else np.asarray([str(group) for group in groups], dtype=np.str_),
            faults=None if faults is None else tuple(map(tuple, faults)),
            truth=truth,
            time_unit=time_unit,
            starts=None if starts is None else as_starts(starts, n),
            time_zone=time_zone,
        )

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        *,
        id: str | None = None,
        label: str | None = None,
        time: str | None = None,
        group: str | None = None,
        normal_value: Any = None,
        anomalous_value: Any = None,
        time_unit: str = "",
    ) -> Self:
        """Build episodes from a pandas frame with a row per point; every column without another role is a sensor.

        The columns are called episode_id, label, time and group unless others are named. Times are dates, or numbers
        in `time_unit`; points that are missing on the regular grid of time become missing values. An episode is
        anomalous if one of its points is.
        """
        columns = {"id": id, "label": label, "time": time, "group": group}
        known = from_long_frame(frame, columns, time_unit, normal_value, anomalous_value)
        stretches = known.pop("stretches", None)
        faults = None if stretches is None else [[Fault(*one) for one in found] for found in stretches]
        return cls.from_arrays(**known, faults=faults)

    @classmethod
    def from_dataset(
        cls,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        normal_value: Any = None,
        anomalous_value: Any = None,
        **known: Any,
    ) -> Self:
        """Build episodes from a data set of aeon, sktime or tsai.

        `X` is an array (episode, channel, timepoint), a list of arrays (channel, timepoint), a nested frame, or a frame
        with the index (episode, timepoint); `y` are two labels, one of which is the `normal_value`. `known` are other
        arguments of `from_arrays`, such as sensors or groups.

        >>> Episodes.from_dataset(np.zeros((2, 3, 50)), ["ok", "worn"], normal_value="ok").labels
        array([0, 1], dtype=int8)
        """
        labels = None if y is None else as_labels(y, len(y), normal_value, anomalous_value)
        return cls.from_arrays(**{**from_layout(X), "labels": labels, **known})

    # ---- contents -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints), for scikit-learn."""
        return len(self), self.n_sensors, self.n_timepoints

    @property
    def n_sensors(self) -> int:
        """Number of sensors."""
        return len(self.sensors)

    @property
    def n_timepoints(self) -> int:
        """Number of points of the values array, including padding."""
        return int(self.values.shape[2])

    @property
    def is_stored(self) -> bool:
        """Whether the values are in a file and read on demand."""
        return isinstance(self.values, StoredValues)

    @property
    def n_anomalous(self) -> int:
        """Number of episodes with label 1."""
        return 0 if self.labels is None else int(self.labels.sum())

    @property
    def known_faults(self) -> tuple[tuple[Fault, ...], ...]:
        """The faults of each episode, none where they are unknown."""
        return ((),) * len(self) if self.faults is None else self.faults

    def require_labels(self) -> npt.NDArray[np.int8]:
        """Return the labels; raise an error if there are none."""
        if self.labels is None:
            raise DfstransError(
                "expected labelled episodes (0 normal, 1 anomalous), got episodes without labels; "
                "add a label column or a label table"
            )
        return self.labels

    def require_groups(self) -> npt.NDArray[np.str_]:
        """Return the group of each episode; raise an error if there are none."""
        if self.groups is None:
            raise DfstransError(
                "expected episodes with a group (machine, channel) for a grouped split, got none; name the column with "
                f"the group ({reading_option_name('group_column', ...)}), or use {option_name('split', 'random')}"
            )
        return self.groups

    def __repr__(self) -> str:
        n, n_sensors, _ = self.shape
        balance = (
            "unlabelled" if self.labels is None else f"{self.n_anomalous} anomalous, {n - self.n_anomalous} normal"
        )
        shortest, longest = (int(self.lengths.min()), int(self.lengths.max())) if n else (0, 0)
        points = f"{longest}" if shortest == longest else f"{shortest} to {longest}"
        lines = [f"Episodes: {n} ({balance}) × {n_sensors} sensors × {points} points"]
        named = [f"{s} [{u}]" if u else s for s, u in zip(self.sensors, self.units, strict=True)]
        lines.append("sensors   " + ", ".join(named[:6]) + (f", … {n_sensors - 6} more" if n_sensors > 6 else ""))
        if self.interval is not None:
            lines.append(f"interval  {self.interval:g} {self.time_unit or '(unit unknown)'}")
        if self.starts is not None:
            lines.append(f"times     {time_span(self.starts)} {self.time_zone or '(zone unknown)'}")
        if self.groups is not None:
            lines.append(f"groups    {len(set(self.groups.tolist()))}")
        if self.faults is not None:
            lengths = self.lengths.tolist()
            located = sum(
                fault.locates(length) for faults, length in zip(self.faults, lengths, strict=True) for fault in faults
            )
            total = sum(map(len, self.faults))
            whole = [f"{total - located} of whole episodes"] if located < total else []
            known = [f"{located} with known location"] if located or not whole else []
            lines.append(f"faults    {', '.join(known + whole)}")
        if self.truth is not None:
            lines.append(f"truth     graded, in segments of {self.truth.segment_length} points")
        megabytes = float(np.prod(self.shape)) * 4 / 1e6
        lines.append(f"values    {'in a file' if self.is_stored else 'in memory'}, {megabytes:.1f} MB")
        return "\n  ".join(lines)

    # ---- selections and batches ---------------------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> Episodes:
        """Select episodes by number, slice, index array or mask; values in a file stay there.

        scikit-learn indexes with `[rows, ...]`.
        """
        if isinstance(rows, tuple):
            if len(rows) != 2 or rows[1] is not Ellipsis:
                raise DfstransError(f"expected one index over episodes, got {rows!r}; use select_sensors for sensors")
            rows = rows[0]
        index = np.atleast_1d(np.arange(len(self))[rows])
        values = self.values.select(index) if isinstance(self.values, StoredValues) else self.values[index]
        return replace(
            self,
            values=values,
            lengths=self.lengths[index],
            ids=self.ids[index],
            labels=None if self.labels is None else self.labels[index],
            groups=None if self.groups is None else self.groups[index],
            faults=None if self.faults is None else tuple(self.faults[i] for i in index),
            truth=None if self.truth is None else self.truth.select(index),
            starts=None if self.starts is None else self.starts[index],
        )

    def select_sensors(self, names: Sequence[str]) -> Episodes:
        """Select the named sensors, in that order."""
        unknown = [name for name in names if name not in self.sensors]
        if unknown or not names:
            raise DfstransError(f"expected names among {list_few(self.sensors, 60)}, got {list_few(unknown)}")
        index = np.array([self.sensors.index(name) for name in names])
        values = self.values.select_sensors(index) if isinstance(self.values, StoredValues) else self.values[:, index]
        return replace(
            self,
            values=values,
            sensors=tuple(names),
            units=tuple(self.units[i] for i in index),
            truth=None if self.truth is None else self.truth.select_sensors(index),
        )

    def with_labels(self, labels: npt.ArrayLike) -> Episodes:
        """Return the same recordings with these labels."""
        return replace(self, labels=as_labels(labels, len(self)))

    def load(self) -> Episodes:
        """Return the same episodes with all values in memory."""
        return replace(self, values=np.asarray(self.values)) if self.is_stored else self

    def split(
        self, seed: int = 0, fractions: Fractions = PAPER_FRACTIONS, *, by_group: bool = False
    ) -> tuple[Episodes, Episodes, Episodes]:
        """Split into a training, validation and test part: stratified by label, or with each group in only one part.

        Copies of an episode are in the same part.
        """
        groups = self.require_groups() if by_group else None
        split = three_way_split(self.require_labels(), groups, copies=self.copies(), seed=seed, fractions=fractions)
        train, validation, test = split
        return self[train], self[validation], self[test]

    def __iter__(self) -> Iterator[Episode]:
        for i, length in enumerate(self.lengths):
            yield Episode(
                id=str(self.ids[i]),
                values=self.values[i][:, :length],
                label=None if self.labels is None else int(self.labels[i]),
                group=None if self.groups is None else str(self.groups[i]),
                faults=None if self.faults is None else self.faults[i],
                start=None if self.starts is None or np.isnat(self.starts[i]) else self.starts[i],
            )

    def batches(self, size: int = 64) -> Iterator[Episodes]:
        """Yield the episodes in order, at most `size` at a time, each batch in memory."""
        for start in range(0, len(self), size):
            yield self[start : start + size].load()

    @classmethod
    def concatenate(cls, parts: Sequence[Episodes]) -> Episodes:
        """Join the episodes of all parts, with the sensors of the first; values in files stay there."""
        if not parts:
            raise DfstransError("expected at least one part to concatenate, got none")
        first = parts[0]
        parts = [part if part.sensors == first.sensors else part.select_sensors(first.sensors) for part in parts]
        if any(part.is_stored for part in parts):
            values: Values = StoredValues.join([part.values for part in parts])
        else:
            values = pad([episode for part in parts for episode in np.asarray(part.values)])[0]
        intervals, time_units = {part.interval for part in parts}, {part.time_unit for part in parts}
        faults = [part.faults for part in parts if part.faults is not None]
        truths = [part.truth for part in parts if part.truth is not None]
        starts, time_zone = _join_starts(parts)
        return cls.from_arrays(
            values,
            **{name: join([getattr(part, name) for part in parts]) for name in ("lengths", "ids", "labels", "groups")},
            sensors=first.sensors,
            units=first.units,
            interval=intervals.pop() if len(intervals) == 1 else None,
            faults=list(chain(*faults)) if len(faults) == len(parts) else None,
            truth=GradedTruth.concatenate(truths) if len(truths) == len(parts) else None,
            time_unit=time_units.pop() if len(time_units) == 1 else "",
            starts=starts,
            time_zone=time_zone,
        )

    # ---- copies, fingerprint and known faults -------------------------------------------------------------------

    def copies(self) -> npt.NDArray[np.intp]:
        """Return, for each episode, the row of the first episode with the same values: (n_episodes,).

        Episodes in which no sensor moves are equal by chance; they are copies of none.
        """
        return self._copies

    @cached_property
    def _copies(self) -> npt.NDArray[np.intp]:
        first: dict[bytes, int] = {}
        rows = np.arange(len(self))
        for row, (_, values, *_others) in enumerate(self):
            if (values != values[:, :1]).any():
                digest = hashlib.blake2b(values.tobytes(), digest_size=16, key=str(values.shape).encode()).digest()
                rows[row] = first.setdefault(digest, row)
        return rows

    def contradicting_copies(self) -> list[str]:
        """Return the ids of episodes with the same values as an earlier one, but another label."""
        if self.labels is None:
            return []
        found: list[str] = self.ids[self.labels != self.labels[self.copies()]].tolist()
        return found

    def warn_of_copies(self) -> None:
        """Warn about episodes with the same values as others."""
        n = int((self.copies() != np.arange(len(self))).sum())
        if n:
            contradicting = self.contradicting_copies()
            labels = f", and another label: {list_few(contradicting)}; check which is right" if contradicting else ""
            warnings.warn(
                f"{n} of {counted(len(self), 'episode')} have the same values as another one{labels}; copies stay in "
                f"one part of the split; to keep one of each, use {reading_option_name('drop_duplicates', True)}",
                stacklevel=3,
            )

    def without_copies(self) -> Episodes:
        """Return only the first of episodes with the same values, and warn if their labels differ."""
        rows, copies = np.arange(len(self)), self.copies()
        contradicting = self.contradicting_copies()
        if contradicting:
            warnings.warn(
                f"dropped {counted(len(contradicting), 'episode')} with the same values as others, but another label: "
                f"{list_few(contradicting)}; check which label is right",
                stacklevel=2,
            )
        return self if (rows == copies).all() else self[rows == copies]

    def fingerprint(self) -> str:
        """Return a digest of everything that splits and training use: values, labels, groups, sensor names and ids."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        """The digest, computed only once, because that reads all values."""
        groups = None if self.groups is None else self.groups.tolist()
        digest = hashlib.sha256(repr((self.sensors, self.lengths.tolist(), self.ids.tolist(), groups)).encode())
        digest.update(b"" if self.labels is None else self.labels.tobytes())
        for episode in self:
            digest.update(np.ascontiguousarray(episode.values).tobytes())
        return digest.hexdigest()

    def fault_kinds(self) -> list[str]:
        """Return the kind of each episode's first known fault; empty if none is known."""
        return [faults[0].kind if faults else "" for faults in self.known_faults]

    def fault_cells(self, row: int, segment_length: int) -> npt.NDArray[np.bool_]:
        """Mark the (segment, sensor) cells of an episode that a known fault affects, except faults of unknown sensors.

        Shape:
            (n_segments, n_sensors)
        """
        n_segments = -(-int(self.lengths[row]) // segment_length)
        if self.truth is not None:
            return self.truth.cells(row, segment_length, n_segments) >= 1
        cells = np.zeros((n_segments, self.n_sensors), dtype=np.bool_)
        for fault in self.known_faults[row]:
            columns = [self.sensors.index(name) for name in fault.sensors if name in self.sensors]
            cells[fault.start // segment_length : -(-fault.stop // segment_length), columns] = True
        return cells


def _join_starts(parts: Sequence[Episodes]) -> tuple[npt.NDArray[np.datetime64] | None, str]:
    """Join the times of all parts; times of different zones are dropped with a warning."""
    zones = sorted({part.time_zone for part in parts if part.starts is not None})
    if len(zones) > 1:
        warnings.warn(
            "dropped the date and time of the episodes: expected one time zone, got "
            f"{list_few(zone or 'an unknown one' for zone in zones)}; write all times in UTC",
            stacklevel=3,
        )
    if len(zones) != 1:
        return None, ""
    unknown = np.datetime64("NaT", "ns")
    return np.concatenate([np.full(len(p), unknown) if p.starts is None else p.starts for p in parts]), zones[0]
