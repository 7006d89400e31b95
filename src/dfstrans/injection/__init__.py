"""Known faults, planted into a machine's own normal episodes: how good would detection and diagnosis be on it?"""

from dfstrans.injection.kinds import KINDS, Kind
from dfstrans.injection.normal import NormalSensors
from dfstrans.injection.planting import Planting, plant, plant_each
from dfstrans.injection.settings import InjectionSettings

__all__ = ["KINDS", "InjectionSettings", "Kind", "NormalSensors", "Planting", "plant", "plant_each"]
