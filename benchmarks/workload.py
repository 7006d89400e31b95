"""What is measured: the paper's four shapes, and a training step and a prediction of each way to compute them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.reference import LoopNetwork
from benchmarks.turns import Case
from dfstrans.data.episodes import Episodes
from dfstrans.model.arithmetic import bf16_is_fast, uses_bf16
from dfstrans.model.network import DFSTrans
from dfstrans.model.plain import PlainNetwork
from dfstrans.model.pooling import pooled_width
from dfstrans.settings import NetworkShape

MODELS = ("loop", "plain", "fp32", "bf16")
BATCHES = {"train": (16, 64), "predict": (1, 16, 256)}
TINY = 2  # episodes of a first call, after which the libraries have loaded all they need


class Shape(NamedTuple):
    """The size of one data set's episodes; the network's widths are the paper's."""

    n_sensors: int
    n_segments: int
    segment_length: int

    @property
    def settings(self) -> NetworkShape:
        return NetworkShape.paper(n_sensors=self.n_sensors, segment_length=self.segment_length)

    @property
    def text(self) -> str:
        return f"{self.n_sensors}×{self.n_segments}×{self.segment_length}"


SHAPES = {
    "elevator": Shape(20, 80, 100),
    "SMD": Shape(38, 10, 50),
    "MSL": Shape(55, 10, 50),
    "SMAP": Shape(25, 10, 50),
}


def random_episodes(shape: Shape, n_episodes: int) -> Episodes:
    """Episodes of noise, every other one anomalous."""
    size = (n_episodes, shape.n_sensors, shape.n_segments * shape.segment_length)
    values = np.random.default_rng(0).normal(size=size).astype(np.float32)
    return Episodes.from_arrays(values, np.arange(n_episodes) % 2)


def measured_models() -> list[str]:
    """The ways to compute that are measured here: bf16 only where the processor has it."""
    return [model for model in MODELS if model != "bf16" or bf16_is_fast()]


def auto_precision() -> str:
    """What `precision="auto"` means here, in training and, where it is asked for, in prediction."""
    return "bf16" if uses_bf16("auto") else "fp32"


def case(model: str, shape: Shape, task: str, batch: int) -> Case:
    """A training step or a prediction, ready to be measured."""
    small = Shape(2, 2, 16)
    return Case(warm_up=lambda: prepare(model, small, task, TINY)(), prepare=lambda: prepare(model, shape, task, batch))


def prepare(model: str, shape: Shape, task: str, batch: int) -> Callable[[], None]:
    """A function whose call is one training step or one prediction of a batch of random values."""
    network = build(model, shape)
    generator = torch.Generator().manual_seed(1)
    segments = torch.rand(batch, shape.n_segments, shape.n_sensors, shape.segment_length, generator=generator)
    labels = (torch.arange(batch) % 2).float()
    inputs = (segments, torch.ones(segments.shape[:2], dtype=torch.bool)) if model == "plain" else (segments,)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4) if task == "train" else None
    network.train(optimizer is not None)

    def logits() -> Tensor:
        result = network(*inputs)
        return (result if isinstance(result, Tensor) else result.logit).float()

    def loss() -> Tensor:
        return training_loss(network, segments, labels) if isinstance(network, DFSTrans) else _entropy(logits(), labels)

    def precision() -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if model == "bf16" else nullcontext()

    def train() -> None:
        optimizer.zero_grad()
        with precision():
            total = loss()
        total.backward()
        optimizer.step()

    def predict() -> None:
        with torch.inference_mode(), precision():
            logits()

    return train if optimizer else predict


def training_loss(network: DFSTrans, segments: Tensor, labels: Tensor) -> Tensor:
    """The loss of a batch as `fit` takes it, but for weights of classes."""
    return network.training_loss(segments, None, labels, lambda logits, rows: _entropy(logits.float(), labels[rows]))


def _entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")


def build(model: str, shape: Shape) -> nn.Module:
    """A network with random weights, the same at every call."""
    torch.manual_seed(0)
    if model == "loop":
        return LoopNetwork(shape.settings, shape.n_segments)
    network = DFSTrans(shape.settings)
    return PlainNetwork(network, shift=0.0, temperature=1.0) if model == "plain" else network


def count_flops(shape: Shape, task: str, batch: int) -> float:
    """Multiplications and additions in the products of a batch; a training step is three times a forward pass.

    What a step computes a second time to save memory does not count.
    """
    settings = shape.settings
    s, t, d, f = shape.n_sensors, shape.n_segments, settings.d_model, settings.filters
    inputs = [1] + [f] * (settings.blocks - 1)
    lengths = [shape.segment_length // 2**block for block in range(settings.blocks)]
    convolutions = s * t * sum(points * i * f * settings.kernel for points, i in zip(lengths, inputs, strict=True))
    projections = 2 * 3 * s * t * d * d
    products = 2 * (s * t * t * d + t * s * s * d)  # Q Kᵀ and weights · V, along time and along sensors
    feedforward = 2 * s * t * d * settings.feedforward
    head = pooled_width(s * d, settings.pooling) * settings.head_width + settings.head_width
    forward = 2.0 * (settings.layers * (projections + products + feedforward) + convolutions + head)
    return batch * forward * (3 if task == "train" else 1)
