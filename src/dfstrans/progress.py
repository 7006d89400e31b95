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


LINE_SECONDS = 30.0  # between progress lines without a terminal


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(9.6), duration(90), duration(3 * 3600 + 125)
    ('10 s', '1 min 30 s', '3 h 2 min')
    """
    minutes, whole = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{whole} s"
    return f"{minutes} min {whole} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def about(seconds: float) -> str:
    """Round a duration to what a rough estimate deserves.

    >>> about(9), about(40), about(700), about(9000)
    ('less than a minute', 'about a minute', 'about 12 minutes', 'about 2.5 hours')
    """
    if seconds < 30:
        return "less than a minute"
    if seconds < 90:
        return "about a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.2g} hours"


def pace(done: int, seconds: float) -> str:
    """Format how many items were done in a unit of time that suits the number.

    >>> pace(10, 2.0), pace(1, 30.0), pace(1, 1800.0)
    ('5 per second', '2 per minute', '2 per hour')
    """
    for unit, length in (("second", 1), ("minute", 60)):
        if done * length >= seconds:
            return f"{done * length / max(seconds, 1e-9):.3g} per {unit}"
    return f"{done * 3600 / seconds:.3g} per hour"


def time_left(done: int, total: int, seconds: float) -> str:
    """Estimate the time left after `done` of `total` equal items took `seconds`.

    >>> time_left(10, 40, 30.0), time_left(0, 40, 5.0)
    ('about 1 min 30 s left', 'time left: unknown')
    """
    return f"about {duration(seconds / done * (total - done))} left" if done else "time left: unknown"
