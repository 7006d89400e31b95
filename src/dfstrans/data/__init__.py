"""Episodes and where they come from: readers, writers, scaling, splits."""

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import ReadOptions, load_episodes
from dfstrans.data.writers import save_episodes

__all__ = ["Episodes", "Fault", "ReadOptions", "load_episodes", "save_episodes"]
