"""The wide feed-forward network, in blocks that stay in the processor's cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd

BLOCK_ROWS = 512  # × 2048 hidden units × 4 bytes = 4 MB: within the cache of a small processor


class FeedForward(nn.Module):
    """ReLU(x W₁ + b₁) W₂ + b₂ for each (segment, sensor) by itself.

    Shape:
        (…, d_model) → (…, d_model)
    """

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, width)
        self.narrow = nn.Linear(width, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to every row, without ever holding the hidden units of all rows at once."""
        rows = x.reshape(-1, x.shape[-1])
        weights = (self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias)
        return _BlockedFeedForward.apply(rows, *weights).view(x.shape)  # type: ignore[no-any-return, no-untyped-call]


class _BlockedFeedForward(torch.autograd.Function):
    """The hidden units of a block are computed once forward and once more backward: cheaper than storing them.

    Storing them is what makes the plain version slow on a CPU: they are 2048 / d_model times as large as the input.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        ctx.save_for_backward(x, w1, b1, w2)
        out = x.new_empty(x.shape[0], w2.shape[0])
        for block, part in zip(x.split(BLOCK_ROWS), out.split(BLOCK_ROWS), strict=True):
            torch.addmm(b2, _hidden(block, w1, b1), w2.t(), out=part)
        return out

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, ...]:
        x, w1, b1, w2 = ctx.saved_tensors
        (grad,) = grad_outputs
        grad_w1, grad_w2 = (torch.zeros_like(w, dtype=torch.float32) for w in (w1, w2))
        grad_b1 = torch.zeros_like(b1, dtype=torch.float32)
        grad_x = torch.empty_like(x)
        for block, grad_block, part in zip(*(t.split(BLOCK_ROWS) for t in (x, grad, grad_x)), strict=True):
            hidden = _hidden(block, w1, b1)
            grad_w2 += grad_block.t() @ hidden
            grad_hidden = grad_block @ w2
            torch.ops.aten.threshold_backward.grad_input(grad_hidden, hidden, 0, grad_input=grad_hidden)  # in place
            grad_w1 += grad_hidden.t() @ block
            grad_b1 += grad_hidden.sum(0)
            torch.mm(grad_hidden, w1, out=part)
        return grad_x, grad_w1, grad_b1, grad_w2, grad.sum(0)


def _hidden(block: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return torch.addmm(b1, block, w1.t()).relu_()
