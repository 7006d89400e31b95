"""Output of commands: results on stdout, remarks and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.table import Table
from rich.text import Text

from dfstrans.detectors.card import METRICS
from dfstrans.progress import LINE_SECONDS, pace, time_left

GAP = 2  # between columns
INTERRUPTED = 130  # exit code after Ctrl-C (shell convention)
QUIET_SECONDS = 2.0  # shorter work prints no progress lines

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def remark(message: str) -> None:
    """Print a message that is not part of the result."""
    print(message, file=sys.stderr)


def warn_of_overlap(split: str, read: dict[str, Any]) -> None:
    """Warn that a random split of overlapping episodes leaks data between the parts."""
    if split == "random" and read.get("stride") is not None and read["stride"] < read.get("length", 0):
        warnings.warn(
            "overlapping episodes end up on both sides of a random split, so test results are optimistic; "
            "use --split grouped, or a stride of at least the length",
            stacklevel=3,
        )


def print_json(content: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(content, indent=2, allow_nan=False))


def print_result(content: dict[str, Any], as_json: bool) -> None:
    """Print a short result as text lines, or as JSON."""
    if as_json:
        print_json(content)
    else:
        for name, value in content.items():
            print(f"{name:<10}{value}")


def print_columns(titles: Sequence[str], rows: Iterable[Sequence[str]], words: Container[str]) -> None:
    """Print a table; columns named in `words` are left-aligned, the others right-aligned.

    In a terminal, a table that is too wide continues below and repeats the leading `words` columns. Elsewhere each
    row is one line.
    """
    columns = list(zip(titles, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    limit = Console().width if sys.stdout.isatty() else None
    names = len(list(takewhile(lambda title: title in words, titles)))
    for number, panel in enumerate(_panels(widths, limit, names)):
        if number:
            print()
        table = Table(box=None, pad_edge=False)
        for title, *_ in (columns[n] for n in panel):
            table.add_column(title, justify="left" if title in words else "right", no_wrap=True)
        for row in zip(*(columns[n][1:] for n in panel), strict=True):
            table.add_row(*row)
        width = sum(widths[n] + GAP for n in panel)
        Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def _panels(widths: Sequence[int], limit: int | None, names: int = 1) -> list[list[int]]:
    """Group columns into panels that fit into `limit` characters; each panel repeats the leading `names` columns.

    If those would fill half of the terminal, only the first is repeated.

    >>> _panels([8, 5, 5, 5], None), _panels([8, 5, 5, 5], 22), _panels([80, 5], 40)
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 3]], [[0, 1]])
    >>> _panels([4, 4, 5, 5, 5], 28, names=2)
    [[0, 1, 2, 3], [0, 1, 4]]
    """
    if limit is None:
        return [list(range(len(widths)))]
    names = names if 2 * sum(width + GAP for width in widths[:names]) <= limit else 1
    first = list(range(max(names, 1)))
    panels = [list(first)]
    for n in range(len(first), len(widths)):
        used = sum(widths[m] + GAP for m in panels[-1]) + widths[n]
        if used > limit and len(panels[-1]) > len(first):
            panels.append(list(first))
        panels[-1].append(n)
    return panels


def print_metrics(metrics: dict[str, dict[str, Any]]) -> None:
    """Print metrics, one column per part."""
    found = {name: [part.get(key) for part in metrics.values()] for key, name in METRICS.items()}
    rows = [(name, *("–" if cell is None else f"{cell:.4g}" for cell in cells)) for name, cells in found.items()]
    print_columns(("", *metrics), rows, words=("",))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr, or lines if it is not a terminal; yields the function that advances it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what, total)
        return
    with Progress(*Progress.get_default_columns(), _Pace(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n: bar.advance(task, n)


class _Pace(ProgressColumn):
    """Shows how many items are done in a unit of time."""

    def render(self, task: Task) -> Text:
        """Return the pace once it is known."""
        return Text(pace(int(task.completed), task.elapsed) if task.completed and task.elapsed else "")


def _lines(what: str, total: int) -> Callable[[int], None]:
    """Return a function that prints a line with the time left at every 10 % and every 30 s, except for short work."""
    done, said = 0, 0
    began = said_at = time.monotonic()

    def advance(n: int) -> None:
        nonlocal done, said, said_at
        done += n
        now, per_cent = time.monotonic(), 100 * done // max(total, 1)
        if now - said_at >= LINE_SECONDS or (per_cent // 10 > said and now - began > QUIET_SECONDS):
            left = f", {time_left(done, total, now - began)}" if done < total else ""
            remark(f"{what}: {per_cent} % ({done} of {total}), {pace(done, now - began)}{left}")
            said, said_at = per_cent // 10, now

    return advance
