"""Known faults, planted into a machine's own normal episodes: how good would detection and diagnosis be on it?"""

from dfstrans.lab.injection.normal import NormalSensors
from dfstrans.lab.injection.planting import Planting, plant, plant_each, save_planted
from dfstrans.lab.injection.settings import KINDS, InjectionSettings, Kind
from dfstrans.lab.injection.study import CellResult, StudyResult, run_study

__all__ = [
    "KINDS",
    "CellResult",
    "InjectionSettings",
    "Kind",
    "NormalSensors",
    "Planting",
    "StudyResult",
    "plant",
    "plant_each",
    "run_study",
    "save_planted",
]
