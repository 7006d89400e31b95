"""Metrics of rankings of sensors, segments and cells against known causes, with chance levels and intervals."""

from dfstrans.diagnosis.metrics.assessment import NormalCells
from dfstrans.diagnosis.metrics.evaluation import (
    KnownCause,
    MetricResult,
    Ranking,
    evaluate_rankings,
    known_causes,
    measure,
)
from dfstrans.diagnosis.metrics.rankings import rc_top_k

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
