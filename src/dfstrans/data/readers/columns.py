"""Which column of a table plays which part."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dfstrans.data.readers.options import ReadOptions
from dfstrans.errors import DfstransError, shortlist, spelled

_SYNONYMS = {
    "id": ("episode_id", "episode", "episodeid", "id", "series_id", "sample_id", "run_id", "run", "sequence_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "time_s", "t", "date"),
    "label": ("label", "labels", "anomaly", "is_anomaly", "anomalous", "class", "target", "y"),
    "group": ("group", "group_id", "machine", "machine_id", "channel", "device", "asset"),
}
_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])]")


@dataclass(frozen=True)
class Roles:
    """The columns of a table by the part they play; `sensors` are all that play no other."""

    id: str | None
    time: str | None
    label: str | None
    group: str | None
    sensors: tuple[str, ...]


def find_roles(names: Sequence[str], options: ReadOptions, source: Path) -> Roles:
    """The part of each column: as the options say, else by its name, whatever its case.

    >>> find_roles(["Episode", "T", "Ax", "y"], ReadOptions(), Path("a.csv"))
    Roles(id='Episode', time='T', label='y', group=None, sensors=('Ax',))
    """
    chosen: dict[str, str | None] = {}
    for role in _SYNONYMS:
        asked = getattr(options, f"{role}_column")
        chosen[role] = _named(names, asked, f"{role}_column", source) if asked is not None else None
    for role, synonyms in _SYNONYMS.items():
        free = {bare_name(name).lower(): name for name in reversed(names) if name not in chosen.values()}
        if {"x", "y"} <= free.keys() or {"y", "z"} <= free.keys():
            free.pop("y")  # an axis, not a label
        if chosen[role] is None:
            chosen[role] = next((free[synonym] for synonym in synonyms if synonym in free), None)
    dropped = dropped_columns(names, options)
    sensors = tuple(name for name in names if name not in chosen.values() and name not in dropped)
    kept = {role: None if name in dropped else name for role, name in chosen.items()}
    return Roles(kept["id"], kept["time"], kept["label"], kept["group"], sensors)


def warn_of_second_label(roles: Roles, source: Path) -> None:
    """Say that a sensor bears the name of a label beside the label: a detector would learn the answer from it."""
    names = set(_SYNONYMS["label"]) - {"y"}  # more often an axis
    second = [name for name in roles.sensors if bare_name(name).lower() in names]
    if roles.label is not None and second:
        warnings.warn(
            f"{shortlist(second)} of {source} is read as a sensor, because {roles.label!r} is the label; if it tells "
            f"the answer, too, leave it out ({spelled('drop_sensors', second[0])})",
            stacklevel=3,
        )


def dropped_columns(names: Sequence[str], options: ReadOptions) -> set[str]:
    """The columns among `names` that are to be left out.

    >>> dropped_columns(["Ax", "Speed [m/s]"], ReadOptions(drop_sensors=("speed", "other")))
    {'Speed [m/s]'}
    """
    return {found for name in options.drop_sensors if (found := matching(names, name)) is not None}


def require_dropped(names: Sequence[str], options: ReadOptions, source: Path) -> None:
    """Refuse to leave out a column that is not there."""
    for name in options.drop_sensors:
        _named(names, name, "drop_sensors", source)


def bare_name(header: str) -> str:
    """A column's name without its unit."""
    return name_and_unit(header)[0]


def name_and_unit(header: str) -> tuple[str, str]:
    """The name of a sensor and its unit, as in many headers.

    >>> name_and_unit("Speed [m/s]")
    ('Speed', 'm/s')
    """
    match = _UNIT.fullmatch(header.strip())
    return (match["name"], match["unit"].strip()) if match else (header.strip(), "")


def names_and_units(headers: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of sensors; headers that differ in their unit only stay as they are."""
    pairs = [name_and_unit(header) for header in headers]
    if len({name for name, _ in pairs}) < len(pairs):
        return tuple(headers), ("",) * len(pairs)
    return tuple(name for name, _ in pairs), tuple(unit for _, unit in pairs)


def _named(names: Sequence[str], wanted: str, option: str, source: Path) -> str:
    found = matching(names, wanted)
    if found is None:
        raise DfstransError(
            f"expected a column {wanted!r} in {source} ({spelled(option)}), got {shortlist(names, 20)}; "
            f"correct {spelled(option)}"
        )
    return found


def matching(names: Sequence[str], wanted: str) -> str | None:
    """The column called `wanted`: exactly, or but for case and unit."""
    for key in (str, lambda name: bare_name(name), lambda name: bare_name(name).lower()):
        for name in names:
            if key(name) == key(wanted):
                return name
    return None
