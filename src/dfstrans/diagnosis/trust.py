"""Does the attention deserve trust? What the logit loses when the largest weights are taken away, beside controls.

AT_k is the fall of the logit when the top k % of the attention weights, along time and along sensors, are set to zero
without making the others larger. Taking away random or the smallest weights shows what such a fall is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.errors import DfstransError
from dfstrans.model.network import AttentionPair

Scope = Literal["tensor", "matrix", "row"]
Which = Literal["top", "bottom", "random"]
PERCENTAGES = (1.0, 2.0, 5.0, 10.0, 20.0)
DRAWS = 20


@dataclass(frozen=True)
class AttentionTrust:
    """How far the logit falls when k % of the attention weights are set to zero.

    Shape:
        percentages (k,); top and bottom (episode, k); random (episode, k, draw)
    """

    percentages: npt.NDArray[np.float64]
    top: npt.NDArray[np.float64]
    bottom: npt.NDArray[np.float64]
    random: npt.NDArray[np.float64]

    def mean(self) -> dict[str, list[float]]:
        """AT_k [eq. of "Evaluation of attention"] and its two controls, over all episodes."""
        return {
            "k": self.percentages.tolist(),
            "top": self.top.mean(axis=0).tolist(),
            "random": self.random.mean(axis=(0, 2)).tolist(),
            "bottom": self.bottom.mean(axis=0).tolist(),
        }

    def percentile(self) -> npt.NDArray[np.float64]:
        """The share of random draws that fall less than the top weights do, equal ones counted half: (episode, k)."""
        top = self.top[..., None]
        return np.asarray((self.random < top).mean(axis=-1) + 0.5 * (self.random == top).mean(axis=-1))


def attention_trust_score(
    detector: Detector,
    episodes: Any,
    percentages: float | Sequence[float] = PERCENTAGES,
    *,
    draws: int = DRAWS,
    scope: Scope = "tensor",
    seed: int = 0,
) -> AttentionTrust:
    """AT_k of each episode for each k (or for one), with random and bottom controls.

    AT_k = logit − logit without the top k % of the attention weights; `AttentionTrust.mean` is its mean over episodes.

    `scope` is what the top k % are taken of: an episode's whole temporal and whole spatial tensor, or each sensor's
    (each segment's) matrix, or each of its rows. An episode's draws depend on seed and its row among `episodes` alone.
    """
    ks: list[float] = np.atleast_1d(np.asarray(percentages, dtype=np.float64)).tolist()
    _check(ks, draws, scope)
    parts = []
    row = 0
    for x, valid, attention, logit in _embedded(detector, episodes):
        for one in range(len(logit)):
            there = int(valid[one].sum())
            episode = _Episode(
                detector, x[one : one + 1, :there], _only(attention, one, there), float(logit[one]), scope
            )
            generator = torch.Generator().manual_seed(_seed(seed, row))
            parts.append([episode.falls(k, draws, generator) for k in ks])
            row += 1
    if not parts:
        raise DfstransError("expected at least one episode whose attention is tried, got none; give some")
    falls = np.array(parts, dtype=np.float64).reshape(len(parts), len(ks), draws + 2)
    return AttentionTrust(np.array(ks), falls[..., 0], falls[..., 1], falls[..., 2:])


@dataclass(frozen=True)
class _Episode:
    """One episode's embedding and attention, with which masks are tried."""

    detector: Detector
    x: Tensor  # (1, t, s, d), real segments only
    attention: AttentionPair
    logit: float
    scope: Scope

    def falls(self, percentage: float, draws: int, generator: torch.Generator) -> list[float]:
        """The fall without the top weights, without the bottom ones, and without as many random ones, draw by draw."""
        draw: Which = "random"
        kinds: list[Which] = ["top", "bottom", *[draw] * draws]
        masks = [
            AttentionPair(*(keep_mask(w, percentage, kind, self.scope, generator) for w in self.attention))
            for kind in kinds
        ]
        falls: list[float] = []
        for group in _groups(masks, self._at_once()):
            keep = AttentionPair(*(torch.cat(same) for same in zip(*group, strict=True)))
            with torch.inference_mode():
                repeated = self.x.expand(len(group), *self.x.shape[1:])
                falls += (self.logit - self.detector.network_.attend(repeated, keep=keep).logit.double()).tolist()
        return falls

    def _at_once(self) -> int:
        return max(1, (1 << 22) // sum(weights.numel() for weights in self.attention))


def keep_mask(weights: Tensor, percentage: float, which: Which, scope: Scope, generator: torch.Generator) -> Tensor:
    """1 where a weight stays and 0 where it is one of the k % taken away; at least one is.

    Shape:
        (1, layer, sequence, head, query, key) → same
    """
    together = {"tensor": 1, "matrix": 3, "row": 5}[scope]
    rows = weights.flatten(together)
    if which == "random":
        rows = torch.rand(rows.shape, generator=generator)
    count = max(1, round(rows.shape[-1] * percentage / 100))
    gone = rows.topk(count, dim=-1, largest=which != "bottom", sorted=False).indices
    return torch.ones_like(rows).scatter_(-1, gone, 0.0).view(weights.shape)


def _embedded(detector: Detector, episodes: Any) -> Iterator[tuple[Tensor, Tensor, AttentionPair, Tensor]]:
    """Batch by batch: embedding, which segments are real, attention and logit."""
    for segments, valid, _ in detector.batches(episodes):
        with torch.inference_mode():
            x = detector.network_.embed(segments, valid)
            forward = detector.network_.attend(x, valid, return_attention=True)
        assert forward.attention is not None  # it was asked for
        yield x, valid, forward.attention, forward.logit.double()


def _only(attention: AttentionPair, row: int, there: int) -> AttentionPair:
    """One episode's attention, without its padded segments."""
    temporal, spatial = (weights[row : row + 1] for weights in attention)
    return AttentionPair(temporal[..., :there, :there], spatial[:, :, :there])


def _groups(masks: list[AttentionPair], size: int) -> Iterator[list[AttentionPair]]:
    for start in range(0, len(masks), size):
        yield masks[start : start + size]


def _seed(seed: int, row: int) -> int:
    return int(np.random.SeedSequence((seed, row)).generate_state(1)[0])


def _check(percentages: Sequence[float], draws: int, scope: str) -> None:
    wrong = [k for k in percentages if not 0 < k < 100]
    if not len(percentages) or wrong:
        raise DfstransError(
            f"expected percentages between 0 and 100, such as 5, got {', '.join(f'{k:g}' for k in wrong) or 'none'}; "
            "correct them"
        )
    if draws < 1:
        raise DfstransError(f"expected at least 1 random draw, got {draws}; 20 or more make a fair comparison")
    if scope not in get_args(Scope):
        raise DfstransError(f"expected a scope of {', '.join(get_args(Scope))}, got {scope!r}; use one of them")


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
