"""The one attention mechanism, used along time and along sensors."""

from __future__ import annotations

import math
from typing import NamedTuple

from einops import rearrange
from torch import Tensor, nn


class Attended(NamedTuple):
    """What an attention gives: the mixed values, and the weights they were mixed with.

    Shape:
        context (…, item, d_model); weights (…, head, query, key), rows sum to 1 before a keep-mask is applied
    """

    context: Tensor
    weights: Tensor


class Attention(nn.Module):
    """softmax(Q Kᵀ / √(M/h)) V over the items of a sequence; no output projection, as the paper's counts say.

    The same weights serve every sequence: every sensor where the items are segments, every segment where they are
    sensors.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(d_model / heads)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, *, valid: Tensor | None = None, keep: Tensor | None = None) -> Attended:
        """Mix each item with the others.

        Shape:
            x (a, b, item, d_model); valid (a, item), False where an item is padding that nothing may attend to;
            keep, broadcastable to (a, b, head, query, key), multiplies the weights without renormalising them
        """
        x = x.contiguous()  # one copy here instead of one in each projection
        q, k, v = (
            rearrange(project(x), "a b n (h m) -> a b h n m", h=self.heads)
            for project in (self.query, self.key, self.value)
        )
        logits = (q * self.scale) @ k.transpose(-1, -2)
        if valid is not None:
            logits = logits.masked_fill(~rearrange(valid, "a n -> a 1 1 1 n"), -math.inf)
        weights = logits.softmax(dim=-1).to(v.dtype)
        if keep is not None:
            weights = weights * keep
        return Attended(rearrange(weights @ v, "a b h n m -> a b n (h m)"), weights)
