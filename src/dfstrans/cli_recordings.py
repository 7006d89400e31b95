"""Recordings for a saved model: read with or without labels, and compared with what it was trained on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfstrans.cli_output import remark

if TYPE_CHECKING:
    from dfstrans.data import Episodes
    from dfstrans.estimator import EpisodeClassifier


def with_or_without_labels(data: Path, read: dict[str, Any]) -> Episodes:
    """The recordings for a command that can do without labels: those that cannot be read are left out, aloud."""
    from dfstrans.data import load_episodes
    from dfstrans.data.readers.convert import UnreadableLabelsError

    try:
        return load_episodes(data, **read)
    except UnreadableLabelsError as error:
        if error.column is None:
            raise
        remark(f"the recordings are read without their labels: {error}")
        return load_episodes(data, **{**read, "drop_sensors": [*read.get("drop_sensors", ()), error.column]})


def warn_out_of_range(detector: EpisodeClassifier, episodes: Episodes) -> dict[str, float]:
    """The share of values outside the training range; said aloud where it is more than a hundredth."""
    from dfstrans.pipeline import out_of_range

    shares = out_of_range(detector, episodes)
    much = [f"{name} ({share:.0%})" for name, share in shares.items() if share > 0.01]
    if much:
        shown = ", ".join(much[:5]) + (f" and {len(much) - 5} more" if len(much) > 5 else "")
        warnings.warn(f"values outside the range seen in training: {shown}", stacklevel=2)
    return shares
