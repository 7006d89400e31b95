"""Rankings evaluated against known causes: every metric by level (sensors, segments, cells) and by kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.metrics.rankings import (
    Array,
    DegenerateTruthError,
    Mask,
    Points,
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
from dfstrans.errors import DfstransError, option_name

KS = (1, 3, 5)
ALL = "all"  # every kind of fault together
BOOTSTRAP_DRAWS = 1000
COVERAGE = 0.95
INDICES_AT_ONCE = 1_000_000  # in memory during the bootstrap

Target = TypeVar("Target")
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
class Skipped:
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
    skipped: tuple[Skipped, ...] = ()

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
    metric: Callable[[Array, Target], float],
    ids: Sequence[str],
    scores: Sequence[Array],
    truths: Sequence[Target | None],
) -> MetricResult:
    """Evaluate one metric over episodes, each with its scores and its truth (None if unknown).

    >>> from dfstrans.diagnosis.metrics.rankings import hit_rate
    >>> scores = [np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])]
    >>> found = measure(hit_rate, ["a", "b"], scores, [np.array([True, False, False]), np.ones(3, dtype=bool)])
    >>> found.value, round(found.chance, 3), found.n_episodes, found.skipped
    (1.0, 0.333, 1, (Skipped(episode_id='b', reason='all of 3 blamed'),))
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
    metric: Callable[[Array, Target], float],
    ids: Sequence[str],
    scores: Sequence[Array],
    truths: Sequence[Target | None],
) -> list[MetricOutcome | Skipped]:
    """Return a metric and its chance level, its value for constant scores, for each episode where it is defined."""
    found: list[MetricOutcome | Skipped] = []
    for name, own, truth in zip(ids, scores, truths, strict=True):
        if truth is None:
            found.append(Skipped(name, "not known"))
            continue
        try:
            found.append(MetricOutcome(metric(own, truth), metric(np.zeros_like(own), truth)))
        except DegenerateTruthError as degenerate:
            found.append(Skipped(name, degenerate.reason))
        except DfstransError as error:
            raise DfstransError(f"episode {name!r}: {error}") from error
    return found


def _summarise(found: Sequence[MetricOutcome | Skipped]) -> MetricResult:
    used = [one for one in found if isinstance(one, MetricOutcome)]
    skipped = tuple(one for one in found if isinstance(one, Skipped))
    if not used:
        return MetricResult(None, None, None, None, 0, skipped)
    values, chance = np.array([one.value for one in used]), float(np.mean([one.chance for one in used]))
    return MetricResult(float(values.mean()), chance, *bootstrap_interval(values), len(used), skipped)


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


# ---- known causes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownCause:
    """Which sensors, segments and cells of an episode are to blame; None if unknown.

    Shape:
        faulty_points, points (n_segments,): number per segment; cells and relevance, the graded truth,
        (n_segments, n_sensors)
    """

    episode_id: str
    kind: str
    n_sensors: int
    faulty_points: Points
    points: Points
    cells: Mask | None
    relevance: Array | None = None

    @property
    def sensors(self) -> Mask | None:
        """Sensors with at least one cell to blame: (n_sensors,)."""
        return None if self.cells is None else np.asarray(self.cells.any(axis=0))

    @property
    def segments(self) -> Mask:
        """Segments with at least one faulty point: (n_segments,)."""
        return np.asarray(self.faulty_points > 0)

    @property
    def sensor_relevance(self) -> Array | None:
        """Graded truth of each sensor, in its worst segment: (n_sensors,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=0))

    @property
    def segment_relevance(self) -> Array | None:
        """Graded truth of each segment, in the sensor that shows it best: (n_segments,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=1))


def known_causes(episodes: Episodes, segment_length: int) -> list[KnownCause]:
    """Return the cause of each episode, from its graded truth if there is one, else from its faults.

    With graded truth, a cell is to blame from relevance 1, a sensor or segment if one of its cells is, and a point if
    it lies in such a segment of the truth. With faults, their windows and sensors are to blame; an episode with a fault
    that names no sensor has no known sensors and cells.
    """
    if episodes.truth is None and episodes.faults is None:
        raise DfstransError(
            "expected episodes with known causes, got neither faults nor graded truth; read them with a table of "
            f"the faults of each episode ({option_name('faults', ...)}), or use recordings that include them"
        )
    of_row = _from_faults if episodes.truth is None else _from_truth
    return [of_row(episodes, row, kind, segment_length) for row, kind in enumerate(episodes.fault_kinds())]


def _from_truth(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    truth = episodes.truth
    assert truth is not None  # checked by the caller
    length = int(episodes.lengths[row])
    faulty = np.zeros(length, dtype=np.bool_)
    within = np.repeat(truth.affected[row].any(axis=1), truth.segment_length)[:length]
    faulty[: len(within)] = within
    relevance = truth.cells(row, segment_length, count_segments(length, segment_length)).astype(np.float64)
    counts = points_per_segment(faulty, segment_length)
    return KnownCause(str(episodes.ids[row]), kind, episodes.n_sensors, *counts, relevance >= 1, relevance)


def _from_faults(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    assert episodes.faults is not None  # checked by the caller
    name, length, faults = str(episodes.ids[row]), int(episodes.lengths[row]), episodes.faults[row]
    faulty = np.zeros(length, dtype=np.bool_)
    for fault in faults:
        _check_fault(fault, name, length, episodes.sensors)
        faulty[fault.start : fault.stop] = True
    cells = episodes.fault_cells(row, segment_length) if all(fault.sensors for fault in faults) else None
    return KnownCause(name, kind, episodes.n_sensors, *points_per_segment(faulty, segment_length), cells)


def points_per_segment(faulty: Mask, segment_length: int) -> tuple[Points, Points]:
    """Count the faulty points and all points of each segment of an episode; the last segment may be shorter.

    Shape:
        faulty (n_timepoints,) → (n_segments,), (n_segments,)

    >>> points_per_segment(np.array([0, 1, 1, 1, 0], dtype=bool), 2)
    (array([1, 2, 0]), array([2, 2, 1]))
    """
    starts = np.arange(0, len(faulty), segment_length)
    return np.add.reduceat(faulty.astype(np.int64), starts), np.diff(np.append(starts, len(faulty)))


def _check_fault(fault: Fault, name: str, length: int, sensors: tuple[str, ...]) -> None:
    unknown = [sensor for sensor in fault.sensors if sensor not in sensors]
    if unknown:
        raise DfstransError(
            f"expected faults in the sensors {', '.join(sensors)}, got unknown sensors in episode {name!r}: "
            f"{', '.join(unknown)}; correct their names, or keep these sensors"
        )
    if not 0 <= fault.start < min(fault.stop, length):
        raise DfstransError(
            f"expected a fault within the {length} points of episode {name!r}, got one from {fault.start} to "
            f"{fault.stop}; correct its start and stop, which are counted in points from the beginning of the episode"
        )
