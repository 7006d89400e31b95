"""An open physical simulator of a fleet of elevators, with faults and exact ground truth."""

from dfstrans.lab.elevator.journey_file import simulate_to_file
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet, Journey, simulate

__all__ = ["Fleet", "Journey", "SimulationSettings", "simulate", "simulate_to_file"]
