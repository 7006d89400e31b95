"""Input checks of detectors: convert the input to episodes with the sensors of training, in order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.conversion import default_sensor_names
from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.grid import seconds_of
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
    if not _same_interval(episodes, interval, time_unit):
        warnings.warn(
            f"the sampling interval is {episodes.interval:g} {episodes.time_unit}".rstrip()
            + f", in training it was {interval:g} {time_unit}".rstrip()
            + "; resample the recordings, otherwise the scores are meaningless",
            stacklevel=3,
        )
    return episodes


def require_interval(episodes: Episodes, interval: float | None, time_unit: str) -> None:
    """Reject episodes whose sampling interval is known and differs from that of training."""
    if not _same_interval(episodes, interval, time_unit):
        raise DfstransError(
            f"expected a sampling interval of {interval:g} {time_unit}".rstrip()
            + f", as in training, got {episodes.interval:g} {episodes.time_unit}".rstrip()
            + "; resample the recordings to that of training, or train a model on recordings like these"
        )


def _same_interval(episodes: Episodes, interval: float | None, time_unit: str) -> bool:
    """Return whether the sampling intervals agree within 1 %, or one of them is unknown.

    They are compared in seconds if both units are known, else as numbers.
    """
    if interval is None or episodes.interval is None:
        return True
    given, trained = seconds_of(episodes.interval, episodes.time_unit), seconds_of(interval, time_unit)
    ratio = episodes.interval / interval if given is None or trained is None else given / trained
    return abs(ratio - 1) <= 0.01


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


def without_values(episodes: Episodes, sensors: tuple[str, ...]) -> dict[int, str]:
    """Return the reason why an episode without any value of these sensors cannot be scored, by row."""
    return {
        row: f"expected at least one value of a sensor in each episode, got none in episode {episode.id!r}; record it "
        "again, or remove it"
        for row, episode in enumerate(match_sensors(episodes, sensors))
        if _has_no_value(episode)
    }


def _has_no_value(episode: Episode) -> bool:
    """Return whether all values are missing; checks the first point first, which usually has a value."""
    return bool(np.isnan(episode.values[:, 0]).all() and np.isnan(episode.values).all())


def warn_of_silent_sensors(episodes: Episodes) -> None:
    """Warn about sensors without any value in all of these episodes, which a model replaces by their training mean."""
    silent = np.ones(episodes.n_sensors, dtype=np.bool_)
    for episode in episodes:
        silent[silent] = np.isnan(episode.values[silent]).all(axis=1)
        if not silent.any():
            return
    if len(episodes):
        names = [name for name, hit in zip(episodes.sensors, silent, strict=True) if hit]
        warnings.warn(
            f"no values of {list_few(names)} in these recordings: the model sets such sensors to their training mean, "
            "so they contribute nothing; record them, or train without them",
            stacklevel=3,
        )


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
