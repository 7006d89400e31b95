"""What normal episodes show about each sensor: its spread, and the sensor it moves with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import check_finite
from dfstrans.lab.injection.settings import KINDS

Array = npt.NDArray[np.float64]
MAX_EPISODES = 256  # evenly spaced over the set
MAX_VALUES = 200_000  # per sensor, held in memory
FIVE_TO_NINETY_FIVE = 3.289707  # in standard deviations of a Gaussian
COUPLED = 0.5  # absolute correlation from which two sensors count as moving together


@dataclass(frozen=True, eq=False)
class NormalSensors:
    """Centre and spread of each sensor, the values it takes, and the sensor it moves with most.

    The centre is the median. The spread is that of a Gaussian with the same 5th and 95th percentile, or the standard
    deviation if these are equal; 0 for a constant sensor. `whole` sensors have whole numbers only, `switches` at most
    two values. `partner` is the sensor with the largest absolute correlation within episodes, `coupling` that
    correlation, from −1 to 1; 0 without a partner.

    Shape:
        all (n_sensors,)
    """

    sensors: tuple[str, ...]
    centre: Array
    spread: Array
    whole: npt.NDArray[np.bool_]
    switches: npt.NDArray[np.bool_]
    partner: npt.NDArray[np.intp]
    coupling: Array

    @classmethod
    def measure(cls, episodes: Episodes) -> Self:
        """Measure on up to MAX_EPISODES episodes, read one at a time."""
        rows = np.unique(np.linspace(0, len(episodes) - 1, min(len(episodes), MAX_EPISODES)).astype(int))
        step = -(-int(episodes.lengths[rows].sum()) // MAX_VALUES)
        products = np.zeros((episodes.n_sensors, episodes.n_sensors))
        kept = []
        for row in rows:
            (episode,) = episodes[row]
            check_finite(episode.values, episode.id, episodes.sensors)
            values = episode.values.astype(np.float64)
            products += _products(values)
            kept.append(values[:, ::step])
        values = np.concatenate(kept, axis=1)
        columns = [one[~np.isnan(one)] for one in values]
        correlation = _correlation(products)
        partner = np.abs(correlation).argmax(axis=1)
        return cls(
            sensors=episodes.sensors,
            centre=np.array([np.median(one) if len(one) else 0.0 for one in columns]),
            spread=np.array([_spread(one) for one in columns]),
            whole=np.array([bool((one == np.rint(one)).all()) for one in columns]),
            switches=np.array([len(np.unique(one)) <= 2 for one in columns]),
            partner=partner,
            coupling=correlation[np.arange(len(partner)), partner],
        )

    @property
    def constant(self) -> tuple[str, ...]:
        """Names of the sensors that never move; they get no fault."""
        return tuple(name for name, spread in zip(self.sensors, self.spread, strict=True) if spread == 0)

    def suited(self, kind: str) -> npt.NDArray[np.intp]:
        """Indices of the sensors in which a kind of fault can be planted.

        A switch has no meaningful spread or swing; a coupled fault needs a partner.
        """
        suited = self.spread > 0
        if KINDS[kind].by_movement:
            suited &= ~self.switches
        if KINDS[kind].coupled:
            suited &= np.abs(self.coupling) >= COUPLED
        return np.flatnonzero(suited)


def _spread(values: Array) -> float:
    """Robust standard deviation where possible."""
    if len(values) == 0 or values.max() == values.min():
        return 0.0
    low, high = np.quantile(values, [0.05, 0.95])
    return float((high - low) / FIVE_TO_NINETY_FIVE if high > low else values.std())


def _products(values: Array) -> Array:
    """Sums of products of the deviations from the means of an episode: (n_sensors, n_sensors)."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    mean = np.where(present, values, 0.0).sum(axis=1, keepdims=True) / count
    centred = np.where(present, values - mean, 0.0)
    return np.asarray(centred @ centred.T)


def _correlation(products: Array) -> Array:
    """Correlations; 0 on the diagonal and for a sensor that is constant within episodes."""
    deviation = np.sqrt(np.diag(products))
    scale = np.outer(deviation, deviation)
    correlation: Array = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    np.fill_diagonal(correlation, 0.0)
    return correlation
