"""Progress reporting, independent of how it is displayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

# (description, total) → context manager that gives a function to report newly finished items
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
Item = TypeVar("Item")


def no_progress(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Display nothing."""
    return nullcontext(lambda _: None)


def track(items: Iterable[Item], what: str, total: int, progress: Progress) -> Iterator[Item]:
    """Yield the items and report each one as it is finished."""
    with progress(what, total) as advance:
        for item in items:
            yield item
            advance(1)
