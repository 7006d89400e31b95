"""dfstrans: detect and diagnose anomalies in multi-sensor recordings."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes, Fault
    from dfstrans.data.readers import load_episodes
    from dfstrans.data.writers import save_episodes
    from dfstrans.detectors.diagnoser import Diagnoser
    from dfstrans.diagnosis.diagnosis import Diagnosis
    from dfstrans.errors import DfstransError

__version__ = version("dfstrans")

# Imported on first use: torch takes seconds, and the command line's help must not wait for it.
_HOMES = {
    "DfstransError": "dfstrans.errors",
    "Diagnoser": "dfstrans.detectors.diagnoser",
    "Diagnosis": "dfstrans.diagnosis.diagnosis",
    "Episodes": "dfstrans.data.episodes",
    "Fault": "dfstrans.data.episodes",
    "load_episodes": "dfstrans.data.readers",
    "save_episodes": "dfstrans.data.writers",
}
__all__ = ["DfstransError", "Diagnoser", "Diagnosis", "Episodes", "Fault", "load_episodes", "save_episodes"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
