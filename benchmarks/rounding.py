"""What bf16 does to a network, on a processor without it: its matrix products on rounded numbers.

A processor with bf16 multiplies numbers rounded to 8 bits of precision, adds in 32 bits and rounds the result. Here all
of that is done in 32 bits: the same rounding, forward and backward, at the speed of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.model.arithmetic import ExactLinear
from dfstrans.model.feedforward import FeedForward


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.bfloat16().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].bfloat16().to(grads[0].dtype)


def rounded(x: Tensor) -> Tensor:
    """The nearest numbers of bf16, still in 32 bits; a gradient is rounded, too."""
    return _Round.apply(x)  # type: ignore[no-any-return, no-untyped-call]


@contextmanager
def rounded_products() -> Iterator[None]:
    """Within it, the products that `precision="bf16"` rounds are rounded: not convolutions, not the score."""
    multiply = Tensor.__matmul__

    def matmul(one: Tensor, other: Tensor) -> Tensor:
        if not torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
            return multiply(one, other)  # inside a gradient of our own, of a convolution
        return rounded(multiply(rounded(one), rounded(other)))

    def linear(layer: nn.Linear, x: Tensor) -> Tensor:
        if isinstance(layer, ExactLinear):
            return functional.linear(x, layer.weight, layer.bias)
        return rounded(functional.linear(rounded(x), rounded(layer.weight), layer.bias))

    def feedforward(network: FeedForward, x: Tensor) -> Tensor:
        return linear(network.narrow, linear(network.widen, x).relu())

    with (
        patch.object(Tensor, "__matmul__", matmul),
        patch.object(nn.Linear, "forward", linear),
        patch.object(FeedForward, "forward", feedforward),
    ):
        yield
