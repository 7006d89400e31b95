"""Building blocks of networks that process whole episodes, with layers that ignore padding.

Every point is its own segment, so the segment mask is a mask of points and nothing is cut. Features are 0 after the end
of an episode, like the zero padding of a convolution, so an episode gives the same result alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from dfstrans.data.episodes import Episodes
from dfstrans.detectors.network import NetworkClassifier
from dfstrans.errors import DfstransError
from dfstrans.settings import DetectorSettings, setting_name

EPOCHS = {"epochs": 40}  # default for every rival; fewer were not tried


class WholeEpisodeSettings(DetectorSettings):
    """Settings of a network that processes whole episodes."""

    segment_length: ClassVar[int] = 1


class WholeEpisodeClassifier(NetworkClassifier):
    """A network that processes whole episodes; without segments there is no time shift."""

    own_defaults: ClassVar[Mapping[str, Any]] = EPOCHS
    fixed_settings: ClassVar[Mapping[str, Any]] = {"time_shift": 0.0}


def rejoin(segments: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The points of each sensor in one row, 0 after the end of the episode; no mask if all have the same length.

    Shape:
        segments (b, t, s, p), valid (b, t) → x (b, s, t·p), valid (b, t·p)
    """
    x = rearrange(segments, "b t s p -> b s (t p)")
    if valid is None or bool(valid.all()):
        return x, None
    valid = repeat(valid, "b t -> b (t p)", p=segments.shape[-1])
    return silence(x, valid), valid


def silence(x: Tensor, valid: Tensor | None, value: float = 0.0) -> Tensor:
    """x (b, c, t) with `value` after the end of each episode."""
    return x if valid is None else x.masked_fill(~valid.unsqueeze(1), value)


def filled_up(x: Tensor, valid: Tensor | None, n_timepoints: int, usual: Tensor) -> Tensor:
    """Episodes padded to one length with the mean (s,) of each sensor: (b, s, t) → (b, s, T)."""
    b, s, _ = x.shape
    if valid is not None:
        x = torch.where(valid.unsqueeze(1), x, usual[:, None].to(x.dtype))
    return torch.cat([x, usual[:, None].to(x.dtype).expand(b, s, n_timepoints - x.shape[-1])], dim=-1)


def mean_over_time(x: Tensor, valid: Tensor | None) -> Tensor:
    """The mean over the valid points: (b, c, t) → (b, c)."""
    if valid is None:
        return x.mean(dim=-1)
    weight = valid.to(x.dtype) / valid.sum(dim=1, keepdim=True)
    return torch.einsum("bct,bt->bc", x, weight)


def last_of_each(steps: Tensor, valid: Tensor | None) -> Tensor:
    """The last valid step, before a recurrent network sees any padding: (b, t, c) → (b, c)."""
    if valid is None:
        return steps[:, -1]
    return steps[torch.arange(len(steps)), valid.sum(dim=1) - 1]


class PointNorm(nn.BatchNorm1d):
    """Batch norm over (b, c, t) with statistics of the valid points only; padding stays 0."""

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise each channel."""
        if valid is None:
            return super().forward(input)
        points = rearrange(input, "b c t -> b t c")
        normal = torch.zeros_like(points)
        normal[valid] = super().forward(points[valid]).to(normal.dtype)
        return rearrange(normal, "b t c -> b c t")


def check_shortest(episodes: Episodes, fewest: int, name: str) -> None:
    """Refuse episodes that are too short for a kind of detector."""
    if len(episodes) and int(episodes.lengths.min()) < fewest:
        short = int(episodes.lengths.argmin())
        raise DfstransError(
            f"expected episodes of at least {fewest} points for {name}, got {episodes.lengths[short]} in episode "
            f"{str(episodes.ids[short])!r}; omit short episodes, or use another kind of detector"
        )


def check_longest(episodes: Episodes, n_timepoints: int, name: str) -> None:
    """Refuse episodes longer than the detector was built for."""
    if len(episodes) and int(episodes.lengths.max()) > n_timepoints:
        long = int(episodes.lengths.argmax())
        raise DfstransError(
            f"expected episodes of at most {n_timepoints} points, the length that this {name} was built for, got "
            f"{episodes.lengths[long]} in episode {str(episodes.ids[long])!r}; cut it, or train with a larger "
            f"{setting_name('n_timepoints')}"
        )
