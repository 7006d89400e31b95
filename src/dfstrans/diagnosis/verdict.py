"""How far a diagnosis can be trusted: what its attention is worth to the decision, in one word and one sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.trust import DRAWS, attention_trust_score

Support = Literal["supported", "weak", "not supported"]
PERCENTAGE = 5.0  # of the weights that are taken away
MATERIAL = 0.25  # fall of the logit from which on it matters: the odds fall by a fifth
CERTAIN, LIKELY = 0.95, 0.75  # share of random draws that the top weights must beat


@dataclass(frozen=True)
class Verdict:
    """Whether the decision rests on what the attention points to.

    `fall` is how far the logit falls without the top `percentage` of the attention weights, `random_fall` the mean
    over as many random ones, `percentile` the share of those draws that fall less.
    """

    support: Support
    reason: str
    percentage: float
    fall: float
    random_fall: float
    percentile: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def judge(
    detector: Detector,
    episode: Any,
    is_anomaly: bool,
    *,
    percentage: float = PERCENTAGE,
    draws: int = DRAWS,
    seed: int = 0,
) -> Verdict:
    """The verdict on one episode's attention."""
    trust = attention_trust_score(detector, episode, [percentage], draws=draws, seed=seed)
    fall, random_fall, percentile = float(trust.top[0, 0]), float(trust.random.mean()), float(trust.percentile()[0, 0])
    support, reason = weigh(is_anomaly, fall, percentile, percentage, draws)
    return Verdict(support, reason, percentage, fall, random_fall, percentile)


def weigh(is_anomaly: bool, fall: float, percentile: float, percentage: float, draws: int) -> tuple[Support, str]:
    """The word and the sentence for a fall of the logit and its place among random draws."""
    moves = f"falls by {fall:.2f}" if fall >= 0 else f"rises by {-fall:.2f}"
    than = f"more than in {'all' if percentile == 1 else f'{percentile:.0%} of'} {draws} random draws"
    what = f"without the top {percentage:g} % of the attention weights the logit {moves}"
    if not is_anomaly:
        return "not supported", "the episode is not called anomalous, so there is nothing for attention to explain"
    if fall >= MATERIAL and percentile >= CERTAIN:
        return "supported", f"{what}, {than}"
    if fall >= MATERIAL and percentile >= LIKELY:
        return "weak", f"{what}, but only {than}"
    if fall < 0:
        return "not supported", f"{what}: the decision does not rest on what attention points to"
    return "not supported", f"{what}, {than}: the decision does not rest on what attention points to"
