"""Pairs of episodes mixed in training ("mixup")."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Mixing(NamedTuple):
    """Each episode of a batch takes the same share of another one, in its values, or their embedding, and its label."""

    share: Tensor  # (), of the other
    other: Tensor  # (b,), its row

    @classmethod
    def draw(cls, n_episodes: int, strength: float) -> Mixing:
        """Random pairs, and a share from the lower half of Beta(strength, strength)."""
        share = torch.distributions.Beta(strength, strength).sample()
        return cls(torch.minimum(share, 1 - share), torch.randperm(n_episodes))

    def of_labels(self, labels: Tensor) -> Tensor:
        """(b,) → (b,)."""
        return torch.lerp(labels, labels[self.other], self.share)

    def of_segments(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Segments, or what was made of them: (b, t, …) → same. Where the other has ended, the first stays as it is."""
        mixed = torch.lerp(x, x[self.other], self.share.to(x.dtype))
        if valid is None:
            return mixed
        return torch.where(valid[self.other].view(*valid.shape, *(1,) * (x.dim() - 2)), mixed, x)
