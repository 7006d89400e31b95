"""Tests whether the decision depends on the attention, by the drop in the logit without the largest weights.

AT_k is the drop in the logit when the top k % of the attention weights, along time and along sensors, are set to zero
without rescaling the others. Removing random weights, or the smallest ones, serves as a control.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.ranking import MATERIAL_DROP
from dfstrans.diagnosis.schema import Support, TrustVerdict
from dfstrans.diagnosis.scores import AttentionTrust
from dfstrans.errors import DfstransError
from dfstrans.model.network import AttentionPair

Which = Literal["top", "bottom", "random"]
PERCENTAGES = (1.0, 2.0, 5.0, 10.0, 20.0)
RANDOM_DRAWS = 20
VERDICT_PERCENTAGE = 5.0  # of the weights are removed for a verdict
CERTAIN, LIKELY = 0.95, 0.75  # share of random draws that the top weights must beat
WEIGHTS_AT_ONCE = 1 << 22


def attention_trust_score(
    detector: Detector,
    episodes: Any,
    percentages: float | Sequence[float] = PERCENTAGES,
    *,
    draws: int = RANDOM_DRAWS,
    seed: int = 0,
) -> AttentionTrust:
    """Return AT_k of each episode for one or several k, with random and bottom controls.

    AT_k = logit − logit without the top k % of the weights of an episode's whole temporal and whole spatial tensor
    (the paper does not say whether the k % are of a tensor, a matrix or a row).
    The random draws of an episode depend only on the seed and its row among `episodes`.
    """
    ks: list[float] = np.atleast_1d(np.asarray(percentages, dtype=np.float64)).tolist()
    check_request(ks, draws)
    falls = []
    for row, (x, attention, logit) in enumerate(_embedded(detector, detector.check_input(episodes))):
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, row)).generate_state(1)[0]))
        falls.append([_logit_drops(detector, x, attention, logit, k, draws, generator) for k in ks])
    if not falls:
        raise DfstransError("expected at least one episode to test the attention on, got none; pass some")
    found = np.array(falls, dtype=np.float64)  # (episode, k, 2 + draws)
    return AttentionTrust(np.array(ks), found[..., 0], found[..., 1], found[..., 2:])


def check_request(percentages: Sequence[float], draws: int) -> None:
    """Reject percentages outside (0, 100), and fewer than one random draw."""
    wrong = [k for k in percentages if not 0 < k < 100]
    if not len(percentages) or wrong:
        got = ", ".join(f"{k:g}" for k in wrong) or "none"
        raise DfstransError(f"expected percentages between 0 and 100, such as 5, got {got}; correct them")
    if draws < 1:
        raise DfstransError(f"expected at least 1 random draw, got {draws}; 20 or more make a fair comparison")


def _embedded(detector: Detector, episodes: Any) -> Iterator[tuple[Tensor, AttentionPair, float]]:
    """Yield the embedding (1, t, s, d), attention and logit of each episode, without padded segments."""
    for segments, valid, _, baseline in detector.batches(episodes):
        with torch.inference_mode():
            x = detector.network_.embed(segments, valid, baseline)
            forward = detector.network_.attend(x, valid, return_attention=True)
        assert forward.attention is not None  # requested above
        for row, logit in enumerate(forward.logit.double().tolist()):
            n = int(valid[row].sum())
            temporal, spatial = (weights[row : row + 1] for weights in forward.attention)
            yield x[row : row + 1, :n], AttentionPair(temporal[..., :n, :n], spatial[:, :, :n]), logit


def _logit_drops(
    detector: Detector,
    x: Tensor,
    attention: AttentionPair,
    logit: float,
    percentage: float,
    draws: int,
    generator: torch.Generator,
) -> list[float]:
    """Return the drop in the logit without the top weights, without the bottom ones, and for each random draw."""
    kinds: list[Which] = ["top", "bottom"]
    kinds += ["random"] * draws
    masks = [AttentionPair(*(keep_mask(w, percentage, kind, generator) for w in attention)) for kind in kinds]
    at_once = max(1, WEIGHTS_AT_ONCE // sum(weights.numel() for weights in attention))
    falls: list[float] = []
    for start in range(0, len(masks), at_once):
        group = masks[start : start + at_once]
        keep = AttentionPair(*(torch.cat(same) for same in zip(*group, strict=True)))
        with torch.inference_mode():
            repeated = x.expand(len(group), *x.shape[1:])
            falls += (logit - detector.network_.attend(repeated, keep=keep).logit.double()).tolist()
    return falls


def keep_mask(weights: Tensor, percentage: float, which: Which, generator: torch.Generator) -> Tensor:
    """Return a mask with 0 for the k % of the weights to remove, at least one, and 1 for the others.

    Shape:
        (1, layer, sequence, head, query, key) → same
    """
    rows = weights.flatten(1)
    if which == "random":
        rows = torch.rand(rows.shape, generator=generator)
    count = max(1, round(rows.shape[-1] * percentage / 100))
    removed = rows.topk(count, dim=-1, largest=which != "bottom", sorted=False).indices
    return torch.ones_like(rows).scatter_(-1, removed, 0.0).view(weights.shape)


# ---- the verdict on one episode -------------------------------------------------------------------------------------


def judge(detector: Detector, episode: Any, is_anomaly: bool) -> TrustVerdict:
    """Judge the attention of one episode."""
    trust = attention_trust_score(detector, episode, VERDICT_PERCENTAGE)
    drop, random_drop, percentile = float(trust.top[0, 0]), float(trust.random.mean()), float(trust.percentile()[0, 0])
    support, reason = weigh(is_anomaly, drop, percentile)
    return TrustVerdict(support, reason, VERDICT_PERCENTAGE, drop, random_drop, percentile)


def weigh(is_anomaly: bool, drop: float, percentile: float) -> tuple[Support, str]:
    """Return the verdict on a drop in the logit and its percentile among random draws, with the reason."""
    if not is_anomaly:
        return "not supported", "the episode is not anomalous, so there is nothing for attention to explain"
    without = f"without the top {VERDICT_PERCENTAGE:g} % of the attention weights, the logit"
    so = "the decision does not depend on what attention points to"
    if drop < MATERIAL_DROP:
        change = f"rises by {-drop:.2f}" if drop <= -MATERIAL_DROP else f"hardly changes (by {abs(drop):.2f})"
        return "not supported", f"{without} {change}: {so}"
    drops = f"{without} drops by {drop:.2f}"
    if percentile == 1:
        return "supported", f"{drops}, more than in all {RANDOM_DRAWS} random draws"
    share = f"more than in {100 * percentile:.0f} % of {RANDOM_DRAWS} random draws"
    if percentile >= CERTAIN:
        return "supported", f"{drops}, {share}"
    support: Support = "weak" if percentile >= LIKELY else "not supported"
    return support, f"{drops}, but only {share}" + ("" if support == "weak" else f": {so}")
