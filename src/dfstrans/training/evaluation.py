"""Figures of detection quality."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

Labels = npt.NDArray[np.int8]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """How well episodes of known label were told apart.

    A figure is None where the episodes do not define it: no recall, F1 and PR-AUC without anomalous episodes, no
    ROC-AUC and no false-alarm rate without normal ones, no Brier score without any.
    """

    episodes: int
    anomalous: int
    threshold: float
    precision: float
    recall: float | None
    f1: float | None
    pr_auc: float | None
    roc_auc: float | None
    false_alarms_per_100_normal: float | None
    brier: float | None
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def evaluate_probabilities(labels: Labels, probabilities: Scores, threshold: float) -> Evaluation:
    """Compare anomaly probabilities with the truth; an episode is called anomalous from the threshold on."""
    called = probabilities >= threshold
    truth = labels == 1
    tp, fp = int((called & truth).sum()), int((called & ~truth).sum())
    fn, tn = int((~called & truth).sum()), int((~called & ~truth).sum())
    both = truth.any() and (~truth).any()
    return Evaluation(
        episodes=len(labels),
        anomalous=int(truth.sum()),
        threshold=float(threshold),
        precision=tp / (tp + fp) if tp + fp else 0.0,
        recall=tp / (tp + fn) if tp + fn else None,
        f1=2 * tp / (2 * tp + fp + fn) if tp + fn else None,
        pr_auc=average_precision(labels, probabilities) if truth.any() else None,
        roc_auc=float(roc_auc_score(labels, probabilities)) if both else None,
        false_alarms_per_100_normal=100 * fp / (fp + tn) if fp + tn else None,
        brier=float(np.mean((probabilities - labels) ** 2)) if len(labels) else None,
        true_positives=tp,
        false_positives=fp,
        false_negatives=fn,
        true_negatives=tn,
    )


def average_precision(labels: Labels, scores: Scores) -> float:
    """Area under the precision-recall curve, as the sum of precision times step in recall."""
    return min(float(average_precision_score(labels, scores)), 1.0)  # not the rounding error above it


def best_f1(labels: Labels, scores: Scores) -> tuple[float, float]:
    """The highest F1 that a threshold on the scores can give, and the middle of the gap in which that threshold lies.

    Without anomalous episodes: 0 and the highest score.
    """
    if not labels.any():
        return 0.0, float(scores.max())
    ascending = np.argsort(scores)
    values, found = scores[ascending], labels[ascending].cumsum(dtype=np.int64)
    called = np.arange(len(values), 0, -1)
    f1 = 2 * (found[-1] - found + labels[ascending]) / (called + found[-1])  # when called from each value on
    f1[1:][values[1:] == values[:-1]] = 0.0  # equals are called together
    best = int(f1.argmax())
    middle = values[best]
    if best:  # above the next lower score even where no number lies between the two
        middle = max((values[best] + values[best - 1]) / 2, np.nextafter(values[best - 1], np.inf))
    return float(f1[best]), float(middle)
