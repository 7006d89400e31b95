"""Known faults injected into normal episodes: how good would detection and diagnosis be on this machine?"""

from dfstrans.lab.injection.injecting import inject_faults
from dfstrans.lab.injection.settings import InjectionSettings

__all__ = ["InjectionSettings", "inject_faults"]
