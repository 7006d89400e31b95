"""The command that gives a result, as results record it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def command_line(*words: str, options: Mapping[str, Any]) -> str:
    """A command with its options, wherever its files are: of a path only the name is told.

    >>> command_line("dfstrans", "train", "my file.csv", options={"seed": 1, "sort_time": True, "drop": ("a", "b")})
    "dfstrans train 'my file.csv' --seed 1 --sort-time --drop a --drop b"
    """
    found = list(words)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, tuple | list) else [value]:
            found += [flag] if one is True else [flag, one.name if isinstance(one, Path) else str(one)]
    return shlex.join(found)
