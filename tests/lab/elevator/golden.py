"""Three golden journeys; `python -m tests.lab.elevator.golden` rewrites them for a new VERSION.

Their truth is left out: it would take a null of many journeys.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dfstrans.lab.elevator.journey import PHASES
from dfstrans.lab.elevator.machine import SENSOR_NAMES
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import VERSION, Fleet
from dfstrans.lab.elevator.truth import NormalVariation

FILE = Path(__file__).with_name("golden.json")
SAMPLES = (60, 500, 1500, 3000, 5000, 7900)


class _WithoutTruth(Fleet):
    @property
    def normal_variation(self) -> NormalVariation:
        return NormalVariation(np.ones((len(PHASES), len(SENSOR_NAMES))), np.ones(len(SENSOR_NAMES)))


def journeys() -> list[dict[str, Any]]:
    """Recipe, clean signals and measurements of a normal journey, one with bumps and one with less lubrication."""
    fleet = _WithoutTruth(SimulationSettings(normal=1, faulty=2, faults=("bump", "lubrication"), seed=0))
    found = []
    for row in range(3):
        journey = fleet.journey(row)
        found.append(
            {
                "recipe": json.loads(json.dumps(journey.recipe)),
                "clean": {
                    name: journey.clean[list(SAMPLES), SENSOR_NAMES.index(name)].tolist() for name in SENSOR_NAMES
                },
                "measured": {
                    name: journey.values[SENSOR_NAMES.index(name), list(SAMPLES)].astype(float).tolist()
                    for name in SENSOR_NAMES
                },
            }
        )
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps({"version": VERSION, "journeys": journeys()}, indent=1) + "\n")
