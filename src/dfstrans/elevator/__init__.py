"""An open physical simulator of an elevator, with faults and exact truth of their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfstrans.elevator.settings import SimulationSettings
    from dfstrans.elevator.simulation import Fleet, Journey, simulate, simulate_to_file

__all__ = ["Fleet", "Journey", "SimulationSettings", "simulate", "simulate_to_file"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line's help must not wait for the compiler."""
    if name in __all__:
        from dfstrans.elevator import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module 'dfstrans.elevator' has no attribute {name!r}")
