"""dfstrans: what went wrong, when and where, from many sensors at once."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from dfstrans.lazy import imported_on_use

if TYPE_CHECKING:
    from dfstrans.data import Episodes, Fault, load_episodes, save_episodes
    from dfstrans.diagnoser import Diagnoser
    from dfstrans.errors import DfstransError

__version__ = version("dfstrans")
__all__ = ["DfstransError", "Diagnoser", "Episodes", "Fault", "load_episodes", "save_episodes"]

# torch takes seconds, and the command line's help must not wait for it
__getattr__ = imported_on_use(
    __name__,
    {
        "DfstransError": "dfstrans.errors",
        "Diagnoser": "dfstrans.diagnoser",
        "Episodes": "dfstrans.data",
        "Fault": "dfstrans.data",
        "load_episodes": "dfstrans.data",
        "save_episodes": "dfstrans.data",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
