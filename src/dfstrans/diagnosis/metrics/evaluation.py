"""All metrics of rankings against known causes: by level (sensors, segments, cells) and by kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dfstrans.diagnosis.metrics.known_causes import KnownCause
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
from dfstrans.diagnosis.scores import rank_segments, rank_sensors
from dfstrans.errors import DfstransError

KS = (1, 3, 5)
ALL = "all"  # every kind of fault together
BOOTSTRAP_DRAWS = 1000
COVERAGE = 0.95
INDICES_AT_ONCE = 1_000_000  # in memory during the bootstrap

Truth = TypeVar("Truth")
Results = dict[str, dict[str, dict[str, "MetricResult"]]]


class Ranking(NamedTuple):
    """The suspicion scores of the sensors, segments and cells of an episode.

    Shape:
        sensors (n_sensors,), segments (n_segments,), cells (n_segments, n_sensors)
    """

    sensors: Array
    segments: Array
    cells: Array

    @classmethod
    def from_cells(cls, cells: Array) -> Ranking:
        """Score each sensor and each segment by its most suspicious cell."""
        return cls(rank_sensors(cells), rank_segments(cells), cells)


@dataclass(frozen=True)
class LeftOut:
    """An episode whose truth is unknown or cannot distinguish rankings."""

    episode_id: str
    reason: str


@dataclass(frozen=True)
class MetricResult:
    """The mean of a metric over episodes, with its mean chance level and a 95 % bootstrap interval.

    `low` and `high` are percentiles of the mean over episodes drawn with replacement. This assumes independent
    episodes, so the interval is too narrow for pieces of one recording. All four numbers are None without a usable
    episode.
    """

    value: float | None
    chance: float | None
    low: float | None
    high: float | None
    n_episodes: int
    left_out: tuple[LeftOut, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


class MetricOutcome(NamedTuple):
    """A metric of one episode, and its expected value for a random ranking."""

    value: float
    chance: float


def evaluate_rankings(rankings: Mapping[str, Ranking], causes: Sequence[KnownCause]) -> Results:
    """Evaluate rankings by episode id; return results by level, kind of fault ("all": all together) and metric.

    Graded metrics are included if some truth is graded. Each value is a mean over episodes; those whose truth is
    unknown or degenerate for a metric are excluded from it and listed in its result.
    """
    _check(rankings, causes)
    graded = any(cause.relevance is not None for cause in causes)
    kinds = sorted({cause.kind for cause in causes} - {""})
    rows_by_kind = {ALL: list(range(len(causes)))} | {
        kind: [row for row, cause in enumerate(causes) if cause.kind == kind] for kind in kinds
    }
    ids = [cause.episode_id for cause in causes]
    results: Results = {}
    for level, metrics in _metrics().items():
        scores = [getattr(rankings[name], level) for name in ids]
        found = {
            name: _outcomes(metric.value, ids, scores, [metric.truth(cause) for cause in causes])
            for name, metric in metrics.items()
            if graded or not name.startswith("graded")
        }
        results[level] = {
            kind: {name: _summarise([one[row] for row in rows]) for name, one in found.items()}
            for kind, rows in rows_by_kind.items()
        }
    return results


def measure(
    metric: Callable[[Array, Truth], float],
    ids: Sequence[str],
    scores: Sequence[Array],
    truths: Sequence[Truth | None],
) -> MetricResult:
    """Evaluate one metric over episodes, each with its scores and its truth (None if unknown).

    >>> from dfstrans.diagnosis.metrics.rankings import hit_rate
    >>> scores = [np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])]
    >>> found = measure(hit_rate, ["a", "b"], scores, [np.array([True, False, False]), np.ones(3, dtype=bool)])
    >>> found.value, round(found.chance, 3), found.n_episodes, found.left_out
    (1.0, 0.333, 1, (LeftOut(episode_id='b', reason='all of 3 blamed'),))
    """
    return _summarise(_outcomes(metric, ids, scores, truths))


def bootstrap_interval(
    values: Array, *, seed: int = 0, draws: int = BOOTSTRAP_DRAWS, at_once: int = INDICES_AT_ONCE
) -> tuple[float, float]:
    """Return the central 95 % interval of the mean of values drawn with replacement.

    Shape:
        values (n_episodes,)
    """
    rng = np.random.default_rng(seed)
    n = len(values)
    block = max(at_once // n, 1)
    sizes = [min(block, draws - start) for start in range(0, draws, block)]
    means = np.concatenate([values[rng.integers(n, size=(size, n))].mean(axis=1) for size in sizes])
    low, high = np.quantile(means, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)


class _Metric(NamedTuple):
    """A metric, and the truth that it uses."""

    value: Callable[[Array, Any], float]
    truth: Callable[[KnownCause], Any]


def _metrics() -> dict[str, dict[str, _Metric]]:
    """Return all metrics by level and name."""
    return {
        "sensors": {
            **_top_metrics(lambda cause: cause.sensors),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.sensor_relevance),
        },
        "segments": {
            **_top_metrics(lambda cause: cause.segments),
            "auprc": _Metric(auprc, lambda cause: cause.segments),
            "time_overlap": _Metric(
                lambda scores, cause: time_overlap(scores, cause.faulty_points, cause.points), lambda cause: cause
            ),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.segment_relevance),
        },
        "cells": {
            "auprc": _Metric(auprc, lambda cause: cause.cells),
            "auroc": _Metric(auroc, lambda cause: cause.cells),
            "graded_ndcg": _Metric(ndcg, lambda cause: cause.relevance),
        },
    }


def _top_metrics(truth: Callable[[KnownCause], Any]) -> dict[str, _Metric]:
    """Return the metrics for both sensors and segments."""
    metrics: dict[str, Callable[[Array, Any], float]] = {
        "hit_rate@100%": partial(hit_rate, percent=100),
        "hit_rate@150%": partial(hit_rate, percent=150),
        "ndcg": ndcg,
        **{f"rc_top_{k}": partial(rc_top_k, k=k) for k in KS},
        **{f"ac@{k}": partial(ac_at_k, k=k) for k in KS},
        f"avg@{max(KS)}": partial(avg_at_k, k=max(KS)),
        "mrr": reciprocal_rank,
    }
    return {name: _Metric(metric, truth) for name, metric in metrics.items()}


def _outcomes(
    metric: Callable[[Array, Truth], float], ids: Sequence[str], scores: Sequence[Array], truths: Sequence[Truth | None]
) -> list[MetricOutcome | LeftOut]:
    """Return a metric and its chance level, its value for constant scores, for each episode where it is defined."""
    found: list[MetricOutcome | LeftOut] = []
    for name, own, truth in zip(ids, scores, truths, strict=True):
        if truth is None:
            found.append(LeftOut(name, "not known"))
            continue
        try:
            found.append(MetricOutcome(metric(own, truth), metric(np.zeros_like(own), truth)))
        except DegenerateTruthError as degenerate:
            found.append(LeftOut(name, degenerate.reason))
        except DfstransError as error:
            raise DfstransError(f"episode {name!r}: {error}") from error
    return found


def _summarise(found: Sequence[MetricOutcome | LeftOut]) -> MetricResult:
    used = [one for one in found if isinstance(one, MetricOutcome)]
    left_out = tuple(one for one in found if isinstance(one, LeftOut))
    if not used:
        return MetricResult(None, None, None, None, 0, left_out)
    values, chance = np.array([one.value for one in used]), float(np.mean([one.chance for one in used]))
    return MetricResult(float(values.mean()), chance, *bootstrap_interval(values), len(used), left_out)


def _check(rankings: Mapping[str, Ranking], causes: Sequence[KnownCause]) -> None:
    known = [cause.episode_id for cause in causes]
    for what, missing in (
        ("causes of episodes without a ranking", set(known) - set(rankings)),
        ("rankings of episodes without known causes", set(rankings) - set(known)),
    ):
        if missing:
            raise DfstransError(
                f"expected rankings and causes of the same episodes, got {what}: {', '.join(sorted(missing))}; "
                "correct the ids, or remove these episodes"
            )
    if not known:
        raise DfstransError("expected at least one episode with a known cause, got none; add anomalous episodes")
    for cause in causes:
        shapes = (cause.n_sensors,), cause.points.shape, (len(cause.points), cause.n_sensors)
        for level, scores, shape in zip(Ranking._fields, rankings[cause.episode_id], shapes, strict=True):
            if np.shape(scores) != shape:
                raise DfstransError(
                    f"expected scores of shape {shape} for the {level} of episode {cause.episode_id!r}, got "
                    f"{np.shape(scores)}; rank the same sensors, on segments of the same length as the causes"
                )
