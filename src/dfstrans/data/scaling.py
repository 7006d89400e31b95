"""Min-max scaling per sensor, learned from training episodes only."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.timing import (
    ONE_LARGE_VALUE,
    REMEDY,
    REMEDY_IF_SEVERAL,
    ROUNDED,
    coarse,
    describe_slow_rates,
    may_hide_a_signal,
    times_slower,
)
from dfstrans.errors import DfstransError, reading_option_name, shortlist

BEYOND_MEASURE = 1e18  # in ranges of a sensor; the square of more has no place in 32 bits


@dataclass(frozen=True, eq=False)
class SensorScaler:
    """Maps each sensor's training range to 0 … 1; what lies outside it later is kept, not clipped.

    A sensor that is constant in training maps to 0, and stays there should it move later: nothing was learnt of it, not
    even in what measure it moves.

    Shape:
        minimum, maximum, mean (n_sensors,), in the sensors' own units
    """

    sensors: tuple[str, ...]
    minimum: npt.NDArray[np.float64]
    maximum: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, episodes: Episodes) -> Self:
        """Learn the ranges in one pass that holds one batch at a time."""
        n_sensors = episodes.n_sensors
        minimum, maximum = np.full(n_sensors, np.inf), np.full(n_sensors, -np.inf)
        total, count = np.zeros(n_sensors), np.zeros(n_sensors)
        blank: list[str] = []
        slower: dict[str, int] = {}
        for episode in episodes:
            check_finite(episode.values, episode.id, episodes.sensors)
            present = ~np.isnan(episode.values)
            minimum = np.minimum(minimum, np.where(present, episode.values, np.inf).min(axis=1))
            maximum = np.maximum(maximum, np.where(present, episode.values, -np.inf).max(axis=1))
            total += np.where(present, episode.values, 0).sum(axis=1, dtype=np.float64)
            count += present.sum(axis=1)
            if not present.any():
                blank.append(episode.id)
            times = times_slower(np.asarray(present.any(axis=0)))
            if times > 1:
                slower[episode.id] = times
        empty = [name for name, n in zip(episodes.sensors, count, strict=True) if n == 0]
        if empty:
            raise DfstransError(
                f"expected at least one value of every sensor in the training part, got none of: {', '.join(empty)}; "
                f"leave these sensors out ({reading_option_name('drop_sensors', ...)})"
            )
        lost = (minimum == maximum) & may_hide_a_signal(maximum)
        for hit, said, remedy in (
            (coarse(minimum, maximum), ROUNDED, REMEDY),
            (lost, ONE_LARGE_VALUE, REMEDY_IF_SEVERAL),
        ):
            if hit.any():
                named = [episodes.sensors[sensor] for sensor in np.flatnonzero(hit)]
                warnings.warn(f"{said}: {shortlist(named)}; {remedy}", stacklevel=2)
        if blank:
            warnings.warn(
                f"no value at all in training episodes: {shortlist(blank)}; there is nothing to learn from: "
                "record them again, or leave them out",
                stacklevel=2,
            )
        if 0 < len(slower) < len(episodes) - len(blank):
            warnings.warn(describe_slow_rates(slower), stacklevel=2)
        return cls(episodes.sensors, minimum, maximum, total / count)

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which sensors did not move in training, as far as 32 bits tell."""
        return self.maximum - self.minimum <= np.finfo(np.float32).tiny  # the inverse of a range has to be finite

    @property
    def factor(self) -> npt.NDArray[np.float64]:
        """1 / (maximum − minimum), and 0 for a constant sensor."""
        return np.divide(1, self.maximum - self.minimum, out=np.zeros(len(self.sensors)), where=~self.constant)

    @property
    def scaled_mean(self) -> npt.NDArray[np.float32]:
        """The training mean on the scale of 0 … 1: what stands in for a sensor that is missing altogether."""
        return ((self.mean - self.minimum) * self.factor).astype(np.float32)

    def transform(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scale values of shape (…, n_sensors, n_timepoints); NaN stays NaN."""
        offset = self.minimum.astype(np.float32)[:, None]
        scaled = (values - offset) * self.factor.astype(np.float32)[:, None]
        scaled[..., self.constant, :] = np.where(np.isnan(values[..., self.constant, :]), np.nan, 0)
        return scaled

    def count_out_of_range(self, episodes: Episodes) -> npt.NDArray[np.int64]:
        """How many values of each sensor lie outside the training range: (n_sensors,)."""
        counts = np.zeros(len(self.sensors), dtype=np.int64)
        for episode in episodes:
            low, high = episode.values < self.minimum[:, None], episode.values > self.maximum[:, None]
            counts += (low | high).sum(axis=1)
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON; exact, because Python prints floats so that they read back the same."""
        return {
            "sensors": list(self.sensors),
            "minimum": self.minimum.tolist(),
            "maximum": self.maximum.tolist(),
            "mean": self.mean.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        arrays = (np.asarray(content[name], dtype=np.float64) for name in ("minimum", "maximum", "mean"))
        return cls(tuple(content["sensors"]), *arrays)


def check_finite(values: npt.NDArray[np.float32], episode_id: str, sensors: tuple[str, ...]) -> None:
    """Refuse infinite values of one episode (n_sensors, length), naming the sensor."""
    infinite: npt.NDArray[np.bool_] = np.isinf(values).any(axis=-1)  # type: ignore[assignment]
    if infinite.any():
        names = [name for name, bad in zip(sensors, infinite, strict=True) if bad]
        raise DfstransError(
            f"expected finite numbers, got infinite values in episode {episode_id!r}, sensors: {', '.join(names)}; "
            f"set them to NaN, or read them as missing ({reading_option_name('infinite_as_missing', True)}); "
            "beyond 3.4e38, 32 bits end"
        )


def beyond_measure(ids: npt.NDArray[np.str_]) -> DfstransError:
    """The error for episodes with values that no sensor gives."""
    return DfstransError(
        f"expected values that can be scored, got values beyond all measure in: {', '.join(ids[:5])}; is a number used "
        "as a sign for missing? read it as missing (empty or NaN)"
    )
