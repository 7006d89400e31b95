"""Known faults planted into normal episodes: how good would detection and diagnosis be on this machine?"""

from dfstrans.lab.injection.normal import NormalSensors
from dfstrans.lab.injection.planting import Planting, plant, plant_each, save_planted
from dfstrans.lab.injection.settings import KINDS, InjectionSettings, Kind
from dfstrans.lab.injection.study import ConditionResult, StudyResult, run_study

__all__ = [
    "KINDS",
    "ConditionResult",
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
