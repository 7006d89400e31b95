"""Known faults, planted into a machine's own normal episodes: how good would detection and diagnosis be on it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfstrans.lazy import imported_on_use

if TYPE_CHECKING:
    from dfstrans.injection.kinds import KINDS, Kind
    from dfstrans.injection.normal import NormalSensors
    from dfstrans.injection.planting import Planting, plant, plant_each
    from dfstrans.injection.results import CellResult, StudyResult
    from dfstrans.injection.saving import save_planted
    from dfstrans.injection.settings import InjectionSettings
    from dfstrans.injection.study import run_study

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

# the command line asks for the kinds only, and must not wait for torch
__getattr__ = imported_on_use(
    __name__,
    {
        "KINDS": "dfstrans.injection.kinds",
        "Kind": "dfstrans.injection.kinds",
        "NormalSensors": "dfstrans.injection.normal",
        "Planting": "dfstrans.injection.planting",
        "plant": "dfstrans.injection.planting",
        "plant_each": "dfstrans.injection.planting",
        "CellResult": "dfstrans.injection.results",
        "StudyResult": "dfstrans.injection.results",
        "save_planted": "dfstrans.injection.saving",
        "InjectionSettings": "dfstrans.injection.settings",
        "run_study": "dfstrans.injection.study",
    },
)
