"""Is a detector better than guessing? Told from its own figures, so that models saved long ago can be asked, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

LEVEL = 0.05  # chance that guessing orders the episodes as well; above it a part shows nothing
HELD_OUT = ("validation", "test")  # parts that the weights were not fitted to


class Standing(NamedTuple):
    """Whether a detector told its own held-out episodes apart better than guessing would; None: too few to tell."""

    better_than_guessing: bool | None
    note: str
    why: str = ""

    @property
    def sentence(self) -> str:
        """The note with its reason."""
        return f"{self.note} ({self.why})" if self.why else self.note


def standing(metrics: Mapping[str, Mapping[str, Any]]) -> Standing:
    """What the figures of the validation and the test part say, each tried by the rank-sum test at 5 %.

    A part too small to pass even with a faultless order says nothing. Of the others each has to pass: the validation
    part also chose the epoch, so it alone may flatter.
    """
    tried = {part: figures for part in HELD_OUT if _can_tell(figures := metrics.get(part, {}))}
    if not tried:
        return Standing(
            None, "too few validation and test episodes to tell whether this detector is better than guessing"
        )
    chances = {part: rank_sum_chance(figures["roc_auc"], *_counts(figures)) for part, figures in tried.items()}
    shown = [f"{part}: ROC-AUC {tried[part]['roc_auc']:.2f}, p = {p:.2g}" for part, p in chances.items()]
    why = "; ".join(["rank-sum test", *shown])
    failed = [part for part, p in chances.items() if p > LEVEL]
    if not failed:
        return Standing(True, "this detector is better than guessing", why)
    parts = " and ".join(failed) + (" parts" if len(failed) > 1 else " part")
    note = f"this detector is not shown to be better than guessing on its {parts}"
    return Standing(False, f"{note}; try it on more labelled episodes before you act on it", why)


def rank_sum_chance(roc_auc: float, anomalous: int, normal: int) -> float:
    """The chance that guessing reaches this ROC-AUC: one-sided rank-sum test, by its normal approximation.

    U = AUC · n₁ · n₀ has the mean n₁ n₀ / 2 and the variance n₁ n₀ (n₁ + n₀ + 1) / 12; half a step is the correction
    for continuity. Equal scores make the true variance smaller: with many of them the test is on the strict side.

    >>> round(rank_sum_chance(0.5, 10, 30), 2), round(rank_sum_chance(0.9, 10, 30), 5)
    (0.51, 9e-05)
    """
    pairs = anomalous * normal
    above = (roc_auc - 0.5) * pairs - 0.5
    deviation = math.sqrt(pairs * (anomalous + normal + 1) / 12)
    return 0.5 * math.erfc(above / deviation / math.sqrt(2))


def enough_to_tell(anomalous: int, normal: int) -> bool:
    """Whether so many episodes could pass the test, were they told apart without an error.

    >>> enough_to_tell(1, 10), enough_to_tell(3, 10), enough_to_tell(20, 0)
    (False, True, False)
    """
    return min(anomalous, normal) > 0 and rank_sum_chance(1.0, anomalous, normal) <= LEVEL


def _can_tell(figures: Mapping[str, Any]) -> bool:
    return figures.get("roc_auc") is not None and enough_to_tell(*_counts(figures))


def _counts(figures: Mapping[str, Any]) -> tuple[int, int]:
    return figures["anomalous"], figures["episodes"] - figures["anomalous"]
