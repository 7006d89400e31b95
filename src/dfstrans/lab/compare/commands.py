"""The command that gives a result, as results record it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dfstrans.lab.compare.runs import Cell


def command_line(*words: str, options: Mapping[str, Any]) -> str:
    """A command with its options, wherever its files are: of a path only the name is told.

    >>> command_line("dfstrans", "train", "my file.csv", options={"seed": 1, "sort_time": True, "drop": ("a", "b")})
    "dfstrans train 'my file.csv' --seed 1 --sort-time --drop a --drop b"
    >>> command_line("dfstrans", "compare", options={"sort_time": False, "seed": 0})
    'dfstrans compare --seed 0'
    """
    found = list(words)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, tuple | list) else [value]:
            if one is False:  # as it is without the option
                continue
            found += [flag] if one is True else [flag, one.name if isinstance(one, Path) else str(one)]
    return shlex.join(found)


def data_name(data: Path) -> str:
    """What recordings are called, also those of the folder that one is in.

    >>> data_name(Path("machines/press.csv")), data_name(Path("/machines/press/.."))
    ('press.csv', 'machines')
    """
    return data.resolve().name if data.name in ("", "..") else data.name  # otherwise a link keeps its own name


ASKED_FOR = re.compile(r"--models (\S+) --folds (\d+)")  # a cell's command names its model alone


def commands_of(cells: Iterable[Cell]) -> list[str]:
    """What gave these cells: one command for all models that were given the same settings."""
    models: dict[tuple[str, str], list[str]] = {}
    folds: dict[tuple[str, str], int] = {}
    others: list[str] = []
    for command in dict.fromkeys(cell.command for cell in cells):
        asked = ASKED_FOR.search(command)
        if asked is None:
            others.append(command)
            continue
        around = command[: asked.start()], command[asked.end() :]
        models.setdefault(around, []).append(asked[1])
        folds[around] = max(folds.get(around, 0), int(asked[2]))
    joined = [
        f"{before}--models {','.join(dict.fromkeys(names))} --folds {folds[before, after]}{after}"
        for (before, after), names in models.items()
    ]
    return [*joined, *others]
