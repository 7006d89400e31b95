"""An open physical simulator of an elevator, with faults and exact truth of their effects."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfstrans.elevator.settings import SimulationSettings
    from dfstrans.elevator.simulated import Fleet, Journey
    from dfstrans.elevator.simulation import simulate, simulate_to_file

__all__ = ["Fleet", "Journey", "SimulationSettings", "simulate", "simulate_to_file"]

_HOMES = {"SimulationSettings": "settings", "Fleet": "simulated", "Journey": "simulated"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line's help must not wait for the compiler."""
    if name in __all__:
        return getattr(import_module(f"dfstrans.elevator.{_HOMES.get(name, 'simulation')}"), name)
    raise AttributeError(f"module 'dfstrans.elevator' has no attribute {name!r}")
