"""Input checks of detectors: convert the input to episodes with the sensors of training, in order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.array_checks import default_sensor_names
from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import SECONDS
from dfstrans.data.scaling import too_large_values
from dfstrans.data.segments import looks_transposed
from dfstrans.errors import DfstransError, list_few


def as_episodes(X: Any, y: npt.ArrayLike | None = None, *, check_axes: bool = True) -> Episodes:  # noqa: N803
    """Convert the `X` and `y` of an estimator to episodes; reject an array that looks transposed."""
    if isinstance(X, Episodes):
        return X if y is None else X.with_labels(y)
    episodes = Episodes.from_arrays(X, y)
    if check_axes and looks_transposed(episodes):
        raise DfstransError(
            f"expected an array (n_episodes, n_sensors, n_timepoints), got {episodes.n_sensors} sensors with only "
            f"{episodes.n_timepoints} points each, which looks transposed; swap the last two axes, or, if it is not, "
            "wrap it with Episodes.from_arrays(X, y)"
        )
    return episodes


def align_to_training(
    episodes: Episodes, sensors: tuple[str, ...], units: tuple[str, ...], interval: float | None, time_unit: str
) -> Episodes:
    """Select the sensors of training, in their order; reject episodes that lack one.

    Warn if the units or the sampling interval are known and differ from those of training.
    """
    episodes = match_sensors(episodes, sensors)
    different = [
        f"{name} in {unit} (training: {trained})"
        for name, unit, trained in zip(episodes.sensors, episodes.units, units, strict=True)
        if unit and trained and unit != trained
    ]
    if different:
        warnings.warn(
            f"units differ from those of training: {list_few(different)}; convert the values, unless it is the same "
            "unit spelled differently; otherwise the scores are meaningless",
            stacklevel=3,
        )
    if interval is not None and episodes.interval is not None:
        given, trained_interval = _comparable((episodes.interval, episodes.time_unit), (interval, time_unit))
        if abs(given / trained_interval - 1) > 0.01:
            warnings.warn(
                f"the sampling interval is {episodes.interval:g} {episodes.time_unit}".rstrip()
                + f", in training it was {interval:g} {time_unit}".rstrip()
                + "; resample the recordings, otherwise the scores are meaningless",
                stacklevel=3,
            )
    return episodes


def _comparable(*intervals: tuple[float, str]) -> tuple[float, ...]:
    """Convert intervals to seconds if all units are known, else leave them.

    >>> _comparable((500, "ms"), (0.5, "s")), _comparable((500, "ms"), (0.5, ""))
    ((0.5, 0.5), (500, 0.5))
    """
    if all(unit in SECONDS for _, unit in intervals):
        return tuple(value * SECONDS[unit] for value, unit in intervals)
    return tuple(value for value, _ in intervals)


def match_sensors(episodes: Episodes, sensors: tuple[str, ...]) -> Episodes:
    """Select the sensors of training, in their order: by name if they have names, else by position."""
    if episodes.sensors == sensors:
        return episodes
    expected, received = len(sensors), episodes.n_sensors
    unnamed = episodes.sensors == default_sensor_names(received)
    if unnamed or sensors == default_sensor_names(expected):
        if received != expected:
            transposed = "is the array transposed?" if episodes.n_timepoints == expected else "use the same sensors"
            raise DfstransError(f"expected {expected} sensors, as in fit, got {received}; {transposed}")
        return episodes
    missing = [name for name in sensors if name not in episodes.sensors]
    if missing:
        raise DfstransError(
            f"expected {expected} sensors, as in fit, got {received} ({list_few(episodes.sensors)}); missing: "
            f"{', '.join(missing)}; rename columns if the names differ, add the sensors (an empty one is set to its "
            "training mean) or train without them"
        )
    extra = [name for name in episodes.sensors if name not in sensors]
    if extra:
        warnings.warn(f"ignoring sensors that are unknown to the model: {', '.join(extra)}", stacklevel=2)
    return episodes.select_sensors(sensors)


def require_both_classes(labels: npt.NDArray[np.int8]) -> None:
    """Reject labels with fewer than two episodes of a class."""
    n_anomalous = int(labels.sum())
    if min(n_anomalous, len(labels) - n_anomalous) < 2:
        raise DfstransError(
            f"expected at least two normal and two anomalous episodes, got {len(labels) - n_anomalous} normal and "
            f"{n_anomalous} anomalous; a detector learns from both, so add labelled episodes of the rarer class"
        )


def require_finite_logits(episodes: Episodes, logits: npt.NDArray[np.float64]) -> None:
    """Reject episodes whose logit is not finite."""
    failed = episodes.ids[~np.isfinite(logits)]
    if len(failed):
        raise too_large_values(failed)
