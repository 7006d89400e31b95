"""Rankings of sensors, segments and cells against known causes, each metric with its chance level and interval."""

from dfstrans.diagnosis.metrics.curves import auprc, auroc
from dfstrans.diagnosis.metrics.evaluation import Ranking, Results, evaluate_rankings
from dfstrans.diagnosis.metrics.gains import ndcg
from dfstrans.diagnosis.metrics.hits import ac_at_k, avg_at_k, hit_rate, rc_top_k, reciprocal_rank
from dfstrans.diagnosis.metrics.known import KnownCause, known_causes
from dfstrans.diagnosis.metrics.overlap import time_overlap
from dfstrans.diagnosis.metrics.results import LeftOut, MetricResult, measure

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
