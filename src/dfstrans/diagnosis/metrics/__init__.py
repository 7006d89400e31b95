"""Rankings of sensors, segments and cells against known causes, each metric with its chance level and interval."""

from dfstrans.diagnosis.metrics.evaluation import LeftOut, MetricResult, Ranking, Results, evaluate_rankings, measure
from dfstrans.diagnosis.metrics.known import KnownCause, known_causes
from dfstrans.diagnosis.metrics.rankings import (
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

__all__ = [
    "KnownCause",
    "LeftOut",
    "MetricResult",
    "Ranking",
    "Results",
    "ac_at_k",
    "auprc",
    "auroc",
    "avg_at_k",
    "evaluate_rankings",
    "hit_rate",
    "known_causes",
    "measure",
    "ndcg",
    "rc_top_k",
    "reciprocal_rank",
    "time_overlap",
]
