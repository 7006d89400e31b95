"""One block of the per-sensor CNN, for all sensors at once, that keeps little for the backward pass.

The plain operations would write and keep the convolution's output, its maximum, its ReLU and its normalised copy: most
of the memory of a training step, and most of its waiting. This function works through the segments in parts that stay
in the processor's cache, keeps its input and one byte per pooled value, and computes the rest once more. The plain
operations stay in the tests as the truth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.nn import functional

from dfstrans.model.cache import cache_sized_parts
from dfstrans.model.norm import ChannelNorm

CHANNEL_MULTIPLE = 8  # the convolution library is fast for such numbers of channels per sensor, and slow between them


def normalise_convolve_pool(x: Tensor, norm: ChannelNorm | None, convolution: nn.Conv1d) -> Tensor:
    """ReLU(max-pool(convolution(norm(x)))); the first block has no norm before it.

    Shape:
        (segment, sensor · channel, point) → (segment, sensor · filter, point // 2)
    """
    weight, bias, n_sensors = convolution.weight, convolution.bias, convolution.groups
    keep = torch.is_grad_enabled()  # inside of the function it is always off
    if norm is None:
        return _Block.apply(x, weight, bias, n_sensors, None, None, None, None, False, keep)  # type: ignore[no-any-return, no-untyped-call]
    return _Block.apply(x, weight, bias, n_sensors, *norm.normalisation(x), norm.training, keep)  # type: ignore[no-any-return, no-untyped-call]


class _Block(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        n_sensors: int,
        gamma: Tensor | None,
        beta: Tensor | None,
        mean: Tensor | None,
        scale: Tensor | None,
        training: bool,
        keep: bool,
    ) -> Tensor:
        x = x.contiguous()
        n, _, p = x.shape
        pooled = x.new_empty(n, n_sensors, weight.shape[0] // n_sensors, p // 2)
        route = torch.empty_like(pooled, dtype=torch.uint8) if keep else None
        convolution = _Convolution.prepare(weight, n_sensors)
        for rows in cache_sized_parts(n, weight.shape[0], p):
            convolved = convolution.forward(_normalise(x[rows], gamma, beta, mean, scale), bias)
            first, second = convolution.pairs(convolved)
            torch.maximum(first, second, out=pooled[rows]).relu_()
            if route is not None:
                # where the gradient of a pooled value goes: 0 nowhere, 1 to the first of the pair, 2 to the second
                route[rows] = (second > first).to(torch.uint8).add_(1).mul_(pooled[rows] > 0)
        ctx.save_for_backward(x, weight, gamma, beta, mean, scale, route)
        ctx.n_sensors, ctx.training = n_sensors, training
        return pooled.flatten(1, 2)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, gamma, beta, mean, scale, route = ctx.saved_tensors
        grad = grad_outputs[0].to(x.dtype).reshape(route.shape)
        convolution = _Convolution.prepare(weight, ctx.n_sensors)
        grad_weight = torch.zeros_like(convolution.weight)
        grad_bias = x.new_zeros(weight.shape[0])
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] or gamma is not None else None
        for rows in cache_sized_parts(x.shape[0], weight.shape[0], x.shape[-1]):
            grad_convolved = convolution.empty_output(x[rows], grad_x is not None)
            for number, of_pair in enumerate(convolution.pairs(grad_convolved), start=1):
                torch.mul(grad[rows], route[rows] == number, out=of_pair)
                grad_bias += of_pair.sum(dim=-1).sum(dim=0).flatten()
            normalised = _normalise(x[rows], gamma, beta, mean, scale)
            grad_rows, grad_weight_part = convolution.backward(grad_convolved, normalised, grad_x is not None)
            grad_weight += grad_weight_part
            if grad_x is not None and grad_rows is not None:
                grad_x[rows] = grad_rows
        grad_gamma = grad_beta = None
        if gamma is not None and grad_x is not None:
            grad_gamma, grad_beta = _normalise_backward(grad_x, x, gamma, mean, scale, ctx.training)
        narrow = convolution.narrow_weight(grad_weight, weight.shape)
        return grad_x, narrow, grad_bias, None, grad_gamma, grad_beta, None, None, None, None


class _Convolution(NamedTuple):
    """A convolution that keeps the length, each sensor with its own filters, in the form that is fastest.

    One channel in (the first block): a matrix product over windows, with the first points of all pairs apart from the
    second ones, since a maximum of neighbours in memory is slow; an odd last point is left out. Several: the library's
    grouped convolution, with zero channels added up to the next number that it is fast for.

    Shape of an output:
        one channel (sensor, filter, 2, segment, pair); several (segment, sensor, widened filter, point)
    """

    weight: Tensor
    n_sensors: int
    filters: int
    channels: int

    @classmethod
    def prepare(cls, weight: Tensor, n_sensors: int) -> _Convolution:
        filters, channels = weight.shape[0] // n_sensors, weight.shape[1]
        if channels > 1:
            extra = (0, 0, 0, -channels % CHANNEL_MULTIPLE, 0, -filters % CHANNEL_MULTIPLE)
            weight = functional.pad(weight.unflatten(0, (n_sensors, filters)), extra).flatten(0, 1)
        return cls(weight, n_sensors, filters, channels)

    @property
    def kernel(self) -> int:
        return self.weight.shape[-1]

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """The output for an input (segment, sensor · channel, point)."""
        if self.channels == 1:
            filters = rearrange(self.weight, "(s f) 1 k -> s f k", s=self.n_sensors)
            products = torch.baddbmm(rearrange(bias, "(s f) -> s f 1", s=self.n_sensors), filters, self._windows(x))
            return rearrange(products, "s f (two n q) -> s f two n q", two=2, n=x.shape[0])
        wide = functional.conv1d(self._widen(x), self.weight, padding=self.kernel // 2, groups=self.n_sensors)
        convolved: Tensor = wide.unflatten(1, (self.n_sensors, -1))
        convolved[:, :, : self.filters].add_(bias.view(self.n_sensors, self.filters, 1))
        return convolved

    def pairs(self, output: Tensor) -> Tensor:
        """A view of an output as the first and the second points of pairs: (2, segment, sensor, filter, pair)."""
        if output.dim() == 5:
            return rearrange(output, "s f two n q -> two n s f q")
        whole_pairs = output[:, :, : self.filters, : output.shape[-1] // 2 * 2]
        return rearrange(whole_pairs, "n s f (q two) -> two n s f q", two=2)

    def empty_output(self, x: Tensor, needs_x: bool) -> Tensor:
        """Room for the gradient of an output, 0 where no pair is."""
        n, _, p = x.shape
        if self.channels == 1 and not needs_x:
            return x.new_empty(self.n_sensors, self.filters, 2, n, p // 2)
        return x.new_zeros(n, self.n_sensors, self.weight.shape[0] // self.n_sensors, p)

    def backward(self, grad: Tensor, x: Tensor, needs_x: bool) -> tuple[Tensor | None, Tensor]:
        """Gradients of the input and of the (possibly widened) weight."""
        if grad.dim() == 5:
            rows = rearrange(grad, "s f two n q -> s f (two n q)")
            return None, rearrange(rows @ self._windows(x).transpose(1, 2), "s f k -> (s f) 1 k")
        wide = x if self.channels == 1 else self._widen(x)
        mask = [needs_x, True, False]
        grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
            grad.flatten(1, 2), wide, self.weight, None, [1], [self.kernel // 2], [1], False, [0], self.n_sensors, mask
        )
        if grad_x is not None and self.channels > 1:
            grad_x = grad_x.unflatten(1, (self.n_sensors, -1))[:, :, : self.channels].flatten(1, 2)
        return grad_x, grad_weight

    def narrow_weight(self, wide: Tensor, shape: torch.Size) -> Tensor:
        """The part of a widened weight that is real."""
        narrow: Tensor = wide.unflatten(0, (self.n_sensors, -1))[:, : self.filters, : self.channels]
        return narrow.reshape(shape)

    def _widen(self, x: Tensor) -> Tensor:
        extra = (0, 0, 0, -self.channels % CHANNEL_MULTIPLE)
        return functional.pad(x.unflatten(1, (self.n_sensors, self.channels)), extra).flatten(1, 2)

    def _windows(self, x: Tensor) -> Tensor:
        """The window around each point, zeros beyond: (segment, sensor, point) → (sensor, kernel, 2 · n · pair)."""
        padded = functional.pad(x, (self.kernel // 2, self.kernel // 2))
        windows = padded.unfold(-1, self.kernel, 1)[:, :, : x.shape[-1] // 2 * 2]
        return rearrange(windows, "n s (q two) k -> s k (two n q)", two=2)


def _normalise(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, mean: Tensor | None, scale: Tensor | None
) -> Tensor:
    """γ (x − mean) · scale + β for each channel; x itself where there is no norm."""
    if gamma is None or beta is None or mean is None or scale is None:
        return x
    factor = gamma * scale
    return torch.addcmul((beta - mean * factor)[:, None], x, factor[:, None])


def _normalise_backward(
    grad: Tensor, x: Tensor, gamma: Tensor, mean: Tensor, scale: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    """Turn the gradient of the norm's output into that of its input, in place; also the gradients of γ and β."""
    grad_beta, grad_product = torch.zeros_like(mean), torch.zeros_like(mean)
    for rows in cache_sized_parts(*x.shape):
        grad_beta += grad[rows].sum(dim=-1).sum(dim=0)
        grad_product += (grad[rows] * x[rows]).sum(dim=-1).sum(dim=0)
    grad_gamma = (grad_product - mean * grad_beta) * scale
    factor = gamma * scale
    if not training:
        grad.mul_(factor[:, None])
        return grad_gamma, grad_beta
    count = x.numel() // x.shape[1]  # mean and deviation depend on the input, too
    slope = -factor * scale * grad_gamma / count
    offset = -factor * grad_beta / count - slope * mean
    for rows in cache_sized_parts(*x.shape):
        through_statistics = torch.addcmul(offset[:, None], x[rows], slope[:, None])
        grad[rows] = through_statistics.addcmul_(grad[rows], factor[:, None])
    return grad_gamma, grad_beta
