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


def warn_of_silent_sensors(detector: EpisodeClassifier, episodes: Episodes) -> None:
    """Say which sensors have no value in any of these recordings: the model takes their training mean for one."""
    import numpy as np

    from dfstrans.errors import shortlist
    from dfstrans.inputs import match_sensors

    silent = np.ones(len(detector.sensors_), dtype=np.bool_)
    for episode in match_sensors(episodes, detector.sensors_):
        silent[silent] = np.isnan(episode.values[silent]).all(axis=1)
        if not silent.any():
            return
    names = [name for name, hit in zip(detector.sensors_, silent, strict=True) if hit]
    if len(episodes):
        warnings.warn(
            f"no value of {shortlist(names)} in these recordings: such a sensor stands at its training mean, and what "
            "it would tell is lost; record it, or train without it",
            stacklevel=2,
        )


def warn_out_of_range(detector: EpisodeClassifier, episodes: Episodes) -> dict[str, float]:
    """The share of values outside the training range; said aloud where it is more than a hundredth.

    Of a sensor that never moved in training any such value is told: the model is blind to it.
    """
    from dfstrans.errors import shortlist
    from dfstrans.pipeline import out_of_range

    shares = out_of_range(detector, episodes)
    unmoved = {name for name, hit in zip(detector.sensors_, detector.scaler_.constant, strict=True) if hit}
    new = [f"{name} ({share:.2g} of its values)" for name, share in shares.items() if name in unmoved]
    much = [f"{name} ({share:.0%})" for name, share in shares.items() if share > 0.01 and name not in unmoved]
    if much:
        shown = ", ".join(much[:5]) + (f" and {len(much) - 5} more" if len(much) > 5 else "")
        warnings.warn(f"values outside the range seen in training: {shown}", stacklevel=2)
    if new:
        warnings.warn(
            f"one value throughout training, another one here: {shortlist(new)}; the model leaves such a sensor out of "
            "account, so look at it yourself, or train again with recordings in which it moves",
            stacklevel=2,
        )
    return shares
