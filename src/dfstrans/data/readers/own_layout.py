"""What the files that `save_episodes` writes have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dfstrans.data.episodes import Fault
from dfstrans.errors import DfstransError

FORMAT = "dfstrans-episodes"
VERSION = 1
PARQUET_KEY = b"dfstrans-episodes"  # in the key-value metadata of a Parquet schema


def require_version(version: Any, path: Path) -> None:
    """Refuse a file of a later layout."""
    if int(version) > VERSION:
        raise DfstransError(
            f"expected episodes of layout version {VERSION} or earlier in {path}, got version {int(version)}; "
            "upgrade dfstrans"
        )


def faults_to_json(faults: Sequence[Fault]) -> str:
    """The faults of one episode as text.

    >>> faults_to_json([Fault(3, 7, ("Ax",), "bump")])
    '[[3, 7, ["Ax"], "bump"]]'
    """
    return json.dumps([[fault.start, fault.stop, list(fault.sensors), fault.kind] for fault in faults])


def faults_from_json(text: str) -> tuple[Fault, ...]:
    """The faults of one episode from text; the inverse of `faults_to_json`."""
    return tuple(
        Fault(int(start), int(stop), tuple(map(str, sensors)), str(kind))
        for start, stop, sensors, kind in json.loads(text)
    )
