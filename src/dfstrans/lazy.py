"""Public names that are imported on first use, so that nobody waits for what is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_on_use(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that takes each name of `homes` from the module that it lives in."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
