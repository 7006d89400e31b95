"""An open physical simulator of an elevator, with faults and exact truth of their effects."""

from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet, Journey, simulate, simulate_to_file

__all__ = ["Fleet", "Journey", "SimulationSettings", "simulate", "simulate_to_file"]
