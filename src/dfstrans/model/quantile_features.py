"""What a segment's simple statistics say, coded so that narrow ranges can be told apart [ADR 20]."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from dfstrans.model.detector import TrainingPart
from dfstrans.settings import NetworkShape

STATISTICS = 6  # that `statistics` gives
MOST_SEGMENTS = 20_000  # of the training part, that quantiles are taken of
MOST_VALUES = 1 << 24  # statistics that are held for it: of very many sensors, fewer segments
NARROWEST = 1e-4  # step, as a share of a sensor's range: what moves by less is at rest


class QuantileFeatures(nn.Module):
    """How high each statistic of a segment stands among those of the training part, mapped to d_model numbers.

    A statistic is coded by the steps that it has passed: 1 for each that lies below it, 0 for each above, in between
    the share of its own step. Steps end at quantiles of the training part, one set for each sensor and statistic, so
    that a linear map of the code is any piecewise linear function of the statistic, with its bends where values abound.

    Shape:
        (…, sensor, point) → (…, sensor, d_model)
    """

    edges: Tensor  # (sensor, statistic, levels + 1), ascending

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        s, levels = settings.n_sensors, settings.quantile_features
        self.register_buffer("edges", torch.linspace(0, 1, levels + 1).expand(s, STATISTICS, -1).clone())
        bound = (STATISTICS * levels) ** -0.5
        self.weight = nn.Parameter(torch.empty(s, STATISTICS * levels, settings.d_model).uniform_(-bound, bound))

    @torch.no_grad()
    def fit(self, part: TrainingPart) -> None:
        """Take the steps from the quantiles of the training part; of a large one, of segments drawn from all of it.

        A statistic that never changed has nothing to say: its weights, which nothing would teach, become 0.
        """
        s, k, _ = self.edges.shape
        most = min(MOST_SEGMENTS, MOST_VALUES // (s * k))
        found = torch.cat([statistics(segments) for segments in _drawn(part, most)])  # (n, s, k)
        shares = torch.linspace(0, 1, self.edges.shape[-1], dtype=torch.float64)
        quantiles = torch.stack([torch.quantile(one, shares, dim=0) for one in found.unbind(1)])  # (s, q, k)
        self.edges.copy_(quantiles.transpose(1, 2))
        still = self.edges[..., -1] - self.edges[..., 0] < NARROWEST  # (s, k)
        self.weight.view(s, k, -1, self.weight.shape[-1])[still] = 0

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor."""
        low, high = self.edges[..., :-1], self.edges[..., 1:]
        above = (statistics(segments).unsqueeze(-1) - low).to(self.edges.dtype)  # (…, s, k, levels)
        code = (above / (high - low).clamp(min=NARROWEST)).clamp(0, 1).flatten(-2)
        return torch.einsum("...sq,sqd->...sd", code, self.weight)


def statistics(segments: Tensor) -> Tensor:
    """Mean, deviation, lowest, highest, mean and largest step: (…, s, p) → (…, s, 6), in 64 bits.

    A narrow step makes a large difference of a small one: what 32 bits round away must not depend on who adds up.
    """
    segments = segments.double()
    step = segments.diff(dim=-1).abs()
    deviation = segments.std(dim=-1, correction=0)
    return torch.stack(
        [segments.mean(-1), deviation, segments.amin(-1), segments.amax(-1), step.mean(-1), step.amax(-1)], dim=-1
    )


def _drawn(part: TrainingPart, most: int) -> Iterator[Tensor]:
    """About so many segments (n, s, p) of the part at most, drawn at random, the same ones each time."""
    generator = torch.Generator().manual_seed(0)
    every, quota = -(-len(part) // most), max(most // len(part), 1)
    for segments, valid, _ in islice(part, 0, None, every):
        there = segments[valid]
        yield there[torch.randperm(len(there), generator=generator)[:quota]]
