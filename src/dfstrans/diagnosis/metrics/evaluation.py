"""All metrics of rankings against known causes: by level (sensors, segments, cells) and by kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dfstrans.diagnosis.metrics.curves import auprc, auroc
from dfstrans.diagnosis.metrics.gains import ndcg
from dfstrans.diagnosis.metrics.hits import ac_at_k, avg_at_k, hit_rate, rc_top_k, reciprocal_rank
from dfstrans.diagnosis.metrics.known import KnownCause
from dfstrans.diagnosis.metrics.overlap import time_overlap
from dfstrans.diagnosis.metrics.results import DRAWS, LeftOut, MetricResult, Outcome, outcomes, summarise
from dfstrans.diagnosis.metrics.ties import Array
from dfstrans.errors import DfstransError

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
