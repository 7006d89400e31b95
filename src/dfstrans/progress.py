"""How long work tells how far it is, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
Item = TypeVar("Item")


def no_progress(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Says nothing."""
    return nullcontext(lambda _: None)


def track(items: Iterable[Item], what: str, total: int, progress: Progress) -> Iterator[Item]:
    """The items one after the other; each that is done is told."""
    with progress(what, total) as advance:
        for item in items:
            yield item
            advance(1)
