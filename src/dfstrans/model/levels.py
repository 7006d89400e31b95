"""What a segment's simple statistics say, coded so that narrow ranges can be told apart [ADR 20]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dfstrans.config import NetworkSettings
from dfstrans.model.detector import TrainingPart

STATISTICS = 6  # that `statistics` gives
MOST_SEGMENTS = 20_000  # of the training part, that quantiles are taken of
NARROWEST = 1e-4  # step, as a share of a sensor's range


class SegmentLevels(nn.Module):
    """How high each statistic of a segment stands among those of the training part, mapped to d_model numbers.

    A statistic is coded by the steps that it has passed: 1 for each that lies below it, 0 for each above, in between
    the share of its own step. Steps end at quantiles of the training part, one set for each sensor and statistic, so
    that a linear map of the code is any piecewise linear function of the statistic, with its bends where values abound.

    Shape:
        (…, sensor, point) → (…, sensor, d_model)
    """

    edges: Tensor  # (sensor, statistic, levels + 1), ascending

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        s, levels = settings.n_sensors, settings.levels
        self.register_buffer("edges", torch.linspace(0, 1, levels + 1).expand(s, STATISTICS, -1).clone())
        bound = (STATISTICS * levels) ** -0.5
        self.weight = nn.Parameter(torch.empty(s, STATISTICS * levels, settings.d_model).uniform_(-bound, bound))

    @torch.no_grad()
    def fit(self, part: TrainingPart) -> None:
        """Take the steps from the quantiles of the training part; of a large one, of segments evenly chosen."""
        most = max(MOST_SEGMENTS // len(part), 1)
        found = torch.cat([_some(statistics(segments[valid]), most) for segments, valid, _ in part])  # (n, s, k)
        shares = torch.linspace(0, 1, self.edges.shape[-1], dtype=torch.float64)
        quantiles = torch.stack([torch.quantile(one, shares, dim=0) for one in found.unbind(1)])  # (s, q, k)
        self.edges.copy_(quantiles.transpose(1, 2))

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
    mean = segments.mean(dim=-1, keepdim=True)
    deviation = (segments - mean).square().mean(dim=-1).sqrt()
    return torch.stack(
        [mean.squeeze(-1), deviation, segments.amin(-1), segments.amax(-1), step.mean(-1), step.amax(-1)], dim=-1
    )


def _some(rows: Tensor, most: int) -> Tensor:
    """At most so many rows, evenly chosen."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most).long()]
