"""Which numbers a network computes with: 32 bits, or bf16 in matrix products where the processor has it."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from dfstrans.settings import Precision


def bf16_is_fast() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware; elsewhere bf16 is hundreds of times slower."""
    return bool(torch.cpu._is_amx_tile_supported()) or bool(torch.cpu._is_avx512_bf16_supported())


def uses_bf16(precision: Precision) -> bool:
    """Whether this precision means bf16 on this processor; one that cannot be had is said to fall back to 32 bits."""
    if precision == "32":
        return False
    fast = bf16_is_fast()
    if precision == "bf16" and not fast:
        warnings.warn("this processor has no bf16 arithmetic: computing in 32 bits instead", stacklevel=3)
    return fast


def computing_in(precision: Precision) -> AbstractContextManager[object]:
    """What is computed inside has this precision."""
    return torch.autocast("cpu", torch.bfloat16) if uses_bf16(precision) else nullcontext()


class ExactLinear(nn.Linear):
    """A linear layer in the precision of its weights also where others take bf16.

    It is for what ends in a score: rounded to the 8 binary digits of bf16, those of many episodes would be the same.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (…, in_features) → (…, out_features)."""
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))
