"""What a detector is given, checked at the boundary: episodes with the sensors of training, in their order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, default_sensor_names
from dfstrans.data.scaling import beyond_measure
from dfstrans.data.segments import looks_transposed
from dfstrans.errors import DfstransError, shortlist

_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}


def as_episodes(X: Any, y: npt.ArrayLike | None = None, *, check_axes: bool = True) -> Episodes:  # noqa: N803
    """Episodes from whatever an estimator is given; an array that looks transposed is refused."""
    if isinstance(X, Episodes):
        return X if y is None else X.with_labels(y)
    episodes = Episodes.from_arrays(X, y)
    if check_axes and looks_transposed(episodes):
        raise DfstransError(
            f"expected an array (n_episodes, n_sensors, n_timepoints), got {episodes.n_sensors} sensors with only "
            f"{episodes.n_timepoints} points each, which looks transposed; swap the last two axes, or, if it is right, "
            "wrap it with Episodes.from_arrays(X, y)"
        )
    return episodes


def as_in_training(
    episodes: Episodes, sensors: tuple[str, ...], units: tuple[str, ...], interval: float | None, time_unit: str
) -> Episodes:
    """Episodes with the sensors of training, in their order; an error where that cannot be.

    Other units and another sampling interval than those of training are warned of, where both are known.
    """
    episodes = match_sensors(episodes, sensors)
    pairs = zip(episodes.sensors, episodes.units, units, strict=True)
    other = [
        f"{name} in {here} (in training: {there})" for name, here, there in pairs if here and there and here != there
    ]
    if other:
        warnings.warn(
            f"these episodes have other units than those of training: {shortlist(other)}; scores mean little unless "
            "that is another spelling of the same unit: convert the values",
            stacklevel=3,
        )
    if interval is not None and episodes.interval is not None:
        here, there = _comparable((episodes.interval, episodes.time_unit), (interval, time_unit))
        if abs(here / there - 1) > 0.01:
            warnings.warn(
                f"these episodes have a point every {episodes.interval:g} {episodes.time_unit}".rstrip()
                + f", those of training had one every {interval:g} {time_unit}".rstrip()
                + ": scores mean little; resample them",
                stacklevel=3,
            )
    return episodes


def _comparable(*intervals: tuple[float, str]) -> tuple[float, ...]:
    """Intervals in seconds if all their units are known ones, else as they are.

    >>> _comparable((500, "ms"), (0.5, "s")), _comparable((500, "ms"), (0.5, ""))
    ((0.5, 0.5), (500, 0.5))
    """
    if all(unit in _SECONDS for _, unit in intervals):
        return tuple(value * _SECONDS[unit] for value, unit in intervals)
    return tuple(value for value, _ in intervals)


def match_sensors(episodes: Episodes, sensors: tuple[str, ...]) -> Episodes:
    """The sensors of training in their order: by name where there are names, else by position."""
    if episodes.sensors == sensors:
        return episodes
    expected, received = len(sensors), episodes.n_sensors
    unnamed = episodes.sensors == default_sensor_names(received)
    if unnamed or sensors == default_sensor_names(expected):
        if received != expected:
            transposed = "is the array transposed?" if episodes.n_timepoints == expected else "give the same sensors"
            raise DfstransError(f"expected {expected} sensors, as in fit, got {received}; {transposed}")
        return episodes
    missing = [name for name in sensors if name not in episodes.sensors]
    if missing:
        raise DfstransError(
            f"expected {expected} sensors, as in fit, got {received} ({shortlist(episodes.sensors)}); missing: "
            f"{', '.join(missing)}; rename columns if they go by other names here, add them (empty if need be: a "
            "missing sensor stands at its training mean) or train without them"
        )
    extra = [name for name in episodes.sensors if name not in sensors]
    if extra:
        warnings.warn(f"sensors that the model does not know are ignored: {', '.join(extra)}", stacklevel=2)
    return episodes.select_sensors(sensors)


def require_both_classes(labels: npt.NDArray[np.int8]) -> None:
    """Refuse labels from which nothing can be learnt."""
    n_anomalous = int(labels.sum())
    if min(n_anomalous, len(labels) - n_anomalous) < 2:
        raise DfstransError(
            f"expected at least two normal and two anomalous episodes, got {len(labels) - n_anomalous} normal and "
            f"{n_anomalous} anomalous; a detector learns from both, so add labelled episodes of the rarer class"
        )


def check_scored(episodes: Episodes, logits: npt.NDArray[np.float64]) -> None:
    """Refuse episodes whose logit is no number."""
    strange = episodes.ids[~np.isfinite(logits)]
    if len(strange):
        raise beyond_measure(strange)
