"""From the segments of an episode to what the classifier sees of it.

The mean over segments is the paper's. It hides what a single segment shows: one spike among ten segments is a tenth of
itself. The deviation beside it tells how far segments differ from one another.
"""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor

from dfstrans.settings import Pooling

LEAST_VARIANCE = 1e-4  # added, so that the root has a slope where all segments are alike


def pooled_width(channels: int, pooling: Pooling) -> int:
    """How many numbers of an episode the classifier sees."""
    return channels if pooling == "mean" else 2 * channels


def pool(x: Tensor, share: Tensor | None, pooling: Pooling) -> Tensor:
    """The mean over segments, or the mean and then the deviation.

    Shape:
        x (b, t, c), share (b, t): of each segment in the mean, 0 for padded ones; None: even → (b, c) or (b, 2·c)
    """
    mean = _mean(x, share)
    if pooling == "mean":
        return mean
    return torch.cat([mean, _deviation(_mean((x - mean.unsqueeze(1)) ** 2, share))], dim=1)


def added(x: Tensor, weight: Tensor, share: Tensor, pooling: Pooling) -> Tensor:
    """What each sensor at each moment adds to a weighted sum of what is pooled, which is the sum of it all.

    Of a deviation, a segment has the part that its squared distance from the mean has of the variance: an account of
    what is there, not of what would be lost without it.

    Shape:
        x (b, t, s, d), weight (b, pooled), share (b, t) → (b, t, s)
    """
    weights = rearrange(weight, "b (k s d) -> k b s d", s=x.shape[2], d=x.shape[3])  # of the mean, of the deviation
    total = torch.einsum("btsd,bsd->bts", x, weights[0])
    if pooling != "mean":
        squares = (x - torch.einsum("btsd,bt->bsd", x, share).unsqueeze(1)) ** 2
        per_square = weights[1] / _deviation(torch.einsum("btsd,bt->bsd", squares, share))  # (b, s, d)
        total = total + torch.einsum("btsd,bsd->bts", squares, per_square)
        total = total + LEAST_VARIANCE * per_square.sum(dim=-1).unsqueeze(1)
    return total * share.unsqueeze(-1)


def even_share(x: Tensor, valid: Tensor | None) -> Tensor:
    """The share of each segment that is there: (b, t, …), (b, t) → (b, t)."""
    if valid is None:
        return x.new_full(x.shape[:2], 1 / x.shape[1])
    return valid.to(x.dtype) / valid.sum(dim=1, keepdim=True)


def _mean(x: Tensor, share: Tensor | None) -> Tensor:
    return x.mean(dim=1) if share is None else (x * share.unsqueeze(-1)).sum(dim=1)


def _deviation(variance: Tensor) -> Tensor:
    return (variance + LEAST_VARIANCE).sqrt()
