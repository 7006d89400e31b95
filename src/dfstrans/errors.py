"""The exception shown to users, and helpers that format its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib.util import find_spec
from shlex import quote
from typing import Any

_as_options: ContextVar[bool] = ContextVar("settings_as_options", default=False)
_NO_VALUE = object()


class DfstransError(ValueError):
    """A problem that the user can fix: bad data, bad settings, a damaged model.

    The message names what was expected, what was received and the remedy. The command line prints it without a
    traceback and exits with code 2.
    """


class Note(UserWarning):
    """Information that requires no action; the command line prints it without the word "warning"."""


def require_package(package: str, extra: str, purpose: str) -> None:
    """Reject a purpose whose package is not installed, before slow libraries load."""
    if find_spec(package) is None:
        raise DfstransError(
            f"expected {package} for {purpose}, but it is not installed; pip install 'dfstrans[{extra}]'"
        )


@contextmanager
def settings_as_options(on: bool = True) -> Iterator[None]:
    """Name settings as command-line options in all messages of the block, or as Python arguments if not `on`."""
    token = _as_options.set(on)
    try:
        yield
    finally:
        _as_options.reset(token)


def option_name(name: str, value: Any = _NO_VALUE) -> str:
    """Format a setting, optionally with a value (`...` for any), the way the user writes it.

    >>> option_name("threshold_rule"), option_name("threshold_rule", "fixed"), option_name("labels", ...)
    ('threshold_rule', "threshold_rule='fixed'", 'labels=…')
    >>> with settings_as_options():
    ...     option_name("threshold_rule"), option_name("threshold_rule", "fixed"), option_name("sort_time", True)
    ('--threshold-rule', '--threshold-rule fixed', '--sort-time')
    >>> with settings_as_options():
    ...     option_name("time_column", "start of run")
    "--time-column 'start of run'"
    """
    if _as_options.get():
        option = "--" + name.replace("_", "-")
        return (
            option if value is _NO_VALUE or value is True else f"{option} {'…' if value is ... else quote(str(value))}"
        )
    if value is _NO_VALUE:
        return name
    return f"{name}={'…' if value is ... else repr(value)}"


def reading_option_name(name: str, value: Any = _NO_VALUE) -> str:
    """Format an option of `load_episodes` for a message that appears after reading.

    >>> reading_option_name("drop_sensors", ...)
    'load_episodes(…, drop_sensors=…)'
    """
    return option_name(name, value) if _as_options.get() else f"load_episodes(…, {option_name(name, value)})"


def counted(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> counted(1, "episode"), counted(3, "episode")
    ('1 episode', '3 episodes')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def list_few(items: Iterable[Any], limit: int = 5) -> str:
    """Join items with commas; of more than `limit`, show the first ones and the total.

    >>> list_few(range(9), limit=3)
    '0, 1, 2, … (9 in all)'
    """
    texts = [str(item) for item in items]
    return ", ".join(texts[:limit]) + (f", … ({len(texts)} in all)" if len(texts) > limit else "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "choose among these") -> str:
    """Suggest a known name for an unknown one.

    >>> did_you_mean("tapnett", ["tapnet", "boosting"]), did_you_mean("svm", ["tapnet", "boosting"])
    ('did you mean tapnet?', 'choose among these')
    """
    similar = get_close_matches(name, list(known), n=1)
    return f"did you mean {similar[0]}?" if similar else otherwise


def showing_options() -> bool:
    """Return whether messages name settings as command-line options."""
    return _as_options.get()
