"""Training batches changed at random in ways that keep their meaning, so that few episodes teach more.

All randomness comes from torch's generator, which the caller seeds.
"""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor

from dfstrans.config import TrainingSettings
from dfstrans.training.batches import Batch


def augment(batch: Batch, settings: TrainingSettings, missing_value: Tensor) -> Batch:
    """A little earlier or later, with a little noise, now and then without a sensor; see `Mixing` for pairs.

    `missing_value` (s,) is what a sensor without values stands at.
    """
    segments = batch.segments
    if settings.time_shift:
        segments = shift_in_time(segments, settings.time_shift)
    if settings.noise:
        segments = segments + settings.noise * torch.randn_like(segments)
    if settings.sensor_dropout:
        b, _, s, _ = segments.shape
        missing = torch.rand(b, 1, s, 1) < settings.sensor_dropout
        segments = torch.where(missing, missing_value[:, None], segments)
    return batch._replace(segments=segments)


def shift_in_time(segments: Tensor, largest: float) -> Tensor:
    """Shift each episode by up to `largest` segments, earlier or later, holding the value at the end that opens.

    Shape:
        (b, t, s, p) → same
    """
    b, t, s, p = segments.shape
    points = rearrange(segments, "b t s p -> b s (t p)")
    most = round(largest * p)
    shift = torch.randint(-most, most + 1, (b, 1))
    source = (torch.arange(t * p) + shift).clamp_(0, t * p - 1)  # (b, t·p)
    shifted = points.gather(-1, source.unsqueeze(1).expand(b, s, t * p))
    return rearrange(shifted, "b s (t p) -> b t s p", p=p)
