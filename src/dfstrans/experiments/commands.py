"""The commands that gave the cells of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dfstrans.experiments.cells import Cell

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
