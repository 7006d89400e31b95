"""Simple statistics of a segment, coded by quantiles so that values in narrow ranges are distinguishable.

The scale is that of the fleet, for each sensor [ADR 20], or that of the machine, shared by all sensors [ADR 28].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from dfstrans.model.detector import TrainingPart
from dfstrans.settings import NetworkShape

N_STATISTICS = 6  # number returned by `statistics`
N_OF_RESIDUAL = 2
MOST_SEGMENTS = 20_000  # of the training part, for computing quantiles
MOST_VALUES = 1 << 24  # statistics in memory; with very many sensors, fewer segments are used
LARGEST_DEVIATION = 8.0  # on the scale of arcsinh: about 1 500 spreads
SMALLEST_SPREAD = 1e-3  # of a sensor's range in training
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

    def code(self, found: Tensor) -> Tensor:
        """Code the statistics of each segment of each sensor: (…, s, k) → (…, s, k·steps)."""
        return _code(found, self.edges)

    def forward(self, code: Tensor) -> Tensor:
        """Embed the code: (…, s, k·steps) → (…, s, d)."""
        return torch.einsum("...sq,sqd->...sd", code, self.weight)

    @torch.no_grad()
    def fit(self, found: Tensor) -> None:
        """Set the steps to quantiles of segments of the training part: (n, s, k).

        A statistic that is constant in training carries no information: its weights, otherwise random, become 0.
        """
        s, k, _ = self.edges.shape
        self.edges.copy_(torch.stack([_quantiles(one, self.edges) for one in found.unbind(1)]))
        still = self.edges[..., -1] - self.edges[..., 0] < NARROWEST  # (s, k)
        self.weight.view(s, k, -1, self.weight.shape[-1])[still] = 0


class MachineFeatures(nn.Module):
    """Maps how far each statistic of a segment is from what is normal for its machine to d_model numbers.

    Beside the statistics of the signal there are those of its residual: what the other sensors do not make likely. The
    deviation arcsinh((x − centre) / spread) is given as a number and coded by quantiles of the training part. All
    sensors share edges and weights, so that what is learned from one sensor holds for every other. Without a baseline
    of the machine, centre and spread are those of the training part.

    Shape:
        statistics (n, sensor, statistic), baseline (n, sensor, 2, statistic) → (n, sensor, d_model)
    """

    edges: Tensor  # (statistic, steps + 1), ascending
    fleet: Tensor  # (sensor, 2, statistic): centre and spread
    coupling: Tensor  # (sensor, sensor + 1): the weights of `Coupling`, and its centre

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        s, k, steps = settings.n_sensors, N_STATISTICS + N_OF_RESIDUAL, settings.quantile_features
        self.register_buffer("edges", torch.linspace(-1, 1, steps + 1).expand(k, -1).clone())
        self.register_buffer("fleet", torch.stack([torch.zeros(k), torch.ones(k)]).expand(s, 2, -1).double().clone())
        self.register_buffer("coupling", torch.eye(s, s + 1, dtype=torch.float64))
        self.embed = nn.Linear(k * (steps + 1), settings.d_model, bias=False)

    def code(self, found: Tensor, baseline: Tensor | None) -> Tensor:
        """Code the deviations of each segment of each sensor: (n, s, k), (n, s, 2, k) → (n, s, k·(steps + 1))."""
        deviation = self.deviations(found, baseline)
        size = deviation.clamp(-LARGEST_DEVIATION, LARGEST_DEVIATION) / LARGEST_DEVIATION
        return torch.cat([_code(deviation, self.edges), size], dim=-1)

    def forward(self, code: Tensor) -> Tensor:
        """Embed the code: (n, s, k·(steps + 1)) → (n, s, d)."""
        return self.embed(code)  # type: ignore[no-any-return]

    def with_residual(self, found: Tensor, segments: Tensor) -> Tensor:
        """Add the mean and the largest size of the residual: (n, s, 6), (n, s, p) → (n, s, 8)."""
        weights, centre = self.coupling[:, :-1], self.coupling[:, -1:]
        size = (weights @ (segments.double() - centre)).abs()
        return torch.cat([found, size.mean(dim=-1, keepdim=True), size.amax(dim=-1, keepdim=True)], dim=-1)

    def deviations(self, found: Tensor, baseline: Tensor | None) -> Tensor:
        """Return arcsinh((x − centre) / spread): (n, s, k)."""
        known = self.fleet if baseline is None else torch.where(baseline.isnan(), self.fleet, baseline)
        centre, spread = known.unbind(dim=-2)
        return ((found - centre) / spread).to(self.edges.dtype).asinh()

    @torch.no_grad()
    def fit(self, found: Tensor, baseline: Tensor | None) -> None:
        """Learn centre and spread of the fleet, and the steps, from segments of the training part: (n, s, k)."""
        shares = torch.tensor([0.25, 0.5, 0.75], dtype=found.dtype)
        low, centre, high = torch.stack([torch.quantile(one, shares, dim=0) for one in found.unbind(1)], dim=1)
        self.fleet.copy_(torch.stack([centre, (high - low).clamp(min=SMALLEST_SPREAD)], dim=1))
        deviations = self.deviations(found, baseline).flatten(0, 1)
        if len(deviations) > MOST_SEGMENTS:
            generator = torch.Generator().manual_seed(0)
            deviations = deviations[torch.randperm(len(deviations), generator=generator)[:MOST_SEGMENTS]]
        self.edges.copy_(_quantiles(deviations, self.edges))


def _code(found: Tensor, edges: Tensor) -> Tensor:
    """Return 1 for each step below a statistic, 0 for each above, and the covered share of its own step.

    Shape:
        (…, k), edges (…, k, steps + 1) → (…, k·steps)
    """
    low, high = edges[..., :-1], edges[..., 1:]
    above = (found.unsqueeze(-1) - low).to(edges.dtype)  # (…, k, steps)
    return (above / (high - low).clamp(min=NARROWEST)).clamp(0, 1).flatten(-2)


def _quantiles(found: Tensor, edges: Tensor) -> Tensor:
    """Return evenly spaced quantiles, as many as there are edges: (n, k) → (k, steps + 1)."""
    shares = torch.linspace(0, 1, edges.shape[-1], dtype=found.dtype)
    return torch.quantile(found, shares, dim=0).T


def statistics(segments: Tensor) -> Tensor:
    """Return mean, deviation, minimum, maximum, mean and largest step: (…, s, p) → (…, s, 6), in 64 bits.

    A narrow step magnifies small differences, and rounding in 32 bits would depend on the order of additions.
    """
    segments = segments.double()
    step, mean = segments.diff(dim=-1).abs(), segments.mean(-1)
    deviation = torch.linalg.vector_norm(segments - mean.unsqueeze(-1), dim=-1) / segments.shape[-1] ** 0.5
    return torch.stack([mean, deviation, segments.amin(-1), segments.amax(-1), step.mean(-1), step.amax(-1)], dim=-1)


def draw_segments(part: TrainingPart, most_segments: int = MOST_SEGMENTS) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Draw segments at random but reproducibly, fewer if there are very many sensors, and the baselines beside them.

    Yields:
        segments (n, s, p); baseline (n, s, 2, k), None if no machine has one
    """
    n_sensors = next(iter(part)).segments.shape[2]
    most = min(most_segments, MOST_VALUES // (n_sensors * N_STATISTICS))
    generator = torch.Generator().manual_seed(0)
    every, quota = -(-len(part) // most), max(most // len(part), 1)
    for batch in islice(part, 0, None, every):
        there = batch.valid.nonzero()
        rows = there[torch.randperm(len(there), generator=generator)[:quota]]
        baseline = None if batch.baseline is None else batch.baseline[rows[:, 0]]
        yield batch.segments[rows[:, 0], rows[:, 1]], baseline
