"""Detection metrics, and a test of whether they are better than guessing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int8]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Detection metrics on labelled episodes.

    A metric is None if it is undefined: recall, F1 and PR-AUC without anomalous episodes, ROC-AUC and the false-alarm
    rate without normal ones, the Brier score without any.
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
        """Return the metrics as plain values for JSON."""
        return dataclasses.asdict(self)


def evaluate_probabilities(
    labels: Labels, probabilities: Scores, threshold: float, own: Scores | None = None
) -> Evaluation:
    """Compare anomaly probabilities with labels; an episode counts as anomalous from the threshold on.

    `own` are the thresholds of the episodes, if some machines have another one.
    """
    called = probabilities >= (threshold if own is None else own)
    from sklearn.metrics import roc_auc_score  # slow to import, and not needed to name figures

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
    """Return the area under the precision-recall curve: the sum of precision times step in recall."""
    from sklearn.metrics import average_precision_score  # slow to import, and not needed to name figures

    return min(float(average_precision_score(labels, scores)), 1.0)  # rounding errors can exceed 1


def best_f1(labels: Labels, scores: Scores) -> tuple[float, float]:
    """Return the highest F1 of any threshold, and that threshold, midway between two scores.

    Without anomalous episodes, return 0 and the highest score.
    """
    if not labels.any():
        return 0.0, float(scores.max())
    ascending = np.argsort(scores)
    values, found = scores[ascending], labels[ascending].cumsum(dtype=np.int64)
    called = np.arange(len(values), 0, -1)
    f1 = 2 * (found[-1] - found + labels[ascending]) / (called + found[-1])  # with each value as the threshold
    f1[1:][values[1:] == values[:-1]] = 0.0  # a threshold cannot separate equal scores
    best = int(f1.argmax())
    middle = values[best]
    if best:  # above the next lower score, even if no float lies between the two
        middle = max((values[best] + values[best - 1]) / 2, np.nextafter(values[best - 1], np.inf))
    return float(f1[best]), float(middle)


LEVEL = 0.05  # significance level of the rank-sum test
HARDLY = 0.7  # share of the loss of guessing; a network that ends above it has learned little
HELD_OUT = ("validation", "test")  # parts that the weights were not fitted to


class ChanceCheck(NamedTuple):
    """Whether a detector is better than guessing on its held-out episodes; None if there are too few to tell."""

    better_than_guessing: bool | None
    note: str
    why: str = ""

    @property
    def sentence(self) -> str:
        """The note with its reason in brackets."""
        return f"{self.note} ({self.why})" if self.why else self.note


def check_against_chance(metrics: Mapping[str, Mapping[str, Any]]) -> ChanceCheck:
    """Test the metrics of the validation and the test part with a rank-sum test at 5 % each.

    A part too small to pass even with a perfect ranking is ignored. All others must pass: the validation part alone may
    be optimistic, since it also selected the epoch.
    """
    tried = {part: figures for part in HELD_OUT if _can_tell(figures := metrics.get(part, {}))}
    if not tried:
        return ChanceCheck(
            None, "too few validation and test episodes to tell whether this detector is better than guessing"
        )
    chances = {part: rank_sum_chance(figures["roc_auc"], *_counts(figures)) for part, figures in tried.items()}
    shown = [f"{part}: ROC-AUC {tried[part]['roc_auc']:.2f}, {_p_value(p)}" for part, p in chances.items()]
    why = "; ".join(["rank-sum test", *shown])
    failed = [part for part, p in chances.items() if p > LEVEL]
    if not failed:
        return ChanceCheck(True, "this detector is better than guessing", why)
    parts = " and ".join(failed) + (" parts" if len(failed) > 1 else " part")
    note = f"this detector is not shown to be better than guessing on its {parts}"
    return ChanceCheck(False, f"{note}; try it on more labelled episodes before you act on it", why)


def _p_value(p: float) -> str:
    """Write a p-value in words that need no scientific notation.

    >>> _p_value(0.0123), _p_value(5.5e-8)
    ('p = 0.012', 'p < 0.001')
    """
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def learned_little(loss_beside_guessing: float | None) -> bool:
    """Return whether a training loss, as a share of the loss of guessing, shows that a network has learned little."""
    return loss_beside_guessing is not None and loss_beside_guessing > HARDLY


def rank_sum_chance(roc_auc: float, anomalous: int, normal: int) -> float:
    """Return the probability that guessing reaches this ROC-AUC: one-sided rank-sum test, normal approximation.

    U = AUC · n₁ · n₀ has the mean n₁ n₀ / 2 and the variance n₁ n₀ (n₁ + n₀ + 1) / 12; the continuity correction is
    half a step. Ties reduce the true variance, so with many ties the test is conservative.

    >>> round(rank_sum_chance(0.5, 10, 30), 2), round(rank_sum_chance(0.9, 10, 30), 5)
    (0.51, 9e-05)
    """
    pairs = anomalous * normal
    above = (roc_auc - 0.5) * pairs - 0.5
    deviation = math.sqrt(pairs * (anomalous + normal + 1) / 12)
    return 0.5 * math.erfc(above / deviation / math.sqrt(2))


def enough_to_tell(anomalous: int, normal: int) -> bool:
    """Return whether this many episodes can pass the test with a perfect ranking.

    >>> enough_to_tell(1, 10), enough_to_tell(3, 10), enough_to_tell(20, 0)
    (False, True, False)
    """
    return min(anomalous, normal) > 0 and rank_sum_chance(1.0, anomalous, normal) <= LEVEL


def _can_tell(figures: Mapping[str, Any]) -> bool:
    return figures.get("roc_auc") is not None and enough_to_tell(*_counts(figures))


def _counts(figures: Mapping[str, Any]) -> tuple[int, int]:
    return figures["anomalous"], figures["episodes"] - figures["anomalous"]
