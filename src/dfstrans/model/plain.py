"""The network in plain operations, for any number of episodes and segments: what is exported.

`DFSTrans` works in parts that fit the processor and leaves padded segments out, which fixes its steps to one batch.
Here every segment takes the same way and padding is masked, with the same weights and the same result.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.model.attention import Attended, Attention
from dfstrans.model.embedding import SensorCNN
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans, SpatioTemporalLayer
from dfstrans.model.pooling import pool
from dfstrans.settings import NetworkShape


class PlainPass(NamedTuple):
    """What the exported network gives; padded segments have attention and relevance 0.

    The relevances are those of `diagnosis.scores`, from the last layer's attention, heads averaged.
    """

    logit: Tensor  # (b,) float32
    probability: Tensor  # (b,) float64, so that no two logits share a probability near 0 or 1
    temporal_attention: Tensor  # (b, layer, s, h, q, k)
    spatial_attention: Tensor  # (b, layer, t, h, q, k)
    global_temporal_relevance: Tensor  # (b, t)
    global_spatial_relevance: Tensor  # (b, s)


class PlainNetwork(nn.Module):
    """A trained network and its calibration, probability = σ((logit − shift) / temperature).

    Shape:
        segments (b, t, s, p), scaled, without NaN; valid (b, t), False for padded segments
    """

    def __init__(self, network: DFSTrans, shift: float, temperature: float) -> None:
        super().__init__()
        self.network = network
        self.shift = shift
        self.temperature = temperature
        self.encoding = _Encoding(network.settings)

    def forward(self, segments: Tensor, valid: Tensor) -> PlainPass:
        """Score episodes and show the attention behind it."""
        network = self.network
        present = valid.to(segments.dtype)  # (b, t)
        share = present / present.sum(dim=1, keepdim=True)  # (b, t), sums to 1
        x = _embed(network.embedding, segments)  # (b, t, s, d)
        if network.quantile_features is not None:
            x = x + network.quantile_features(segments)
        x = x + self.encoding(valid).unsqueeze(1)
        temporal, spatial = [], []
        for layer in network.layers:
            x, along_time, along_sensors = _mix(layer, x, valid)  # type: ignore[arg-type]
            temporal.append(along_time * rearrange(present, "b q -> b 1 1 q 1"))
            spatial.append(along_sensors * rearrange(present, "b t -> b t 1 1 1"))
        pooled = pool(x.flatten(2), share, network.settings.pooling)  # (b, s·d), or twice that
        logit = network.logit(functional.relu(network.head(pooled))).squeeze(-1)  # (b,)
        moment = temporal[-1].mean(dim=2).sum(dim=2).mean(dim=1)  # (b, s, h, q, k) → (b, t)
        at_moments = spatial[-1].mean(dim=2).sum(dim=2)  # (b, t, h, q, k) → (b, t, s)
        sensor = ((moment * share).unsqueeze(1) @ at_moments).squeeze(1)  # (b, s)
        return PlainPass(
            logit,
            torch.sigmoid((logit.double() - self.shift) / self.temperature),
            torch.stack(temporal, dim=1),
            torch.stack(spatial, dim=1),
            moment,
            sensor,
        )


class _Encoding(nn.Module):
    """The positional encoding of as many segments as `valid` has: (b, t) → (t, d).

    The faithful one has at most d rows, all kept; the vanilla one has no end and is computed.
    """

    rows: Tensor

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.name, self.d_model = settings.encoding, settings.d_model
        if self.name == "faithful":
            rows = positional_encoding("faithful", self.d_model, self.d_model)
            self.register_buffer("rows", torch.as_tensor(rows, dtype=torch.float32))

    def forward(self, valid: Tensor) -> Tensor:
        n_segments = valid.shape[1]
        if self.name == "faithful":
            return self.rows[:n_segments]
        if self.name == "none":
            return torch.zeros(n_segments, self.d_model)
        position = torch.arange(n_segments, dtype=torch.float64).unsqueeze(1)
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64)
        angle = position * 10_000.0 ** (-even / self.d_model)
        return torch.stack([torch.sin(angle), torch.cos(angle)], dim=2).flatten(1).float()


def _embed(embedding: nn.Module, segments: Tensor) -> Tensor:
    """(b, t, s, p) → (b, t, s, d)."""
    if not isinstance(embedding, SensorCNN):
        embedded: Tensor = embedding(segments)
        return embedded
    x = segments.flatten(0, 1)  # (b·t, s, p), then (b·t, s·filters, p/2), …
    for convolution, norm in zip(embedding.convolutions, embedding.norms, strict=True):
        x = norm(functional.relu(functional.max_pool1d(convolution(x), 2)))
    return x.reshape(*segments.shape[:3], -1)


def _mix(layer: SpatioTemporalLayer, x: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One layer; also its temporal and its spatial attention."""
    along_time = _attend(layer.temporal, rearrange(x, "b t s d -> b s t d"), valid)
    along_sensors = _attend(layer.spatial, x)
    x_hat = rearrange(along_time.context, "b s t d -> b t s d")
    x = layer.temporal_norm(x + x_hat) + layer.spatial_norm(x + along_sensors.context)
    rows = x.flatten(0, 2)  # two axes, so that product, bias and ReLU become one step
    narrow = layer.feedforward.narrow(functional.relu(layer.feedforward.widen(rows)))
    return layer.norm(x + narrow.view(x.shape)), along_time.weights, along_sensors.weights


def _attend(attention: Attention, x: Tensor, valid: Tensor | None = None) -> Attended:
    """(a, b, item, d) mixed along the items; nothing attends to items that are not valid (a, item)."""
    a, b, n, _ = x.shape
    q, k, v = (
        rearrange(project(x.flatten(0, 2)), "(a b n) (h m) -> a b h n m", a=a, b=b, n=n, h=attention.heads)
        for project in (attention.query, attention.key, attention.value)
    )
    logits = (q * attention.scale) @ k.transpose(-1, -2)
    if valid is not None:
        logits = logits.masked_fill(~rearrange(valid, "a n -> a 1 1 1 n"), -math.inf)
    weights = logits.softmax(dim=-1)
    return Attended(rearrange(weights @ v, "a b h n m -> a b n (h m)"), weights)
