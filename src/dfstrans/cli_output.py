"""How commands speak: results on stdout, remarks and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def remark(message: str) -> None:
    """Say something that is not a result."""
    print(message, file=sys.stderr)


def print_json(content: Any) -> None:
    """Print a result for programs."""
    print(json.dumps(content, indent=2, allow_nan=False))


def print_result(content: dict[str, Any], as_json: bool) -> None:
    """Print a result of a few lines for people, or for programs."""
    if as_json:
        print_json(content)
    else:
        for name, value in content.items():
            print(f"{name:<10}{value}")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; gives the function that moves it on."""
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n: bar.advance(task, n)
