"""The one exception users meet: what was expected, what came, and the remedy, with settings as they write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

_as_options: ContextVar[bool] = ContextVar("settings_as_options", default=False)
_NO_VALUE = object()


class DfstransError(ValueError):
    """Something a user can mend: bad data, bad settings, a damaged model.

    Its message names what was expected, what was received and what to do about it. The command line prints it without
    a traceback and exits with code 2.
    """


class Remark(UserWarning):
    """Something worth knowing that asks for nothing; the command line does not call it a warning."""


@contextmanager
def settings_as_options(on: bool = True) -> Iterator[None]:
    """Within the block messages name settings as options of the command line, or as Python does when it is not `on`."""
    token = _as_options.set(on)
    try:
        yield
    finally:
        _as_options.reset(token)


def option_name(name: str, value: Any = _NO_VALUE) -> str:
    """A setting, perhaps with a value (`...` for any), as its user writes it.

    >>> option_name("threshold_rule"), option_name("threshold_rule", "fixed"), option_name("labels", ...)
    ('threshold_rule', "threshold_rule='fixed'", 'labels=…')
    >>> with settings_as_options():
    ...     option_name("threshold_rule"), option_name("threshold_rule", "fixed"), option_name("sort_time", True)
    ('--threshold-rule', '--threshold-rule fixed', '--sort-time')
    """
    if not _as_options.get():
        shown = "…" if value is ... else repr(value)
        return name if value is _NO_VALUE else f"{name}={shown}"
    option = "--" + name.replace("_", "-")
    return option if value is _NO_VALUE or value is True else f"{option} {'…' if value is ... else value}"


def reading_option_name(name: str, value: Any = _NO_VALUE) -> str:
    """A setting of how recordings are read, in a message that comes after they were.

    >>> reading_option_name("drop_sensors", ...)
    'load_episodes(…, drop_sensors=…)'
    """
    return option_name(name, value) if _as_options.get() else f"load_episodes(…, {option_name(name, value)})"


def counted(n: int, noun: str) -> str:
    """How many there are of something.

    >>> counted(1, "episode"), counted(3, "episode")
    ('1 episode', '3 episodes')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def shortlist(items: Iterable[Any], most: int = 5) -> str:
    """The first few of some items, and how many there are.

    >>> shortlist(range(9), most=3)
    '0, 1, 2, … (9 in all)'
    """
    every = [str(item) for item in items]
    return ", ".join(every[:most]) + (f", … ({len(every)} in all)" if len(every) > most else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is not known.

    >>> did_you_mean("tapnett", ["tapnet", "boosting"]), did_you_mean("svm", ["tapnet", "boosting"])
    ('did you mean tapnet?', 'choose among these')
    """
    like = get_close_matches(name, list(known), n=1)
    return f"did you mean {like[0]}?" if like else "choose among these"


def showing_options() -> bool:
    """Whether messages name settings as options of the command line."""
    return _as_options.get()
