"""Metrics of rankings of sensors, segments and cells against known causes, with chance levels and intervals."""

from dfstrans.diagnosis.metrics.evaluation import MetricResult, Ranking, evaluate_rankings, measure
from dfstrans.diagnosis.metrics.known_causes import KnownCause, known_causes
from dfstrans.diagnosis.metrics.rankings import rc_top_k
from dfstrans.diagnosis.metrics.z_scores import NormalCells

__all__ = [
    "KnownCause",
    "MetricResult",
    "NormalCells",
    "Ranking",
    "evaluate_rankings",
    "known_causes",
    "measure",
    "rc_top_k",
]
