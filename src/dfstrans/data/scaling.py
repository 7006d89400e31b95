"""Min-max scaling per sensor, learned from training episodes only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError, list_few, reading_option_name

LARGEST_SCALED_VALUE = 1e18  # squares of larger values overflow in float32
MIN_STEPS = 64  # float32 numbers between the minimum and maximum of a sensor
UNIT_FACTORS = (1e3, 1e-3, 1e6, 1e-6, 10, 0.1, 100, 0.01, 60, 1 / 60, 3600, 1 / 3600)  # between units of one quantity
UNIT_MARGIN = 0.1  # of the training range, by which values in the right unit may exceed it
UNIT_COVER = 0.05  # of the training range that such values cover at least
MIN_VALUES_FOR_RATE = 10  # with fewer, every second value may be missing by chance


@dataclass(frozen=True, eq=False)
class SensorScaler:
    """Maps each sensor's training range to 0 … 1; later values outside it are not clipped.

    A sensor that is constant in training maps to 0 and stays there even if it moves later, because its range is
    unknown.

    Shape:
        minimum, maximum, mean (n_sensors,), in the sensors' own units
    """

    sensors: tuple[str, ...]
    minimum: npt.NDArray[np.float64]
    maximum: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, episodes: Episodes) -> Self:
        """Learn the ranges in one pass, one episode in memory at a time; warn about unusual training data."""
        n_sensors = episodes.n_sensors
        minimum, maximum = np.full(n_sensors, np.inf), np.full(n_sensors, -np.inf)
        total, count = np.zeros(n_sensors), np.zeros(n_sensors)
        empty_episodes: list[str] = []
        strides: dict[str, int] = {}
        for episode in episodes:
            check_finite(episode.values, episode.id, episodes.sensors)
            present = ~np.isnan(episode.values)
            minimum = np.minimum(minimum, np.where(present, episode.values, np.inf).min(axis=1))
            maximum = np.maximum(maximum, np.where(present, episode.values, -np.inf).max(axis=1))
            total += np.where(present, episode.values, 0).sum(axis=1, dtype=np.float64)
            count += present.sum(axis=1)
            if not present.any():
                empty_episodes.append(episode.id)
            stride = sampling_stride(np.asarray(present.any(axis=0)))
            if stride > 1:
                strides[episode.id] = stride
        empty = [name for name, n in zip(episodes.sensors, count, strict=True) if n == 0]
        if empty:
            raise DfstransError(
                f"expected at least one value of every sensor in the training part, got none of: {', '.join(empty)}; "
                f"drop these sensors ({reading_option_name('drop_sensors', ...)})"
            )
        for message in _find_problems(episodes, minimum, maximum, empty_episodes, strides):
            warnings.warn(message, stacklevel=2)
        return cls(episodes.sensors, minimum, maximum, total / count)

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which sensors were constant in training, at float32 precision."""
        return self.maximum - self.minimum <= np.finfo(np.float32).tiny  # the reciprocal of a range must be finite

    @property
    def factor(self) -> npt.NDArray[np.float64]:
        """1 / (maximum − minimum), and 0 for a constant sensor."""
        return np.divide(1, self.maximum - self.minimum, out=np.zeros(len(self.sensors)), where=~self.constant)

    @property
    def scaled_mean(self) -> npt.NDArray[np.float32]:
        """The training mean on the scale 0 … 1, which replaces a sensor without any values."""
        return ((self.mean - self.minimum) * self.factor).astype(np.float32)

    def transform(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scale values of shape (…, n_sensors, n_timepoints); NaN stays NaN."""
        offset = self.minimum.astype(np.float32)[:, None]
        scaled = (values - offset) * self.factor.astype(np.float32)[:, None]
        scaled[..., self.constant, :] = np.where(np.isnan(values[..., self.constant, :]), np.nan, 0)
        return scaled

    def count_out_of_range(
        self, episodes: Episodes, machines: Mapping[str, npt.NDArray[np.float64]] | None = None
    ) -> npt.NDArray[np.int64]:
        """Count the values of each sensor outside its training range: (n_sensors,).

        `machines` are ranges that are normal for a machine as well, on the scale of training: (sensor, 2) by name.
        """
        counts, machines = np.zeros(len(self.sensors), dtype=np.int64), machines or {}
        span = np.where(self.constant, 0, self.maximum - self.minimum)
        for episode in episodes:
            own = machines.get(episode.group or "", np.tile([0.0, 1.0], (len(span), 1)))
            low = self.minimum + span * np.fmin(own[:, 0], 0)
            high = self.maximum + span * np.fmax(own[:, 1] - 1, 0)
            counts += ((episode.values < low[:, None]) | (episode.values > high[:, None])).sum(axis=1)
        return counts

    def unit_factors(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        """Return the factor between units by which each sensor's values differ from training, or NaN: (n_sensors,).

        Divided by it, all values lie in the training range and cover a part of it, the largest that any factor gives.
        """
        low, high = np.full((2, len(self.sensors)), np.nan)
        for episode in episodes:
            low = np.fmin(low, np.fmin.reduce(episode.values, axis=1))
            high = np.fmax(high, np.fmax.reduce(episode.values, axis=1))
        factors, span = np.array([1, *UNIT_FACTORS]), self.maximum - self.minimum
        margin = UNIT_MARGIN * span
        fits = (low >= np.outer(factors, self.minimum - margin)) & (high <= np.outer(factors, self.maximum + margin))
        covered = np.where(fits, (high - low) / np.outer(factors, np.where(self.constant, np.inf, span)), 0)
        found = ~fits[0] & (covered.max(axis=0) > UNIT_COVER)
        return np.where(found, factors[covered.argmax(axis=0)], np.nan)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists for JSON, which preserves float64 exactly."""
        return {
            "sensors": list(self.sensors),
            "minimum": self.minimum.tolist(),
            "maximum": self.maximum.tolist(),
            "mean": self.mean.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Create a scaler from the result of `to_dict`."""
        arrays = (np.asarray(content[name], dtype=np.float64) for name in ("minimum", "maximum", "mean"))
        return cls(tuple(content["sensors"]), *arrays)


def check_finite(values: npt.NDArray[np.float32], episode_id: str, sensors: tuple[str, ...]) -> None:
    """Reject infinite values of one episode (n_sensors, length), naming the sensors."""
    infinite: npt.NDArray[np.bool_] = np.isinf(values).any(axis=-1)  # type: ignore[assignment]
    if infinite.any():
        names = [name for name, bad in zip(sensors, infinite, strict=True) if bad]
        raise DfstransError(
            f"expected finite numbers, got infinite values in episode {episode_id!r}, sensors: {', '.join(names)}; "
            f"set them to NaN, or read them as missing ({reading_option_name('infinite_as_missing', True)}); numbers "
            "above 3.4e38 are infinite in float32"
        )


def too_large_values(ids: npt.NDArray[np.str_]) -> DfstransError:
    """Return the error for episodes with values that are too large to score."""
    return DfstransError(
        f"expected values that can be scored, got values far outside any range in: {', '.join(ids[:5])}; if a large "
        "number marks missing values, read it as missing (empty or NaN)"
    )


# ---- suspicious data, which training warns about and the data check reports ---------------------------------------


def _find_problems(
    episodes: Episodes,
    minimum: npt.NDArray[np.float64],
    maximum: npt.NDArray[np.float64],
    empty_episodes: list[str],
    strides: dict[str, int],
) -> Iterator[str]:
    """Describe problems that may affect training on these episodes."""
    rounded, hidden = is_rounded(minimum, maximum), is_hidden_by_offset(minimum, maximum)
    if rounded.any():
        yield describe_rounded(episodes.sensors[i] for i in np.flatnonzero(rounded))
    if hidden.any():
        yield describe_hidden(episodes.sensors[i] for i in np.flatnonzero(hidden))
    if empty_episodes:
        yield f"training episodes without any value: {list_few(empty_episodes)}; remove them"
    if 0 < len(strides) < len(episodes) - len(empty_episodes):
        yield describe_slow_rates(strides)


def is_rounded(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mark the sensors whose range is so small for their magnitude that float32 has only a few values in it.

    >>> is_rounded(np.array([0.0, 1.7e9]), np.array([1.0, 1.7e9 + 1024])).tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore"):
        span = maximum - minimum
        few = span < MIN_STEPS * _float32_step(minimum, maximum)
    return np.asarray((span > 0) & few, dtype=np.bool_)


def is_hidden_by_offset(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mark the constant sensors that are so large that float32 may have rounded several values to one.

    >>> is_hidden_by_offset(np.array([5.0, 1.7e9]), np.array([5.0, 1.7e9])).tolist()
    [False, True]
    """
    return np.asarray((minimum == maximum) & (_float32_step(minimum, maximum) > 1), dtype=np.bool_)


def sampling_stride(present: npt.NDArray[np.bool_]) -> int:
    """Return n if only every n-th point of an episode has values; 1 for a normal sampling rate.

    >>> sampling_stride(np.arange(60) % 3 == 0), sampling_stride(np.arange(60) != 7)
    (3, 1)
    """
    places = np.flatnonzero(present)
    return 1 if len(places) < MIN_VALUES_FOR_RATE else int(np.gcd.reduce(places - places[0]))


def describe_rounded(sensors: Iterable[str]) -> str:
    """Describe sensors that are `is_rounded`, with the remedy."""
    return (
        f"small signal on a large offset, which float32 rounds to a few values: {list_few(sensors)}; subtract the "
        "offset before reading the recordings"
    )


def describe_hidden(sensors: Iterable[str]) -> str:
    """Describe sensors that are `is_hidden_by_offset`, with the remedy."""
    return (
        f"large and constant in float32: {list_few(sensors)}; if the original values differ, subtract an offset "
        "before reading the recordings"
    )


def describe_slow_rates(strides: Mapping[str, int]) -> str:
    """Describe episodes with a sampling stride above 1 among others, with the remedy."""
    shown = [f"{name} ({stride} times)" for name, stride in strides.items()]
    return (
        f"sampled at a lower rate than other episodes: {list_few(shown)}; the points in between are missing, and a "
        "detector may learn the rate instead of the fault: resample all recordings to one rate"
    )


def _float32_step(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the distance between neighbouring float32 numbers at a sensor's largest magnitude."""
    largest = np.maximum(np.abs(minimum), np.abs(maximum)).astype(np.float32)
    return np.spacing(np.where(np.isfinite(largest), largest, np.float32(0))).astype(np.float64)
