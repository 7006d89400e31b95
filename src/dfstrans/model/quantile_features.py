"""Simple statistics of a segment, coded by quantiles so that values in narrow ranges are distinguishable [ADR 20]."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from dfstrans.model.detector import TrainingPart
from dfstrans.settings import NetworkShape

N_STATISTICS = 6  # number returned by `statistics`
MOST_SEGMENTS = 20_000  # of the training part, for computing quantiles
MOST_VALUES = 1 << 24  # statistics in memory; with very many sensors, fewer segments are used
NARROWEST = 1e-4  # minimum step, as a share of a sensor's range; smaller movements count as none


class QuantileFeatures(nn.Module):
    """Maps the rank of each statistic of a segment within the training part to d_model numbers.

    A statistic is coded by the steps below it: 1 for each step below, 0 for each above, and the covered share of its
    own step. Steps end at quantiles of the training part, separately for each sensor and statistic, so a linear map of
    the code is a piecewise linear function of the statistic, with more breakpoints where values are dense.

    Shape:
        (…, sensor, point) → (…, sensor, d_model)
    """

    edges: Tensor  # (sensor, statistic, steps + 1), ascending

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        s, steps = settings.n_sensors, settings.quantile_features
        self.register_buffer("edges", torch.linspace(0, 1, steps + 1).expand(s, N_STATISTICS, -1).clone())
        bound = (N_STATISTICS * steps) ** -0.5
        self.weight = nn.Parameter(torch.empty(s, N_STATISTICS * steps, settings.d_model).uniform_(-bound, bound))

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor."""
        low, high = self.edges[..., :-1], self.edges[..., 1:]
        above = (statistics(segments).unsqueeze(-1) - low).to(self.edges.dtype)  # (…, s, k, steps)
        code = (above / (high - low).clamp(min=NARROWEST)).clamp(0, 1).flatten(-2)  # (…, s, k·steps)
        return torch.einsum("...sq,sqd->...sd", code, self.weight)

    @torch.no_grad()
    def fit(self, part: TrainingPart, most_segments: int = MOST_SEGMENTS) -> None:
        """Set the steps to quantiles of the training part, or of random segments if it is large.

        A statistic that is constant in training carries no information: its weights, otherwise random, become 0.
        """
        s, k, _ = self.edges.shape
        most = min(most_segments, MOST_VALUES // (s * k))
        found = torch.cat([statistics(segments) for segments in _draw(part, most)])  # (n, s, k)
        shares = torch.linspace(0, 1, self.edges.shape[-1], dtype=torch.float64)
        quantiles = torch.stack([torch.quantile(one, shares, dim=0) for one in found.unbind(1)])  # (s, q, k)
        self.edges.copy_(quantiles.transpose(1, 2))
        still = self.edges[..., -1] - self.edges[..., 0] < NARROWEST  # (s, k)
        self.weight.view(s, k, -1, self.weight.shape[-1])[still] = 0


def statistics(segments: Tensor) -> Tensor:
    """Return mean, deviation, minimum, maximum, mean and largest step: (…, s, p) → (…, s, 6), in 64 bits.

    A narrow step magnifies small differences, and rounding in 32 bits would depend on the order of additions.
    """
    segments = segments.double()
    step = segments.diff(dim=-1).abs()
    deviation = segments.std(dim=-1, correction=0)
    return torch.stack(
        [segments.mean(-1), deviation, segments.amin(-1), segments.amax(-1), step.mean(-1), step.amax(-1)], dim=-1
    )


def _draw(part: TrainingPart, most: int) -> Iterator[Tensor]:
    """Yield about `most` segments (n, s, p) of the part, drawn at random but reproducibly."""
    generator = torch.Generator().manual_seed(0)
    every, quota = -(-len(part) // most), max(most // len(part), 1)
    for segments, valid, _ in islice(part, 0, None, every):
        there = segments[valid]
        yield there[torch.randperm(len(there), generator=generator)[:quota]]
