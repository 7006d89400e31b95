"""A metric over many episodes: its mean, its chance level, its interval, and which episodes it leaves out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.ties import Array, DegenerateTruthError
from dfstrans.errors import DfstransError

DRAWS = 1000
COVERAGE = 0.95
_AT_ONCE = 1_000_000  # indices that the bootstrap holds in memory

Truth = TypeVar("Truth")


class LeftOut(NamedTuple):
    """An episode whose truth cannot tell rankings apart, or is not known."""

    episode_id: str
    reason: str


class Outcome(NamedTuple):
    """A metric of one episode, and what a random ranking is expected to reach there."""

    episode_id: str
    value: float
    chance: float


@dataclass(frozen=True)
class MetricResult:
    """The mean of a metric over episodes, with the mean of its chance level and a 95 % bootstrap interval.

    `low` and `high` are percentiles of the mean over episodes drawn with replacement; episodes count as independent, so
    that pieces of one recording make it too narrow. All four numbers are None where no episode could be used.
    """

    value: float | None
    chance: float | None
    low: float | None
    high: float | None
    n_episodes: int
    left_out: tuple[LeftOut, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**dataclasses.asdict(self), "left_out": [one._asdict() for one in self.left_out]}


def measure(
    metric: Callable[[Array, Truth], float],
    ids: Sequence[str],
    scores: Sequence[Array],
    truths: Sequence[Truth | None],
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> MetricResult:
    """A metric over episodes, each with its scores and its truth; None is a truth that is not known.

    >>> from dfstrans.diagnosis.metrics.hits import hit_rate
    >>> scores = [np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])]
    >>> found = measure(hit_rate, ["a", "b"], scores, [np.array([True, False, False]), np.ones(3, dtype=bool)])
    >>> found.value, round(found.chance, 3), found.n_episodes, found.left_out
    (1.0, 0.333, 1, (LeftOut(episode_id='b', reason='all of 3 blamed'),))
    """
    return summarise(outcomes(metric, ids, scores, truths), seed=seed, draws=draws)


def outcomes(
    metric: Callable[[Array, Truth], float], ids: Sequence[str], scores: Sequence[Array], truths: Sequence[Truth | None]
) -> list[Outcome | LeftOut]:
    """A metric and its chance level, which is its value for constant scores, of each episode that allows it."""
    found: list[Outcome | LeftOut] = []
    for name, own, truth in zip(ids, scores, truths, strict=True):
        if truth is None:
            found.append(LeftOut(name, "not known"))
            continue
        try:
            found.append(Outcome(name, metric(own, truth), metric(np.zeros_like(own), truth)))
        except DegenerateTruthError as degenerate:
            found.append(LeftOut(name, degenerate.reason))
        except DfstransError as error:
            raise DfstransError(f"episode {name!r}: {error}") from error
    return found


def summarise(found: Sequence[Outcome | LeftOut], *, seed: int = 0, draws: int = DRAWS) -> MetricResult:
    """The means over the episodes that could be used, with the interval of the first."""
    used = [one for one in found if isinstance(one, Outcome)]
    left_out = tuple(one for one in found if isinstance(one, LeftOut))
    if not used:
        return MetricResult(None, None, None, None, 0, left_out)
    values = np.array([one.value for one in used])
    low, high = bootstrap_interval(values, seed=seed, draws=draws)
    chance = float(np.mean([one.chance for one in used]))
    return MetricResult(float(values.mean()), chance, low, high, len(used), left_out)


def bootstrap_interval(values: npt.NDArray[np.float64], *, seed: int = 0, draws: int = DRAWS) -> tuple[float, float]:
    """The middle 95 % of the means of as many values drawn with replacement.

    Shape:
        values (n_episodes,)
    """
    rng = np.random.default_rng(seed)
    n = len(values)
    block = max(_AT_ONCE // n, 1)
    sizes = [min(block, draws - start) for start in range(0, draws, block)]
    means = np.concatenate([values[rng.integers(n, size=(size, n))].mean(axis=1) for size in sizes])
    low, high = np.quantile(means, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)
