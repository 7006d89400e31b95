"""Known faults planted into normal episodes: how good would detection and diagnosis be on this machine?"""

from dfstrans.lab.injection.planting import plant
from dfstrans.lab.injection.settings import InjectionSettings

__all__ = ["InjectionSettings", "plant"]
