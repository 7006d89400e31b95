"""What is measured: the paper's four shapes, and a training step and a prediction of either network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.reference import LoopNetwork
from dfstrans.config import NetworkSettings, TrainingSettings
from dfstrans.model.network import DFSTrans
from dfstrans.training.fit import bf16_is_fast

BATCH = TrainingSettings().batch_size
TASKS = ("train", "predict")
MODELS = ("reference", "network")


class Shape(NamedTuple):
    """The size of one data set's episodes."""

    n_sensors: int
    n_segments: int
    segment_length: int

    @property
    def settings(self) -> NetworkSettings:
        return NetworkSettings(n_sensors=self.n_sensors, segment_length=self.segment_length)

    @property
    def text(self) -> str:
        return f"{self.n_sensors}×{self.n_segments}×{self.segment_length}"


SHAPES = {
    "elevator": Shape(20, 80, 100),
    "SMD": Shape(38, 10, 50),
    "MSL": Shape(55, 10, 50),
    "SMAP": Shape(25, 10, 50),
}


def build(model: str, shape: Shape) -> nn.Module:
    """A network with random weights, the same at every call."""
    torch.manual_seed(0)
    if model == "reference":
        return LoopNetwork(shape.settings, shape.n_segments)
    return DFSTrans(shape.settings)


def tasks(model: str, network: nn.Module, shape: Shape, batch: int = BATCH) -> dict[str, Callable[[], None]]:
    """One call, one training step or one prediction of a batch.

    The network trains in the precision that `fit` would choose on this machine and predicts in fp32, as `Diagnoser`
    does; the reference does both in fp32.
    """
    generator = torch.Generator().manual_seed(1)
    segments = torch.rand(batch, shape.n_segments, shape.n_sensors, shape.segment_length, generator=generator)
    labels = (torch.arange(batch) % 2).float()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    bf16 = model == "network" and bf16_is_fast()

    def logits() -> Tensor:
        result = network(segments)
        return result if isinstance(result, Tensor) else result.logit

    def train() -> None:
        network.train()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            output = logits()
        functional.binary_cross_entropy_with_logits(output.float(), labels).backward()
        optimizer.step()

    def predict() -> None:
        network.eval()
        with torch.inference_mode():
            logits()

    return {"train": train, "predict": predict}


def count_flops(shape: Shape, task: str, batch: int = BATCH) -> float:
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
    head = s * d * settings.head_width + settings.head_width
    forward = 2.0 * (settings.layers * (projections + products + feedforward) + convolutions + head)
    return batch * forward * (3 if task == "train" else 1)
