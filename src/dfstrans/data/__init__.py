"""Episodes and where they come from: readers, writers, scaling, splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes, Fault
    from dfstrans.data.readers import ReadOptions, load_episodes
    from dfstrans.data.writers import save_episodes

__all__ = ["Episodes", "Fault", "ReadOptions", "load_episodes", "save_episodes"]

_HOME = {
    "Episodes": "dfstrans.data.episodes",
    "Fault": "dfstrans.data.episodes",
    "ReadOptions": "dfstrans.data.readers",
    "load_episodes": "dfstrans.data.readers",
    "save_episodes": "dfstrans.data.writers",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the runtime takes arrays, and must not wait for the readers of files."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dfstrans.data' has no attribute {name!r}")
