"""All metrics of rankings against known causes: by level (sensors, segments, cells) and by kind of fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.known import KnownCause
from dfstrans.diagnosis.metrics.rankings import (
    Array,
    DegenerateTruthError,
    ac_at_k,
    auprc,
    auroc,
    avg_at_k,
    hit_rate,
    ndcg,
    rc_top_k,
    reciprocal_rank,
    time_overlap,
)
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

    >>> from dfstrans.diagnosis.metrics.rankings import hit_rate
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


KS = (1, 3, 5)
ALL = "all"  # every kind of fault together

Results = dict[str, dict[str, dict[str, MetricResult]]]


class Ranking(NamedTuple):
    """How suspicious the sensors, the segments and the cells of an episode are; None what was not ranked.

    Shape:
        sensors (n_sensors,), segments (n_segments,), cells (n_segments, n_sensors)
    """

    sensors: Array | None = None
    segments: Array | None = None
    cells: Array | None = None

    @classmethod
    def from_cells(cls, cells: Array) -> Ranking:
        """A sensor and a segment are as suspicious as their most suspicious cell."""
        return cls(cells.max(axis=0), cells.max(axis=1), cells)


class _Metric(NamedTuple):
    """A metric, and the truth that it is measured against."""

    value: Callable[[Array, Any], float]
    truth: Callable[[KnownCause], Any]


def evaluate_rankings(
    rankings: Mapping[str, Ranking],
    causes: Sequence[KnownCause],
    *,
    ks: Sequence[int] = KS,
    seed: int = 0,
    draws: int = DRAWS,
) -> Results:
    """Results by level, by kind of fault ("all" for all together), by metric; levels that were not ranked are absent.

    Rankings are by episode id. Graded metrics are there where some truth is graded. Each value is a mean over episodes;
    those whose truth is degenerate or not known for a metric are left out of it and named in its result.
    """
    _check(rankings, causes, ks)
    metrics = {
        "sensors": {
            **_top_metrics(ks, lambda cause: cause.sensors),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.sensor_relevance),
        },
        "segments": {
            **_top_metrics(ks, lambda cause: cause.segments),
            "auprc": _Metric(auprc, lambda cause: cause.segments),
            "time_overlap": _Metric(_time_overlap, lambda cause: cause),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.segment_relevance),
        },
        "cells": {
            "auprc": _Metric(auprc, lambda cause: cause.cells),
            "auroc": _Metric(auroc, lambda cause: cause.cells),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.relevance),
        },
    }
    graded = any(cause.relevance is not None for cause in causes)
    results: Results = {}
    for level, of_level in metrics.items():
        scores = [getattr(rankings[cause.episode_id], level) for cause in causes]
        if scores[0] is None:
            continue
        found = {
            name: _outcomes(metric, scores, causes)
            for name, metric in of_level.items()
            if graded or not name.startswith("graded")
        }
        results[level] = {
            kind: {name: summarise([one[row] for row in rows], seed=seed, draws=draws) for name, one in found.items()}
            for kind, rows in _rows_by_kind(causes).items()
        }
    return results


def _top_metrics(ks: Sequence[int], truth: Callable[[KnownCause], Any]) -> dict[str, _Metric]:
    """What is measured of sensors as well as of segments."""
    return {
        "hit_rate@100%": _Metric(partial(hit_rate, percent=100), truth),
        "hit_rate@150%": _Metric(partial(hit_rate, percent=150), truth),
        "ndcg": _Metric(ndcg, truth),
        **{f"rc_top_{k}": _Metric(partial(rc_top_k, k=k), truth) for k in ks},
        **{f"ac@{k}": _Metric(partial(ac_at_k, k=k), truth) for k in ks},
        f"avg@{max(ks)}": _Metric(partial(avg_at_k, k=max(ks)), truth),
        "mrr": _Metric(reciprocal_rank, truth),
    }


def _time_overlap(scores: Array, cause: KnownCause) -> float:
    return time_overlap(scores, cause.faulty_points, cause.points)


def _outcomes(metric: _Metric, scores: Sequence[Array], causes: Sequence[KnownCause]) -> list[Outcome | LeftOut]:
    ids = [cause.episode_id for cause in causes]
    return outcomes(metric.value, ids, scores, [metric.truth(cause) for cause in causes])


def _rows_by_kind(causes: Sequence[KnownCause]) -> dict[str, list[int]]:
    kinds = sorted({cause.kind for cause in causes} - {""})
    of_kind = {kind: [row for row, cause in enumerate(causes) if cause.kind == kind] for kind in kinds}
    return {ALL: list(range(len(causes))), **of_kind}


def _check(rankings: Mapping[str, Ranking], causes: Sequence[KnownCause], ks: Sequence[int]) -> None:
    if not ks or min(ks) < 1:
        raise DfstransError(f"expected places k from 1 on, got {list(ks)}; name at least one, such as {list(KS)}")
    known = [cause.episode_id for cause in causes]
    for what, missing in (
        ("causes of episodes without a ranking", set(known) - set(rankings)),
        ("rankings of episodes without known causes", set(rankings) - set(known)),
    ):
        if missing:
            raise DfstransError(
                f"expected rankings and causes of the same episodes, got {what}: {', '.join(sorted(missing))}; "
                "mend the ids, or leave these out"
            )
    if not known:
        raise DfstransError("expected at least one episode whose cause is known, got none; give anomalous episodes")
    ranked = {tuple(scores is not None for scores in one) for one in rankings.values()}
    if len(ranked) > 1:
        raise DfstransError(
            "expected the same levels (sensors, segments, cells) ranked in every episode, got different ones; "
            "rank all of them, or leave a level out everywhere"
        )
    for cause in causes:
        shapes = (cause.n_sensors,), cause.points.shape, (len(cause.points), cause.n_sensors)
        for level, scores, shape in zip(Ranking._fields, rankings[cause.episode_id], shapes, strict=True):
            if scores is not None and np.shape(scores) != shape:
                raise DfstransError(
                    f"expected scores of shape {shape} for the {level} of episode {cause.episode_id!r}, got "
                    f"{np.shape(scores)}; rank the same sensors, on segments of the same length as the causes"
                )
