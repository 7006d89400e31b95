"""DFStrans written in the obvious way, with loops over sensors and segments: what benchmarks compare with.

It has one attention module per sensor and one per segment, where the real network shares one among all sensors and one
among all segments. With the same weights in every copy it computes the same logits; a test proves it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import LEAST_VARIANCE, DFSTrans
from dfstrans.settings import NetworkShape

PARTS_OF_A_BLOCK = 4  # convolution, max-pooling, ReLU, batch norm


class LoopAttention(nn.Module):
    """softmax(Q Kᵀ / √(M/h)) V of one sequence: (b, item, d) → (b, item, d)."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        query, key, value = (
            project(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )  # (b, h, n, d/h)
        logits = query @ key.transpose(-1, -2) / math.sqrt(d / self.heads)
        context = torch.softmax(logits, dim=-1) @ value
        return context.transpose(1, 2).reshape(b, n, d)


class LoopLayer(nn.Module):
    """One attention per sensor over the segments, one per segment over the sensors; a plain feed-forward network."""

    def __init__(self, settings: NetworkShape, n_segments: int) -> None:
        super().__init__()
        d = settings.d_model
        self.temporal = nn.ModuleList(LoopAttention(d, settings.heads) for _ in range(settings.n_sensors))
        self.spatial = nn.ModuleList(LoopAttention(d, settings.heads) for _ in range(n_segments))
        self.temporal_norm = nn.LayerNorm(d)
        self.spatial_norm = nn.LayerNorm(d)
        self.feedforward = nn.Sequential(
            nn.Linear(d, settings.feedforward), nn.ReLU(), nn.Linear(settings.feedforward, d)
        )
        self.norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x_hat = torch.stack([attend(x[:, :, sensor]) for sensor, attend in enumerate(self.temporal)], dim=2)
        x_bar = torch.stack([attend(x[:, segment]) for segment, attend in enumerate(self.spatial)], dim=1)
        x = self.temporal_norm(x + self.dropout(x_hat)) + self.spatial_norm(x + self.dropout(x_bar))
        return self.norm(x + self.dropout(self.feedforward(x)))


class LoopNetwork(nn.Module):
    """Segments (b, t, s, p) in, logits (b,) out; no padding, no masks, no attention weights."""

    encoding: Tensor

    def __init__(self, settings: NetworkShape, n_segments: int) -> None:
        super().__init__()
        encoding = positional_encoding(settings.encoding, n_segments, settings.d_model)
        self.register_buffer("encoding", torch.as_tensor(encoding, dtype=torch.float32).unsqueeze(1))  # (t, 1, d)
        self.embeddings = nn.ModuleList(_sensor_cnn(settings) for _ in range(settings.n_sensors))
        self.layers = nn.ModuleList(LoopLayer(settings, n_segments) for _ in range(settings.layers))
        self.pooling = settings.pooling
        channels = settings.n_sensors * settings.d_model
        self.head = nn.Linear(channels if self.pooling == "mean" else 2 * channels, settings.head_width)
        self.logit = nn.Linear(settings.head_width, 1)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, segments: Tensor) -> Tensor:
        b, t, _, p = segments.shape
        embedded = [
            embed(segments[:, :, sensor].reshape(b * t, 1, p)).view(b, t, -1)
            for sensor, embed in enumerate(self.embeddings)
        ]
        x = self.dropout(torch.stack(embedded, dim=2) + self.encoding)  # (b, t, s, d)
        for layer in self.layers:
            x = layer(x)
        x = x.flatten(2)  # (b, t, s·d)
        pooled = x.mean(dim=1)
        if self.pooling != "mean":
            pooled = torch.cat([pooled, torch.sqrt(x.var(dim=1, correction=0) + LEAST_VARIANCE)], dim=1)
        x = self.dropout(torch.relu(self.head(pooled)))
        return self.logit(x).squeeze(-1)


def copy_weights(network: DFSTrans, reference: LoopNetwork) -> None:
    """Copy the weights of each module of the network to all its copies in the reference."""
    theirs = reference.state_dict()
    for name, value in network.state_dict().items():
        copies = names_in_reference(name, reference)
        parts = value.chunk(len(copies)) if is_per_sensor(name) and value.dim() else [value] * len(copies)
        for copy, part in zip(copies, parts, strict=True):
            theirs[copy].copy_(part)


def names_in_reference(name: str, reference: LoopNetwork) -> list[str]:
    """The names of a tensor of the network in the reference: one per sensor, one per segment, or just one."""
    first, *rest = name.split(".")
    if first == "embedding":
        kind, block, leaf = rest
        position = PARTS_OF_A_BLOCK * int(block) + {"convolutions": 0, "norms": 3}[kind]
        return [f"embeddings.{sensor}.{position}.{leaf}" for sensor in range(len(reference.embeddings))]
    if first != "layers":
        return [name]
    number, part, *leaf = rest
    if part in ("temporal", "spatial"):
        count = len(getattr(reference.layers[int(number)], part))
        return [".".join(["layers", number, part, str(copy), *leaf]) for copy in range(count)]
    return [name.replace("feedforward.widen", "feedforward.0").replace("feedforward.narrow", "feedforward.2")]


def is_per_sensor(name: str) -> bool:
    """Whether a tensor stacks separate weights of each sensor, rather than shared ones."""
    return name.startswith("embedding.")


def _sensor_cnn(settings: NetworkShape) -> nn.Sequential:
    """The convolutional network of one sensor: (n, 1, p) → (n, d_model)."""
    parts: list[nn.Module] = []
    for block in range(settings.blocks):
        inputs = 1 if block == 0 else settings.filters
        parts += [
            nn.Conv1d(inputs, settings.filters, settings.kernel, padding="same"),
            nn.MaxPool1d(2),
            nn.ReLU(),
            nn.BatchNorm1d(settings.filters),
        ]
    return nn.Sequential(*parts, nn.Flatten())
