"""Calibration of probabilities and choice of the threshold, both on the validation part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.metrics import f1_score

from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.settings import DecisionSettings, Settings, ThresholdRule
from dfstrans.training.evaluation import Labels, Scores, best_f1

DRAWS = 200  # bootstrap samples for averaging the best threshold


class Calibration(Settings):
    """probability = σ((logit − shift) / temperature).

    The shift is the logarithm of the factor by which training raised the odds of an anomaly (class weight times
    undersampling of normal episodes) and undoes it exactly. The temperature is fitted on the validation part.
    """

    temperature: float = Field(default=1.0, gt=0)
    shift: float = 0.0
    note: str = "not calibrated"

    def scale(self, logits: npt.NDArray[Any]) -> Scores:
        """Return the logit of the calibrated probability."""
        scaled: Scores = (np.asarray(logits, dtype=np.float64) - self.shift) / self.temperature
        return scaled

    def probabilities(self, logits: npt.NDArray[Any]) -> Scores:
        """Return the anomaly probability of each logit."""
        found: Scores = expit(self.scale(logits))
        return found


class Threshold(Settings):
    """The lowest probability at which an episode counts as anomalous, and how it was chosen."""

    value: float = 0.5
    rule: ThresholdRule = "fixed"
    note: str = ""


def positive_weight(labels: Labels, settings: DecisionSettings, thinning: float = 1.0) -> float:
    """Return the weight of an anomalous episode in the loss, which balances the classes and is at most 20.

    `thinning` is the ratio of all normal episodes to those that an epoch draws.
    """
    if settings.imbalance == "none":
        return 1.0
    n_anomalous = int(labels.sum())
    return float(min(max((len(labels) - n_anomalous) / thinning / n_anomalous, 1.0), 20.0))


def guessing_loss(labels: Labels, weight: float) -> float:
    """Return the lowest loss of a constant probability; `weight` is the weight of an anomalous episode.

    >>> round(guessing_loss(np.array([0, 1], dtype=np.int8), 1.0), 3)
    0.693
    """
    share = float(labels.mean())
    anomalous = share * weight / (share * weight + 1 - share)  # share of the total weight
    return -share * weight * math.log(anomalous) - (1 - share) * math.log(1 - anomalous)


def calibrate(labels: Labels, logits: Scores, odds: float) -> Calibration:
    """Fit the temperature by maximum likelihood on the validation part; 1 if that part is too small.

    `odds` is the factor by which training raised the odds of an anomaly.
    """
    shift = math.log(odds)
    lowered = f"logits lowered by {shift:.3g}, since training raised the odds of an anomaly by a factor of {odds:.3g}; "
    shifted = lowered if shift else ""
    n_anomalous, n_normal = int(labels.sum()), int(len(labels) - labels.sum())
    if min(n_anomalous, n_normal) < MIN_PER_CLASS:
        note = (
            f"{shifted}no temperature fitted: the validation part has {n_anomalous} anomalous and {n_normal} normal "
            f"episodes, at least {MIN_PER_CLASS} of each are needed"
        )
        return Calibration(shift=shift, note=note)

    targets, faultless = labels.astype(np.float64), bool(logits[labels == 1].min() > logits[labels == 0].max())
    highest = 10.0
    if faultless:  # without errors, the likelihood is best at a temperature of 0; Platt's targets allow for some errors
        highest = max(highest, float(np.abs(logits - shift).max()))
        targets = np.where(labels == 1, (n_anomalous + 1) / (n_anomalous + 2), 1 / (n_normal + 2))

    def negative_log_likelihood(log_temperature: float) -> float:
        scaled = (logits - shift) / math.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, scaled) - targets * scaled))

    found = minimize_scalar(negative_log_likelihood, bounds=(math.log(0.25), math.log(highest)), method="bounded")
    note = f"{shifted}temperature fitted on {len(labels)} validation episodes ({n_anomalous} anomalous)"
    if faultless:
        note += " with Platt's targets, which allow for unseen errors, because these episodes are separated perfectly"
    else:
        note += f": negative log-likelihood {negative_log_likelihood(0.0):.4f} before, {found.fun:.4f} after"
    return Calibration(temperature=math.exp(found.x), shift=shift, note=note)


def choose_threshold(labels: Labels, probabilities: Scores, settings: DecisionSettings) -> Threshold:
    """Choose the decision threshold on the validation part by the rule of the settings.

    `f1`: the threshold of the highest F1 expected from calibrated probabilities, unless the labels contradict it.
    `false-alarm-rate`: the lowest threshold at which at most that share of normal episodes counts as anomalous.
    `fixed`: the given value. With too few validation episodes for the rule, the threshold is 0.5 and the note says so.
    """
    rule = settings.threshold_rule
    n_anomalous, n_normal = int(labels.sum()), int(len(labels) - labels.sum())
    if rule == "fixed":
        assert settings.threshold_value is not None  # checked by the settings
        return Threshold(value=settings.threshold_value, rule=rule, note="given")
    if too_few(rule, n_anomalous, n_normal):
        return _fallback(rule, n_anomalous, n_normal)
    if rule == "f1":
        value = f1_threshold(labels, probabilities)
        f1 = f1_score(labels, probabilities >= value)
        return Threshold(value=value, rule=rule, note=f"F1 {f1:.3f} on {len(labels)} validation episodes")
    assert settings.threshold_value is not None  # checked by the settings
    return false_alarm_threshold(probabilities[labels == 0], settings.threshold_value)


def too_few(rule: ThresholdRule, n_anomalous: int, n_normal: int) -> list[str]:
    """Return the classes with too few validation episodes for a rule.

    >>> too_few("f1", 2, 9), too_few("false-alarm-rate", 2, 9)
    (['anomalous'], [])
    """
    looked_at = {
        "f1": {"anomalous": n_anomalous, "normal": n_normal},
        "false-alarm-rate": {"normal": n_normal},
        "fixed": {},
    }
    return [name for name, episodes in looked_at[rule].items() if episodes < MIN_PER_CLASS]


def f1_threshold(labels: Labels, probabilities: Scores) -> float:
    """Return the threshold of the highest expected F1, unless the labels contradict it by more than a standard error.

    They do if probabilities are wrong even after calibration, for example those of a network that has hardly learned.
    In that case, return the bootstrapped best threshold for the labels.
    """
    expected, steady = expected_f1_threshold(probabilities), steady_f1_threshold(labels, probabilities)
    reached, possible = (f1_score(labels, probabilities >= value) for value in (expected, steady))
    error = math.sqrt(possible * (1 - possible) / labels.sum())
    return expected if reached >= possible - error else steady


def steady_f1_threshold(labels: Labels, probabilities: Scores) -> float:
    """Return the threshold of the highest F1, averaged over bootstrap samples within each class.

    The single best threshold depends on the few episodes next to it; averaging reduces their influence.
    """
    rng = np.random.default_rng(0)
    classes = [np.flatnonzero(labels == label) for label in (0, 1)]

    def draw() -> npt.NDArray[np.intp]:
        return np.concatenate([rng.choice(members, len(members)) for members in classes])

    draws = (draw() for _ in range(DRAWS))
    found = np.array([best_f1(labels[drawn], probabilities[drawn])[1] for drawn in draws])
    return float(np.clip(found.mean(), found.min(), found.max()))  # rounding may move the mean of equal values


def expected_f1_threshold(probabilities: Scores) -> float:
    """Return half of the highest F1 that can be expected if the probabilities are correct.

    Calling one more episode anomalous raises the expected F1 = 2 Σp / (n called + n anomalous) as long as its p exceeds
    half of that F1. This threshold does not depend on the labels and their chance variation.

    >>> expected_f1_threshold(np.array([0.2, 0.2, 0.2, 0.8, 0.8, 0.8]))  # the last three: 2 · 2.4 / (3 + 3)
    0.4
    """
    descending = np.sort(probabilities)[::-1]
    called = np.arange(1, len(descending) + 1)
    expected = 2 * np.cumsum(descending) / (called + descending.sum())
    return float(expected.max() / 2)


def false_alarm_threshold(normal: Scores, rate: float) -> Threshold:
    """Return the lowest threshold at which at most this share of normal episodes counts as anomalous."""
    allowed = math.floor(rate * len(normal) + 1e-9)
    descending = np.sort(normal)[::-1]
    if allowed >= len(descending):
        value = 0.0
    else:
        first_refused = float(descending[allowed])  # must be below the threshold
        above = descending[:allowed][descending[:allowed] > first_refused]
        value = (first_refused + (float(above.min()) if len(above) else 1.0)) / 2
        value = max(value, math.nextafter(first_refused, 2.0))
    share = float(np.mean(normal >= value))
    note = f"false-alarm rate of at most {rate:g}; {share:.4f} on {len(normal)} normal validation episodes"
    if rate > 0 and allowed == 0:
        note += f"; measuring that rate takes at least {1 / rate:.0f} of them, so no false alarm is allowed"
    return Threshold(value=value, rule="false-alarm-rate", note=note)


def _fallback(rule: ThresholdRule, n_anomalous: int, n_normal: int) -> Threshold:
    note = (
        f"0.5, because the rule {rule} needs at least {MIN_PER_CLASS} validation episodes of each class it "
        f"uses, and there are {n_anomalous} anomalous and {n_normal} normal ones"
    )
    return Threshold(value=0.5, rule=rule, note=note)
