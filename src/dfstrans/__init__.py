"""dfstrans: what went wrong, when and where, from many sensors at once."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfstrans.data import Episodes, Fault, load_episodes, save_episodes
    from dfstrans.diagnoser import Diagnoser
    from dfstrans.errors import DfstransError

__version__ = version("dfstrans")
__all__ = ["DfstransError", "Diagnoser", "Episodes", "Fault", "load_episodes", "save_episodes"]

_HOME = {
    "DfstransError": "dfstrans.errors",
    "Diagnoser": "dfstrans.diagnoser",
    "Episodes": "dfstrans.data",
    "Fault": "dfstrans.data",
    "load_episodes": "dfstrans.data",
    "save_episodes": "dfstrans.data",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: torch takes seconds, and the command line's help must not wait for it."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dfstrans' has no attribute {name!r}")
