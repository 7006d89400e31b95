"""Episodes and where they come from: readers, writers, scaling, splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfstrans.lazy import imported_on_use

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes, Fault
    from dfstrans.data.readers import ReadOptions, load_episodes
    from dfstrans.data.writers import save_episodes

__all__ = ["Episodes", "Fault", "ReadOptions", "load_episodes", "save_episodes"]

# the runtime takes arrays, and must not wait for the readers of files
__getattr__ = imported_on_use(
    __name__,
    {
        "Episodes": "dfstrans.data.episodes",
        "Fault": "dfstrans.data.episodes",
        "ReadOptions": "dfstrans.data.readers",
        "load_episodes": "dfstrans.data.readers",
        "save_episodes": "dfstrans.data.writers",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
