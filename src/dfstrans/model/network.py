"""DFStrans, the diagnostic Fourier-based spatio-temporal transformer, from top to bottom in plain operations.

This network defines the results: it is the one that is exported. `FastDFSTrans`, which is trained, is tested against
it. The paper's convolutions, which the default does without, are in `cnn`.
Axes: b episode, t segment, s sensor, p point of a segment, d = d_model; h head, q query, k key.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.data.coupling import Coupling
from dfstrans.model.cnn import SensorCNN
from dfstrans.model.detector import Batch, DetectorNetwork, ExactLinear, LossOfPart, Mixing, TrainingPart
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.quantile_features import (
    N_STATISTICS,
    MachineFeatures,
    QuantileFeatures,
    draw_segments,
    statistics,
)
from dfstrans.settings import MIN_FILTERS, NetworkShape, Pooling

UNKNOWN_MACHINES = 0.15  # share of the episodes whose machine counts as unknown in a training step
LEAST_VARIANCE = 1e-4  # added, so that the square root has a finite slope if all segments are equal


class AttentionPair(NamedTuple):
    """A pair of tensors, along time and along sensors: attention weights, or masks that keep (1) or drop (0) them.

    Shape:
        temporal (b, layer, s, h, q, k), items are segments; spatial (b, layer, t, h, q, k), items are sensors.
        A mask may have size 1 along any axis.
    """

    temporal: Tensor
    spatial: Tensor


class ForwardPass(NamedTuple):
    """The output of a forward pass. Padded segments have attention 0, as query and as key, and contribution 0."""

    logit: Tensor  # (b,)
    features: Tensor  # (b, head_width), or twice that; the logit is their weighted sum
    attention: AttentionPair | None  # on request
    contribution: Tensor | None  # (b, t, s), on request; see `DFSTrans.contribution`


class DFSTrans(DetectorNetwork):
    """Maps segments of many sensors to the logit of "anomalous"."""

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = _embedding(settings)
        coded = settings.quantile_features > 0
        self.quantile_features = QuantileFeatures(settings) if coded else None
        self.machine_features = MachineFeatures(settings) if coded and settings.machine_features else None
        self.layers = nn.ModuleList(SpatioTemporalLayer(settings) for _ in range(settings.layers))
        self.head = ExactLinear(pooled_width(settings), settings.head_width)
        self.logit = ExactLinear(settings.head_width, 1)
        self.summary = SummaryReadout(settings) if settings.readout == "both" else None
        self.dropout: nn.Module = nn.Dropout(settings.dropout)

    def forward(
        self,
        segments: Tensor,
        valid: Tensor | None = None,
        baseline: Tensor | None = None,
        *,
        keep: AttentionPair | None = None,
        return_attention: bool = False,
    ) -> ForwardPass:
        """Score episodes.

        Shape:
            segments (b, t, s, p), scaled, without NaN; valid (b, t), False for padded segments, whose content has no
            influence; baseline (b, s, 2, k), see `Batch`; keep, see `AttentionPair`, for the attention trust score
        """
        valid = _mask_if_padded(valid)
        return self.attend(self.embed(segments, valid, baseline), valid, keep=keep, return_attention=return_attention)

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch: (b,)."""
        logit: Tensor = self(batch.segments, batch.valid, batch.baseline).logit
        return logit

    def embed(self, segments: Tensor, valid: Tensor | None = None, baseline: Tensor | None = None) -> Tensor:
        """Apply everything before attention, embedding and positional encoding: (b, t, s, p) → (b, t, s, d)."""
        b, t, _, _ = segments.shape
        if baseline is not None:  # the same for all segments of an episode
            baseline = baseline.unsqueeze(1).expand(-1, t, -1, -1, -1)  # (b, t, s, 2, k)
        if valid is None:
            of_all = None if baseline is None else baseline.flatten(0, 1)
            x = self.embed_segments(segments.flatten(0, 1), of_all).unflatten(0, (b, t))  # (b, t, s, d)
        else:  # padded segments become 0 and never reach the batch norm
            embedded = self.embed_segments(segments[valid], None if baseline is None else baseline[valid])  # (n, s, d)
            x = embedded.new_zeros(b, t, *embedded.shape[1:])  # (b, t, s, d)
            x[valid] = embedded
        encoding = positional_encoding(self.settings.encoding, t, self.settings.d_model)  # (t, d)
        x = x + torch.as_tensor(encoding, dtype=x.dtype, device=x.device).unsqueeze(1)  # the same for every sensor
        return self.dropout(x)  # type: ignore[no-any-return]

    def embed_segments(self, segments: Tensor, baseline: Tensor | None = None) -> Tensor:
        """Embed each segment of each sensor separately: (n, s, p), (n, s, 2, k) → (n, s, d)."""
        x: Tensor | None = None if self.embedding is None else self.embedding(segments)  # (n, s, d)
        if self.quantile_features is not None:
            of_fleet, of_machine = self.codes(segments, baseline)
            coded = self.quantile_features(of_fleet)
            if self.machine_features is not None:
                coded = coded + self.machine_features(of_machine)
            x = coded if x is None else x + coded.to(x.dtype)
        assert x is not None  # as the settings guarantee
        return x

    def codes(self, segments: Tensor, baseline: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the codes of the statistics of segments, and of their deviations: (n, s, p) → (n, s, …) each."""
        assert self.quantile_features is not None
        found = self.statistics(segments)  # (n, s, k)
        of_fleet = self.quantile_features.code(found[..., :N_STATISTICS])
        return of_fleet, None if self.machine_features is None else self.machine_features.code(found, baseline)

    def attend(
        self,
        x: Tensor,
        valid: Tensor | None = None,
        *,
        keep: AttentionPair | None = None,
        return_attention: bool = False,
    ) -> ForwardPass:
        """Apply everything after `embed`, so that one embedding serves many masks: (b, t, s, d) → logits (b,)."""
        attention = []
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, valid, None if keep is None else _mask_of_layer(keep, number))  # (b, t, s, d)
            if return_attention:
                attention.append(weights)
        logit, features = self.read(x, valid)
        if self.summary is not None:
            of_summary, its_features = self.summary(x, valid, self.dropout)
            logit = torch.lerp(logit, of_summary, self.summary.share)
            features = torch.cat([features, its_features], dim=1)
        if not return_attention:
            return ForwardPass(logit, features, None, None)
        return ForwardPass(logit, features, _stack(attention, valid), self.contribution(x, features, valid))

    def read(self, x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the logit (b,) and the features (b, head_width) of the paper's head, which knows every sensor."""
        share = None if valid is None else segment_share(x, valid)  # (b, t)
        pooled = pool(x.flatten(2), share, self.settings.pooling)  # (b, s·d), or twice that
        features = functional.relu(self.head(pooled))  # (b, head_width)
        return self.logit(self.dropout(features)).squeeze(-1), features

    def contribution(self, x: Tensor, features: Tensor, valid: Tensor | None) -> Tensor:
        """Return the exact contribution of each sensor in each segment to the logit, given which features are above 0.

        The head is linear except for its ReLU, and its input is a sum over segments: for fixed active features, the
        logit is a constant plus a sum over (segment, sensor). A segment's share of a deviation is the share of its
        squared distance from the mean in the variance.

        Shape:
            x (b, t, s, d), features (b, head_width) → (b, t, s)
        """
        own = features[:, : self.settings.head_width]
        active = self.logit.weight * (own > 0)  # (b, head_width)
        share = segment_share(x, valid)  # (b, t)
        # the weights of the mean, and of the deviation if the head uses it
        weights = rearrange(active @ self.head.weight, "b (k s d) -> k b s d", s=x.shape[2], d=x.shape[3])
        total = torch.einsum("btsd,bsd->bts", x, weights[0])
        if self.settings.pooling == "mean+deviation":
            squares = (x - torch.einsum("btsd,bt->bsd", x, share).unsqueeze(1)) ** 2  # (b, t, s, d)
            per_square = weights[1] / _deviation(torch.einsum("btsd,bt->bsd", squares, share))  # (b, s, d)
            total = total + torch.einsum("btsd,bsd->bts", squares, per_square)
            total = total + LEAST_VARIANCE * per_square.sum(dim=-1).unsqueeze(1)
        total = total * share.unsqueeze(-1)
        if self.summary is None:
            return total
        of_summary = self.summary.contribution(x, features[:, self.settings.head_width :], valid)
        return torch.lerp(total, of_summary, self.summary.share)

    def training_loss(self, batch: Batch, loss_of_part: LossOfPart, mixing: Mixing | None = None) -> Tensor:
        """Return the loss of a training batch: (). Embeddings are mixed, so that the CNN sees only real values.

        Some machines count as unknown, so that the network also learns to do without their baselines.
        """
        valid, baseline = _mask_if_padded(batch.valid), batch.baseline
        if baseline is not None:
            unknown = torch.rand(len(baseline), 1, 1, 1) < UNKNOWN_MACHINES
            baseline = baseline.masked_fill(unknown.to(baseline.device), math.nan)
        x = self.embed(batch.segments, valid, baseline)
        if mixing is not None:
            x = mixing.of_segments(x, valid)
        return self.attended_loss(x, valid, loss_of_part)

    def attended_loss(self, x: Tensor, valid: Tensor | None, loss_of_part: LossOfPart) -> Tensor:
        """Return the loss of embedded episodes: (b, t, s, d) → ()."""
        return self.loss_of_readings(x, valid, loss_of_part, slice(None))

    def loss_of_readings(self, x: Tensor, valid: Tensor | None, loss_of_part: LossOfPart, rows: slice) -> Tensor:
        """Return the mean loss of both readings of these rows of a batch, so that each learns to decide alone: ()."""
        readings = self.readings(x, valid)
        return torch.stack([loss_of_part(logit, rows) for logit in readings]).mean()

    def readings(self, x: Tensor, valid: Tensor | None) -> list[Tensor]:
        """Return the logits of the head that knows every sensor and, if there is one, of the summary: each (b,)."""
        for layer in self.layers:
            x, _ = layer(x, valid)
        found = [self.read(x, valid)[0]]
        return found if self.summary is None else [*found, self.summary(x, valid, self.dropout)[0]]

    def prepare_training(self, part: TrainingPart, coupling: Coupling | None = None) -> None:
        """Fit the quantiles for coding the statistics."""
        if self.quantile_features is None:
            return
        if self.machine_features is not None:
            assert coupling is not None  # as every detector with this setting learns one
            self.machine_features.coupling.copy_(torch.from_numpy(np.c_[coupling.weights, coupling.centre]))
        found, baselines = [], []
        for segments, baseline in draw_segments(part):
            found.append(self.statistics(segments))
            baselines.append(baseline)
        drawn = torch.cat(found)  # (n, s, k)
        self.quantile_features.fit(drawn[..., :N_STATISTICS])
        if self.machine_features is not None:
            known = [one for one in baselines if one is not None]
            self.machine_features.fit(drawn, torch.cat(known) if known else None)

    def statistics(self, segments: Tensor) -> Tensor:
        """Return statistics of segments, with those of residuals if machines are compared: (…, s, p) → (…, s, k)."""
        found = statistics(segments)
        return found if self.machine_features is None else self.machine_features.with_residual(found, segments)


class SpatioTemporalLayer(nn.Module):
    """Parallel temporal and spatial attention, added, then a feed-forward network [subsec:dependency_model].

    X ← LayerNorm(X + Dropout(X̂)) + LayerNorm(X + Dropout(X̄)),  X ← LayerNorm(X + Dropout(FF(X)))
    """

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        d = settings.d_model
        self.temporal = Attention(d, settings.heads)
        self.spatial = Attention(d, settings.heads)
        self.temporal_norm = nn.LayerNorm(d)
        self.spatial_norm = nn.LayerNorm(d)
        self.feedforward = FeedForward(d, settings.feedforward)
        self.norm = nn.LayerNorm(d)
        self.dropout: nn.Module = nn.Dropout(settings.dropout)

    def forward(
        self, x: Tensor, valid: Tensor | None = None, keep: AttentionPair | None = None
    ) -> tuple[Tensor, AttentionPair]:
        """Update each (segment, sensor) from the others: (b, t, s, d) → same; also return this layer's attention."""
        keep_temporal, keep_spatial = (None, None) if keep is None else keep
        along_time = self.temporal(rearrange(x, "b t s d -> b s t d"), valid=valid, keep=keep_temporal)
        along_sensors = self.spatial(x, keep=keep_spatial)
        x_hat = rearrange(along_time.context, "b s t d -> b t s d")
        x_bar = along_sensors.context  # (b, t, s, d)
        x = self.temporal_norm(x + self.dropout(x_hat)) + self.spatial_norm(x + self.dropout(x_bar))
        x = self.norm(x + self.dropout(self.feedforward(x)))
        return x, AttentionPair(along_time.weights, along_sensors.weights)


class SummaryReadout(nn.Module):
    """A head that sees the maximum and the mean over all sensors and segments, for machines never seen [ADR 28].

    The paper's head learns which sensor was odd on the machines of training; here it does not matter which one it is.
    """

    share: Tensor  # of this head in the logit, chosen on the validation part

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.head = ExactLinear(2 * settings.d_model, settings.head_width)
        self.logit = ExactLinear(settings.head_width, 1)
        self.register_buffer("share", torch.tensor(0.5))

    def forward(self, x: Tensor, valid: Tensor | None, dropout: nn.Module) -> tuple[Tensor, Tensor]:
        """Return logit and features: (b, t, s, d) → (b,), (b, head_width)."""
        largest = _only_valid(x, valid).amax(dim=(1, 2))  # (b, d)
        share = None if valid is None else segment_share(x, valid)  # (b, t)
        mean = _mean(x.mean(dim=2), share)  # (b, d)
        features = functional.relu(self.head(torch.cat([largest, mean], dim=1)))
        return self.logit(dropout(features)).squeeze(-1), features

    def contribution(self, x: Tensor, features: Tensor, valid: Tensor | None) -> Tensor:
        """Return the exact contribution of each (segment, sensor) to the logit: (b, t, s, d) → (b, t, s)."""
        active = self.logit.weight * (features > 0)  # (b, head_width)
        of_largest, of_mean = (active @ self.head.weight).chunk(2, dim=1)  # each (b, d)
        share = segment_share(x, valid).unsqueeze(-1)  # (b, t, 1)
        total = torch.einsum("btsd,bd->bts", x, of_mean) * share / x.shape[2]
        largest, cell = _only_valid(x, valid).flatten(1, 2).max(dim=1)  # each (b, d)
        return total + torch.zeros_like(total).flatten(1).scatter_add(1, cell, largest * of_largest).view_as(total)


class Attended(NamedTuple):
    """The output of an attention: the mixed values and the attention weights."""

    context: Tensor  # (a, b, item, d)
    weights: Tensor  # (a, b, h, q, k), rows sum to 1 before a keep-mask is applied


class Attention(nn.Module):
    """softmax(Q Kᵀ / √(M/h)) V over the items of a sequence, without output projection, as the paper's counts imply.

    All sequences share the same weights: sensors are the sequences if the items are segments, and vice versa.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(d_model / heads)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, *, valid: Tensor | None = None, keep: Tensor | None = None) -> Attended:
        """Mix each item with the others.

        Shape:
            x (a, b, item, d); valid (a, item), False for padding, which nothing may attend to;
            keep, broadcastable to (a, b, h, q, k), multiplies the weights without renormalising them
        """
        x = x.contiguous()  # one copy here instead of one in each projection
        q, k, v = (
            rearrange(project(x), "a b n (h m) -> a b h n m", h=self.heads)
            for project in (self.query, self.key, self.value)
        )
        logits = (q * self.scale) @ k.transpose(-1, -2)  # (a, b, h, q, k)
        if valid is not None:
            logits = logits.masked_fill(~rearrange(valid, "a k -> a 1 1 1 k"), -math.inf)
        weights = self.softmax(logits).to(v.dtype)
        if keep is not None:
            weights = weights * keep
        return Attended(rearrange(weights @ v, "a b h n m -> a b n (h m)"), weights)

    def softmax(self, logits: Tensor) -> Tensor:
        """Return the attention weights of each query: (…, k) → same."""
        return logits.softmax(dim=-1)


class FeedForward(nn.Module):
    """ReLU(x W₁ + b₁) W₂ + b₂ for each (segment, sensor) separately: (…, d) → (…, d)."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, width)
        self.narrow = nn.Linear(width, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to every row."""
        rows = x.flatten(0, -2)
        return self.narrow(functional.relu(self.widen(rows))).view(x.shape)  # type: ignore[no-any-return]


class SegmentProjection(nn.Module):
    """One linear map for the segments of all sensors, optionally followed by tanh [app:mh1dcnn, tab:linear_comp]."""

    def __init__(self, segment_length: int, d_model: int, *, tanh: bool) -> None:
        super().__init__()
        self.tanh = tanh
        self.projection = nn.Linear(segment_length, d_model, bias=False)

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor: (n, s, p) → (n, s, d)."""
        x: Tensor = self.projection(segments)
        return torch.tanh(x) if self.tanh else x


def _embedding(settings: NetworkShape) -> nn.Module | None:
    if settings.embedding == "statistics":
        return None
    if settings.embedding != "cnn":
        return SegmentProjection(settings.segment_length, settings.d_model, tanh=settings.embedding == "tanh")
    return SensorCNN(
        n_sensors=settings.n_sensors,
        blocks=settings.blocks,
        filters=settings.filters or MIN_FILTERS,
        kernel=settings.kernel,
        renormalise=settings.norm == "renorm",
    )


def pooled_width(settings: NetworkShape) -> int:
    """Return the number of inputs of the head per episode."""
    return settings.n_sensors * settings.d_model * (1 if settings.pooling == "mean" else 2)


def pool(x: Tensor, share: Tensor | None, pooling: Pooling) -> Tensor:
    """Return the mean over segments, as in the paper, or mean and deviation, which reveals spikes that a mean hides.

    Shape:
        x (b, t, c), share (b, t) of each segment in the mean, None if equal → (b, c) or (b, 2·c)
    """
    mean = _mean(x, share)
    if pooling == "mean":
        return mean
    return torch.cat([mean, _deviation(_mean((x - mean.unsqueeze(1)) ** 2, share))], dim=1)


def segment_share(x: Tensor, valid: Tensor | None) -> Tensor:
    """Return the share of each segment in a mean, 0 for padded ones: (b, t, …), (b, t) → (b, t)."""
    if valid is None:
        return x.new_full(x.shape[:2], 1 / x.shape[1])
    return valid.to(x.dtype) / valid.sum(dim=1, keepdim=True)


def _mean(x: Tensor, share: Tensor | None) -> Tensor:
    return x.mean(dim=1) if share is None else (x * share.unsqueeze(-1)).sum(dim=1)


def _only_valid(x: Tensor, valid: Tensor | None) -> Tensor:
    """Replace padded segments by -∞: (b, t, s, d) → same."""
    return x if valid is None else x.masked_fill(~valid[:, :, None, None], -math.inf)


def _deviation(variance: Tensor) -> Tensor:
    return (variance + LEAST_VARIANCE).sqrt()


def _mask_if_padded(valid: Tensor | None) -> Tensor | None:
    """Return None if no segment is padded, so that nothing has to be masked."""
    return None if valid is None or bool(valid.all()) else valid


def _mask_of_layer(keep: AttentionPair, number: int) -> AttentionPair:
    """Return one layer's part of a keep-mask; a mask with one layer applies to all."""
    temporal, spatial = (mask[:, 0 if mask.shape[1] == 1 else number] for mask in keep)
    return AttentionPair(temporal, spatial)


def _stack(layers: list[AttentionPair], valid: Tensor | None) -> AttentionPair:
    """Stack the weights of all layers into one pair, with padded segments set to 0."""
    temporal = torch.stack([pair.temporal for pair in layers], dim=1)  # (b, layer, s, h, q, k)
    spatial = torch.stack([pair.spatial for pair in layers], dim=1)  # (b, layer, t, h, q, k)
    if valid is not None:  # padded keys of the temporal attention are 0 already
        temporal = temporal * rearrange(valid, "b q -> b 1 1 1 q 1")
        spatial = spatial * rearrange(valid, "b t -> b 1 t 1 1 1")
    return AttentionPair(temporal, spatial)
