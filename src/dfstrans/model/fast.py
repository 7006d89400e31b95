"""The network that is trained and predicts: `DFSTrans` in about half the time and a third of the memory [ADR 22].

Weights and results equal those of the plain network, as the tests check. On a CPU, memory bandwidth limits the plain
network. Therefore, here

- CNN blocks and the feed-forward network work in parts that fit into the CPU's cache, store only their input for the
  backward pass and recompute the rest; statistics of segments are coded in such parts, too;
- after the embedding, whose batch norm needs the whole batch, a few episodes at a time go through the network.

Under autocast to bf16 the CNN still computes in 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable
from torch.nn import functional

from dfstrans.model.cnn import ChannelNorm, SensorCNN
from dfstrans.model.detector import LossOfPart
from dfstrans.model.network import (
    Attention,
    AttentionPair,
    DFSTrans,
    FeedForward,
    ForwardPass,
    SpatioTemporalLayer,
)
from dfstrans.model.quantile_features import N_STATISTICS
from dfstrans.settings import NetworkShape

PART_VALUES = 1 << 21  # in memory per part; larger ones make the system clear pages again and again
BLOCK_VALUES = 1 << 20  # hidden units of the feed-forward network: 4 MB, which fits into the cache of a small CPU
CACHED_VALUES = 1 << 18  # of a convolution's output: 1 MB, which fits into the cache of a single core
VECTOR_WIDTH = 16  # values; torch computes a softmax over fewer of them one by one
SAFE_SUM = 1e30  # of exponentials; beyond it, and below its reciprocal, 32 bits may overflow or lose everything
CHANNEL_MULTIPLE = 8  # the convolution library is fast only for multiples of this number of channels per sensor


class FastDFSTrans(DFSTrans):
    """`DFSTrans` with its expensive parts replaced; parameters have the same names, values and order."""

    def __init__(self, settings: NetworkShape, *, part_values: int = PART_VALUES) -> None:
        super().__init__(settings)
        self.part_values = part_values
        self.dropout = Dropout(settings.dropout)
        if isinstance(self.embedding, SensorCNN):
            self.embedding = FastSensorCNN(self.embedding)
        for layer in self.layers:
            assert isinstance(layer, SpatioTemporalLayer)
            layer.temporal, layer.spatial = FastAttention(layer.temporal), FastAttention(layer.spatial)
            layer.feedforward = FastFeedForward(layer.feedforward)
            layer.dropout = self.dropout

    def forward(
        self,
        segments: Tensor,
        valid: Tensor | None = None,
        baseline: Tensor | None = None,
        *,
        keep: AttentionPair | None = None,
        return_attention: bool = False,
    ) -> ForwardPass:
        """Score episodes, a few at a time in prediction; see `DFSTrans.forward`."""
        parts = _parts(len(segments), episodes_at_once(self.settings, segments.shape[1], self.part_values))
        if torch.is_grad_enabled() or self.training or keep is not None or len(parts) == 1:
            return super().forward(segments, valid, baseline, keep=keep, return_attention=return_attention)
        passes = []
        for rows in parts:
            of_rows = [None if one is None else one[rows] for one in (valid, baseline)]
            passes.append(super().forward(segments[rows], *of_rows, return_attention=return_attention))
        return _concatenate(passes)

    def codes(self, segments: Tensor, baseline: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the codes of segments, computed in parts that stay in the cache, in the precision of what follows."""
        if segments.requires_grad:  # rare
            return super().codes(segments, baseline)
        lowered = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        found: list[Tensor] = []
        for rows in _cached_parts(len(segments), *segments.shape[1:]):
            of_fleet, of_machine = super().codes(segments[rows], None if baseline is None else baseline[rows])
            codes = [of_fleet] if of_machine is None else [of_fleet, of_machine]
            found = found or [one.new_empty(len(segments), *one.shape[1:], dtype=lowered or one.dtype) for one in codes]
            for whole, part in zip(found, codes, strict=True):
                whole[rows] = part
        return found[0], found[1] if len(found) > 1 else None

    def attended_loss(self, x: Tensor, valid: Tensor | None, loss_of_part: LossOfPart) -> Tensor:
        """Return the loss of embedded episodes, computed a few at a time: (b, t, s, d) → ()."""

        def loss(part: Tensor, rows: slice) -> Tensor:
            return self.loss_of_readings(part, None if valid is None else valid[rows], loss_of_part, rows)

        size = episodes_at_once(self.settings, x.shape[1], self.part_values)
        after_embedding = [self.layers, self.head, self.logit, *([] if self.summary is None else [self.summary])]
        trained = [one for module in after_embedding for one in module.parameters() if one.requires_grad]
        return _LossByParts.apply(loss, _parts(len(x), size), x, *trained)  # type: ignore[no-any-return, no-untyped-call]


def episodes_at_once(settings: NetworkShape, n_segments: int, part_values: int = PART_VALUES) -> int:
    """Return how many episodes go through the network together, from the memory needed per (segment, sensor) cell.

    In training that is the embedding and the attention of every layer; in prediction the first convolution or the coded
    statistics may need more.
    """
    attended = settings.layers * (settings.d_model + settings.heads * (n_segments + settings.n_sensors))
    convolved = (settings.filters or 0) * (settings.segment_length // 2) if settings.embedding == "cnn" else 0
    coded = settings.quantile_features * N_STATISTICS
    return max(1, part_values // (n_segments * settings.n_sensors * max(attended, convolved, coded)))


def _parts(n: int, most: int) -> list[slice]:
    """Return ranges of nearly equal size that cover n items; a single empty one if there are none."""
    size = -(-n // max(1, -(-n // most))) or 1
    return [slice(start, start + size) for start in range(0, max(n, 1), size)]


def _concatenate(passes: list[ForwardPass]) -> ForwardPass:
    logit, features = (torch.cat(tensors) for tensors in zip(*(one[:2] for one in passes), strict=True))
    pairs = [one.attention for one in passes if one.attention is not None]
    if not pairs:
        return ForwardPass(logit, features, None, None)
    temporal, spatial = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
    contribution = torch.cat([one.contribution for one in passes if one.contribution is not None])
    return ForwardPass(logit, features, AttentionPair(temporal, spatial), contribution)


class _LossByParts(torch.autograd.Function):
    """Computes Σ loss(x[rows], rows) over parts of a batch; each part runs forward and backward immediately.

    After the embedding, an episode's loss and gradient depend on that episode alone, so only the gradients of a part
    are kept: they are known together with the loss, and the backward pass just returns them. Nothing is computed twice.
    """

    @staticmethod
    def forward(ctx: Any, loss: LossOfPart, parts: Sequence[slice], x: Tensor, *parameters: Tensor) -> Tensor:
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
        grads, ctx.grads = ctx.grads, None  # scaled in place, so a second call must fail
        return None, None, *(grad.mul_(factor) for grad in grads)


class Dropout(nn.Dropout):
    """Dropout that draws 16 random bits per value and stores a one-byte mask; torch draws and stores four bytes.

    The rate is therefore a multiple of 1/65536.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop values in training only."""
        if not self.training or self.p == 0:
            return input
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64, device=input.device).random_(-(1 << 63), None)
        dropped = round(self.p * (1 << 16))  # of 65536 equally likely values
        kept = words.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - (1 << 15)
        return input * kept * ((1 << 16) / ((1 << 16) - dropped))


# ---- attention ------------------------------------------------------------------------------------------------------


class FastAttention(Attention):
    """Attention with a faster softmax over few items."""

    def __init__(self, plain: Attention) -> None:
        nn.Module.__init__(self)
        self.query, self.key, self.value = plain.query, plain.key, plain.value
        self.heads, self.scale = plain.heads, plain.scale

    def softmax(self, logits: Tensor) -> Tensor:
        """Return the attention weights of each query: (…, k) → same."""
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits  # in bf16, torch is several times slower
        if logits.shape[-1] >= VECTOR_WIDTH or logits.device.type != "cpu":
            return super().softmax(logits)
        return _NarrowSoftmax.apply(logits)  # type: ignore[no-any-return, no-untyped-call]


class _NarrowSoftmax(torch.autograd.Function):
    """exp(x) / Σ exp(x), without subtracting the maximum of each row first unless the numbers are extreme."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        weights = logits.exp()
        total = weights.sum(dim=-1, keepdim=True)
        smallest, largest = total.aminmax()
        extreme = not (smallest > 1 / SAFE_SUM and largest < SAFE_SUM)
        weights = logits.softmax(dim=-1) if extreme else weights.div_(total)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        grad = grad_outputs[0]
        centred: Tensor = grad - (grad * weights).sum(dim=-1, keepdim=True)
        return centred.mul_(weights)


# ---- the feed-forward network ---------------------------------------------------------------------------------------


class FastFeedForward(FeedForward):
    """A feed-forward network that never stores all hidden units, which are 2048 / d_model times the input."""

    def __init__(self, plain: FeedForward, *, block_rows: int | None = None) -> None:
        nn.Module.__init__(self)
        self.widen, self.narrow = plain.widen, plain.narrow
        self.block_rows = block_rows or max(1, BLOCK_VALUES // self.widen.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to every row: (…, d) → (…, d)."""
        weights = (self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias)
        rows = x.reshape(-1, x.shape[-1])
        return _BlockedFeedForward.apply(self.block_rows, rows, *weights).view(x.shape)  # type: ignore[no-any-return, no-untyped-call]


class _BlockedFeedForward(torch.autograd.Function):
    """Recomputes the hidden units of a block in the backward pass, which is cheaper than storing them."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
    def forward(ctx: Any, size: int, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        ctx.save_for_backward(x, w1, b1, w2)
        ctx.size = size
        out = x.new_empty(x.shape[0], w2.shape[0])
        for block, part in zip(x.split(size), out.split(size), strict=True):
            torch.addmm(b2, _hidden(block, w1, b1), w2.t(), out=part)
        return out

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, w1, b1, w2 = ctx.saved_tensors
        (grad,) = grad_outputs
        grad_w1, grad_w2 = (torch.zeros_like(w, dtype=torch.float32) for w in (w1, w2))
        grad_b1 = torch.zeros_like(b1, dtype=torch.float32)
        grad_x = torch.empty_like(x)
        for block, grad_block, part in zip(*(one.split(ctx.size) for one in (x, grad, grad_x)), strict=True):
            hidden = _hidden(block, w1, b1)
            grad_w2 += grad_block.t() @ hidden
            grad_hidden = grad_block @ w2
            torch.ops.aten.threshold_backward.grad_input(grad_hidden, hidden, 0, grad_input=grad_hidden)  # in place
            grad_w1 += grad_hidden.t() @ block
            grad_b1 += grad_hidden.sum(0)
            torch.mm(grad_hidden, w1, out=part)
        return None, grad_x, grad_w1, grad_b1, grad_w2, grad.sum(0)


def _hidden(block: Tensor, w1: Tensor, b1: Tensor) -> Tensor:
    return torch.addmm(b1, block, w1.t()).relu_()


# ---- the CNN --------------------------------------------------------------------------------------------------------


class FastSensorCNN(SensorCNN):
    """The per-sensor CNN; each block's norm is computed together with the next block's convolution."""

    def __init__(self, plain: SensorCNN) -> None:
        nn.Module.__init__(self)
        self.convolutions, self.norms = plain.convolutions, plain.norms

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor: (n, s, p) → (n, s, d)."""
        if segments.requires_grad:  # rare: the first fast block computes no gradient of its input
            return super().forward(segments)
        x, norm = segments, None
        keep = torch.is_grad_enabled()  # it is always off inside an autograd function
        for convolution, next_norm in zip(self.convolutions, self.norms, strict=True):
            assert isinstance(next_norm, ChannelNorm)
            normalisation, training = ((), False) if norm is None else (_normalisation(norm, x), norm.training)
            x = _Block.apply(  # type: ignore[no-untyped-call]
                x, convolution.weight, convolution.bias, convolution.groups, training, keep, *normalisation
            )  # (n, s·filters, p/2), …
            norm = next_norm
        assert norm is not None
        return _normalise_last(norm, x).reshape(*segments.shape[:2], -1)


class _Block(torch.autograd.Function):
    """ReLU(max-pool(convolution(norm(x)))): (n, s·channels, p) → (n, s·filters, p // 2); the first has no norm.

    It stores its input and one byte per pooled value. The plain operations store the convolution's output, its maximum,
    its ReLU and its normalised copy, which take most of the memory and time of a training step.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, n_sensors: int, training: bool, keep: bool, *norm: Tensor
    ) -> Tensor:
        x = x.contiguous()
        n, _, p = x.shape
        pooled = x.new_empty(n, n_sensors, weight.shape[0] // n_sensors, p // 2)
        route = torch.empty_like(pooled, dtype=torch.uint8) if keep else None
        convolution = _convolution(weight, n_sensors, first=not norm)
        for rows in _cached_parts(n, weight.shape[0], p):
            convolved = convolution.forward(_normalise(x[rows], *norm), bias)
            first, second = convolution.pairs(convolved)
            torch.maximum(first, second, out=pooled[rows]).relu_()
            if route is not None:
                # where the gradient of a pooled value goes: 0 nowhere, 1 to the first of the pair, 2 to the second
                route[rows] = (second > first).to(torch.uint8).add_(1).mul_(pooled[rows] > 0)
        ctx.save_for_backward(x, weight, route, *norm)
        ctx.n_sensors, ctx.training = n_sensors, training
        return pooled.flatten(1, 2)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, route, *norm = ctx.saved_tensors
        grad = grad_outputs[0].to(x.dtype).reshape(route.shape)
        convolution = _convolution(weight, ctx.n_sensors, first=not norm)
        grad_weight, grad_bias = torch.zeros_like(convolution.weight), x.new_zeros(weight.shape[0])
        grad_x = torch.empty_like(x) if norm else None
        for rows in _cached_parts(x.shape[0], weight.shape[0], x.shape[-1]):
            grad_convolved = convolution.empty_output(x[rows])
            for number, of_pair in enumerate(convolution.pairs(grad_convolved), start=1):
                torch.mul(grad[rows], route[rows] == number, out=of_pair)
                grad_bias += of_pair.sum(dim=-1).sum(dim=0).flatten()
            normalised = _normalise(x[rows], *norm)
            grad_rows, grad_of_weight = convolution.backward(grad_convolved, normalised)
            grad_weight += grad_of_weight
            if grad_x is not None and grad_rows is not None:
                grad_x[rows] = grad_rows
        filters, channels = route.shape[2], weight.shape[1]  # without the added ones
        grad_weight = grad_weight.unflatten(0, (ctx.n_sensors, -1))[:, :filters, :channels].flatten(0, 1)
        if grad_x is None:
            return None, grad_weight, grad_bias, None, None, None
        grad_gamma, grad_beta = _normalise_backward(grad_x, x, *norm, training=ctx.training)
        return grad_x, grad_weight, grad_bias, None, None, None, grad_gamma, grad_beta, None, None


def _cached_parts(n_segments: int, n_channels: int, n_points: int) -> list[slice]:
    """Return ranges of segments that fit into the cache together."""
    return _parts(n_segments, max(1, CACHED_VALUES // (n_channels * n_points)))


def _convolution(weight: Tensor, n_sensors: int, *, first: bool) -> _FirstConvolution | _GroupedConvolution:
    filters, channels = weight.shape[0] // n_sensors, weight.shape[1]
    if first:
        return _FirstConvolution(weight, n_sensors)
    if channels > 1:
        extra = (0, 0, 0, -channels % CHANNEL_MULTIPLE, 0, -filters % CHANNEL_MULTIPLE)
        weight = functional.pad(weight.unflatten(0, (n_sensors, filters)), extra).flatten(0, 1)
    return _GroupedConvolution(weight, n_sensors, filters, channels)


class _FirstConvolution(NamedTuple):
    """The convolution of one channel per sensor, as a matrix product over windows; an odd last point is dropped.

    An output is (sensor, filter, 2, segment, pair): the first points of all pairs are separate from the second ones,
    since a maximum over adjacent values in memory is slow.
    """

    weight: Tensor  # (s·filters, 1, kernel)
    n_sensors: int

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the output for an input (n, s, p)."""
        filters = rearrange(self.weight, "(s f) 1 k -> s f k", s=self.n_sensors)
        products = torch.baddbmm(rearrange(bias, "(s f) -> s f 1", s=self.n_sensors), filters, self._windows(x))
        return rearrange(products, "s f (two n q) -> s f two n q", two=2, n=x.shape[0])

    def pairs(self, output: Tensor) -> Tensor:
        """A view of an output as the first and the second points of pairs: (2, n, s, filter, pair)."""
        return rearrange(output, "s f two n q -> two n s f q")

    def empty_output(self, x: Tensor) -> Tensor:
        """Allocate the gradient of an output."""
        return x.new_empty(self.n_sensors, self.weight.shape[0] // self.n_sensors, 2, x.shape[0], x.shape[-1] // 2)

    def backward(self, grad: Tensor, x: Tensor) -> tuple[None, Tensor]:
        """Return the gradient of the weight; that of the input is not needed."""
        rows = rearrange(grad, "s f two n q -> s f (two n q)")
        return None, rearrange(rows @ self._windows(x).transpose(1, 2), "s f k -> (s f) 1 k")

    def _windows(self, x: Tensor) -> Tensor:
        """Return the window around each point, with zeros beyond the ends: (n, s, p) → (s, kernel, 2 · n · pair)."""
        kernel = self.weight.shape[-1]
        padded = functional.pad(x, (kernel // 2, kernel // 2))
        windows = padded.unfold(-1, kernel, 1)[:, :, : x.shape[-1] // 2 * 2]
        return rearrange(windows, "n s (q two) k -> s k (two n q)", two=2)


class _GroupedConvolution(NamedTuple):
    """The library's grouped convolution, with zero channels added up to a fast number.

    An output is (segment, sensor, widened filter, point).
    """

    weight: Tensor  # (s·widened filters, widened channels, kernel)
    n_sensors: int
    filters: int
    channels: int

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the output for an input (n, s·channels, p)."""
        padding = self.weight.shape[-1] // 2
        wide = functional.conv1d(self._widen(x), self.weight, padding=padding, groups=self.n_sensors)
        convolved: Tensor = wide.unflatten(1, (self.n_sensors, -1))
        convolved[:, :, : self.filters].add_(bias.view(self.n_sensors, self.filters, 1))
        return convolved

    def pairs(self, output: Tensor) -> Tensor:
        """A view of an output as the first and the second points of pairs: (2, n, s, filter, pair)."""
        whole_pairs = output[:, :, : self.filters, : output.shape[-1] // 2 * 2]
        return rearrange(whole_pairs, "n s f (q two) -> two n s f q", two=2)

    def empty_output(self, x: Tensor) -> Tensor:
        """Allocate the gradient of an output, 0 for a point without a pair."""
        return x.new_zeros(x.shape[0], self.n_sensors, self.weight.shape[0] // self.n_sensors, x.shape[-1])

    def backward(self, grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the input and of the widened weight."""
        padding, needed = [self.weight.shape[-1] // 2], [True, True, False]
        grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
            grad.flatten(1, 2), self._widen(x), self.weight, None, [1], padding, [1], False, [0], self.n_sensors, needed
        )
        return grad_x.unflatten(1, (self.n_sensors, -1))[:, :, : self.channels].flatten(1, 2), grad_weight

    def _widen(self, x: Tensor) -> Tensor:
        extra = self.weight.shape[1] - self.channels
        return functional.pad(x.unflatten(1, (self.n_sensors, self.channels)), (0, 0, 0, extra)).flatten(1, 2)


# ---- the norm between two blocks ------------------------------------------------------------------------------------


def _normalisation(norm: ChannelNorm, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return γ, β, mean and 1/deviation of the batch in training, updating the running ones, else the running ones."""
    if not norm.training:
        return norm.weight, norm.bias, norm.running_mean.clone(), (norm.running_var + norm.eps).rsqrt()
    count = x.numel() // x.shape[1]
    mean, variance = _moments(x.detach().to(norm.running_mean.dtype), count)
    gamma, beta = norm.update(mean, variance, count)
    return gamma, beta, mean, (variance + norm.eps).rsqrt()


def _normalise_last(norm: ChannelNorm, x: Tensor) -> Tensor:
    """Apply the norm of the last block, which no convolution follows."""
    if not (norm.training and norm.renormalise):
        return norm(x)  # type: ignore[no-any-return]
    gamma, beta, _, _ = _normalisation(norm, x)
    return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=norm.eps)


def _moments(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each channel's `count` values, five times faster than `torch.var_mean`."""
    mean = x.sum(dim=-1).sum(dim=0) / count
    squares = torch.zeros_like(mean)
    for rows in _cached_parts(*x.shape):
        squares += (x[rows] - mean[:, None]).square_().sum(dim=-1).sum(dim=0)
    return mean, squares / count


def _normalise(x: Tensor, *normalisation: Tensor) -> Tensor:
    """Return γ (x − mean) / deviation + β for each channel; x itself without a norm."""
    if not normalisation:
        return x
    gamma, beta, mean, scale = normalisation
    factor = gamma * scale
    return torch.addcmul((beta - mean * factor)[:, None], x, factor[:, None])


def _normalise_backward(
    grad: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, scale: Tensor, *, training: bool
) -> tuple[Tensor, Tensor]:
    """Turn the gradient of the norm's output into that of its input, in place; also return the gradients of γ and β."""
    grad_beta, grad_product = torch.zeros_like(mean), torch.zeros_like(mean)
    for rows in _cached_parts(*x.shape):
        grad_beta += grad[rows].sum(dim=-1).sum(dim=0)
        grad_product += (grad[rows] * x[rows]).sum(dim=-1).sum(dim=0)
    grad_gamma = (grad_product - mean * grad_beta) * scale
    factor = gamma * scale
    if not training:
        grad.mul_(factor[:, None])
        return grad_gamma, grad_beta
    count = x.numel() // x.shape[1]  # mean and deviation also depend on the input
    slope = -factor * scale * grad_gamma / count
    offset = -factor * grad_beta / count - slope * mean
    for rows in _cached_parts(*x.shape):
        through_statistics = torch.addcmul(offset[:, None], x[rows], slope[:, None])
        grad[rows] = through_statistics.addcmul_(grad[rows], factor[:, None])
    return grad_gamma, grad_beta
