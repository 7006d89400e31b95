"""The loss of a batch, a few episodes at a time: what attention keeps for the backward pass never exists for all.

Only the embedding's batch norm looks at the whole batch. After it, an episode's loss and its gradient depend on that
episode alone, so that each part of the batch goes forward and backward at once, within the processor's cache, and
leaves nothing but gradients. Nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dfstrans.model.network import DFSTrans

LossOfPart = Callable[[Tensor, slice], Tensor]
"""The loss that a part's logits add to the batch's: called with the logits of the episodes in `slice`."""


def loss_by_parts(network: DFSTrans, segments: Tensor, valid: Tensor | None, loss_of_part: LossOfPart) -> Tensor:
    """The sum of the parts' losses; its gradients are those of the plain forward pass.

    Shape:
        segments (b, t, s, p), valid (b, t) → ()
    """
    if valid is not None and bool(valid.all()):
        valid = None
    size = network.episodes_at_once(segments)
    parts = [slice(start, start + size) for start in range(0, len(segments), size)]

    def loss(embedded: Tensor, rows: slice) -> Tensor:
        return loss_of_part(network.attend(embedded, None if valid is None else valid[rows]).logit, rows)

    embedding = set(network.embedding.parameters())
    others = [parameter for parameter in network.parameters() if parameter not in embedding]
    embedded = network.embed(segments, valid)
    return _LossByParts.apply(loss, parts, embedded, *others)  # type: ignore[no-any-return, no-untyped-call]


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
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = grad_outputs
        return None, None, *(grad.mul_(factor) for grad in ctx.grads)
