"""The loss of a batch, a few episodes at a time: what attention keeps for the backward pass never exists for all.

Only the embedding's batch norm looks at the whole batch. After it, an episode's loss and its gradient depend on that
episode alone, so that each part of the batch goes forward and backward at once and leaves nothing
but gradients. Nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dfstrans.model.detector import LossOfPart


def loss_by_parts(x: Tensor, size: int, loss: LossOfPart, parameters: Sequence[Tensor]) -> Tensor:
    """The sum of `loss(x[rows], rows)` over parts of `size` rows; its gradients are those of the whole at once.

    `parameters` are those that the loss of a part depends on, besides `x`.

    Shape:
        (b, …) → ()
    """
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    return _LossByParts.apply(loss, parts, x, *parameters)  # type: ignore[no-any-return, no-untyped-call]


class _LossByParts(torch.autograd.Function):
    """The gradients are known when the loss is; the backward pass only hands them on."""

    @staticmethod
    def forward(ctx: Any, loss: LossOfPart, parts: list[slice], x: Tensor, *parameters: Tensor) -> Tensor:
        grad_x = torch.empty_like(x)
        grads = [torch.zeros_like(parameter) for parameter in parameters]
        total = torch.zeros((), device=x.device)
        for rows in parts:
            with torch.enable_grad():
                part = x[rows].detach().requires_grad_()
                loss_of_rows = loss(part, rows)
            grad_x[rows], *of_rows = torch.autograd.grad(loss_of_rows, (part, *parameters))
            for grad, addition in zip(grads, of_rows, strict=True):
                grad += addition
            total += loss_of_rows.detach()
        ctx.grads = (grad_x, *grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = grad_outputs
        grads, ctx.grads = ctx.grads, None  # in place, so that a second call must fail
        return None, None, *(grad.mul_(factor) for grad in grads)
