"""Speed and memory of the network against loops, the plain network and the limit: `python -m benchmarks.network`.

`loop` is the model as Python loops over sensors and segments, `plain` is `DFSTrans`, `fp32` and `bf16` are
`FastDFSTrans`; "ours" is the precision that "auto" chooses on this processor. The limit is the same number of
operations at the rate of the fastest matrix product of this run. `--quick` prints one shape as JSON, in under a minute.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.measure import LONG, Case, Measured, measure_in_turns, measure_matrix_rates, new_parser, progress
from benchmarks.reference import LoopNetwork
from dfstrans.model.detector import Batch, bf16_is_fast, uses_bf16
from dfstrans.model.fast import FastDFSTrans
from dfstrans.model.network import DFSTrans, pooled_width
from dfstrans.model.quantile_features import N_OF_RESIDUAL, N_STATISTICS
from dfstrans.settings import NetworkShape

MODELS = ("loop", "plain", "fp32", "bf16")
BATCHES = {"train": (16, 64), "predict": (1, 16, 256)}
QUICK_SHAPE, QUICK_BATCH = "elevator", 16
LEAST_MEGABYTES = 1e-3  # where the system reports no growth
QUICK_ROUNDS = {"train": 1, "predict": 2}
DEFAULT_ROUNDS = 5
TINY = 2  # episodes of the warm-up call
HEADER = (
    "| shape | task | batch | loop s | plain s | ours fp32 s | ours bf16 s | limit s | loop ÷ ours | plain ÷ ours "
    "| ours ÷ limit | loop MB | plain MB | ours MB |\n" + "|---" * 14 + "|"
)


class Shape(NamedTuple):
    """Size of the episodes of a data set, and whether the network is the default one or has the paper's widths."""

    n_sensors: int
    n_segments: int
    segment_length: int
    default: bool = False

    @property
    def settings(self) -> NetworkShape:
        sizes = {"n_sensors": self.n_sensors, "segment_length": self.segment_length}
        return NetworkShape(**sizes) if self.default else NetworkShape.paper(**sizes)

    @property
    def text(self) -> str:
        return f"{self.n_sensors}×{self.n_segments}×{self.segment_length}"


SHAPES = {
    "elevator": Shape(20, 80, 100),
    "SMD": Shape(38, 10, 50),
    "MSL": Shape(55, 10, 50),
    "SMAP": Shape(25, 10, 50),
}
DEFAULT_SHAPES = {"SMD": Shape(38, 10, 50, default=True), "small elevator": Shape(20, 20, 100, default=True)}
DEFAULT_BATCH = 64


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print a table or JSON; progress goes to stderr."""
    options = _parse(arguments)
    if options.quick:
        print(json.dumps(measure_quickly(), indent=2))
        return
    rates: dict[str, float] = {}
    measured = []
    for name in options.shapes:
        progress(f"{name}: matrix products")
        found = measure_matrix_rates(options.rounds, options.threads)
        rates = {precision: max(rate, rates.get(precision, 0.0)) for precision, rate in found.items()}
        for task, batches in BATCHES.items():
            for batch in batches:
                progress(f"{name}: {task}, batch {batch}")
                cases = {model: case(model, SHAPES[name], task, batch) for model in measured_models()}
                one = measure_in_turns(cases, options.rounds, options.threads, options.long)
                measured.append((name, task, batch, one))
                progress(_line(as_row(*measured[-1], max(rates.values()))))  # keeps the results of an interrupted run
    rows = [as_row(*one, max(rates.values())) for one in measured]  # the best rate of the whole run
    result = {"threads": options.threads, "rounds": options.rounds, "matrix_gflops": rates, "rows": rows}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure_quickly() -> dict[str, Any]:
    """Ratios at one shape and batch; prediction also in fp32, its default."""
    rates = measure_matrix_rates(max(QUICK_ROUNDS.values()))
    ours = auto_precision()
    result: dict[str, Any] = {"shape": QUICK_SHAPE, "batch": QUICK_BATCH, "threads": 1, "matrix_gflops": rates}
    shown = {"train": {"train": ours}, "predict": {"predict": ours, "predict_fp32": "fp32"}}
    for task, precisions in shown.items():
        models = dict.fromkeys(("loop", *precisions.values()))
        cases = {model: case(model, SHAPES[QUICK_SHAPE], task, QUICK_BATCH) for model in models}
        measured = measure_in_turns(cases, QUICK_ROUNDS[task])
        for key, precision in precisions.items():
            row = as_row(QUICK_SHAPE, task, QUICK_BATCH, measured, max(rates.values()), precision)
            result |= {
                f"{key}_ratio_vs_loop": row["ratio_vs_loop"],
                f"{key}_over_limit": row["over_limit"],
                f"{key}_memory_vs_loop": row["megabytes"][precision] / max(row["megabytes"]["loop"], LEAST_MEGABYTES),
                f"{key}_seconds": row["seconds"][precision],
            }
    over = {}
    for name, shape in DEFAULT_SHAPES.items():
        measured = measure_in_turns({ours: case(ours, shape, "train", DEFAULT_BATCH)}, DEFAULT_ROUNDS)
        over[name] = measured[ours].seconds * max(rates.values()) * 1e9 / count_flops(shape, "train", DEFAULT_BATCH)
    return {**result, "default_train_over_limit": over, "precision": ours}


def as_row(
    name: str, task: str, batch: int, measured: dict[str, Measured], gflops: float, precision: str | None = None
) -> dict[str, Any]:
    """One row of the table; "ours" uses `precision`, by default that of "auto"."""
    ours = measured[precision or auto_precision()]
    limit = count_flops(SHAPES[name], task, batch) / gflops / 1e9
    return {
        "shape": name,
        "task": task,
        "batch": batch,
        "seconds": {model: one.seconds for model, one in measured.items()},
        "megabytes": {model: one.megabytes for model, one in measured.items()},
        "limit_seconds": limit,
        "ratio_vs_loop": measured["loop"].seconds / ours.seconds,
        "ratio_vs_plain": measured["plain"].seconds / ours.seconds if "plain" in measured else None,
        "over_limit": ours.seconds / limit,
    }


def measured_models() -> list[str]:
    """The versions to measure; bf16 only if the processor supports it."""
    return [model for model in MODELS if model != "bf16" or bf16_is_fast()]


def auto_precision() -> str:
    """The precision that "auto" chooses on this processor."""
    return "bf16" if uses_bf16("auto") else "fp32"


def case(model: str, shape: Shape, task: str, batch: int) -> Case:
    """A case that measures a training step or a prediction."""
    small = Shape(2, 2, 16, shape.default)
    return Case(warm_up=lambda: prepare(model, small, task, TINY)(), prepare=lambda: prepare(model, shape, task, batch))


def prepare(model: str, shape: Shape, task: str, batch: int) -> Callable[[], None]:
    """A function that runs one training step or prediction on a batch of random values."""
    network = build(model, shape)
    segments = torch.rand(
        batch,
        shape.n_segments,
        shape.n_sensors,
        shape.segment_length,
        generator=torch.Generator().manual_seed(1),
    )
    labels = (torch.arange(batch) % 2).float()
    baseline = None
    if shape.settings.machine_features:
        n_statistics = N_STATISTICS + N_OF_RESIDUAL
        baseline = torch.ones(batch, shape.n_sensors, 2, n_statistics, dtype=torch.float64)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    network.train(task == "train")

    def precision() -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if model == "bf16" else nullcontext()

    def train() -> None:
        optimizer.zero_grad()
        with precision():
            loss = training_loss(network, Batch(segments, None, labels, baseline))
        loss.backward()
        optimizer.step()

    def predict() -> None:
        with torch.inference_mode(), precision():
            network(segments)

    return train if task == "train" else predict


def training_loss(network: nn.Module, batch: Batch) -> Tensor:
    """The loss of a batch as `fit` computes it, without class weights."""

    def entropy(logits: Tensor, rows: slice) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits.float(), batch.labels[rows], reduction="sum")

    if isinstance(network, DFSTrans):
        return network.training_loss(batch, entropy)
    return entropy(network(batch.segments), slice(None))


def build(model: str, shape: Shape) -> nn.Module:
    """A network with random weights from a fixed seed."""
    torch.manual_seed(0)
    if model == "loop":
        return LoopNetwork(shape.settings, shape.n_segments)
    return (DFSTrans if model == "plain" else FastDFSTrans)(shape.settings)


def count_flops(shape: Shape, task: str, batch: int) -> float:
    """Floating-point operations of the matrix products of a batch; a training step is three forward passes.

    Recomputation to save memory does not count.
    """
    settings = shape.settings
    s, t, d = shape.n_sensors, shape.n_segments, settings.d_model
    projections = 2 * 3 * s * t * d * d
    products = 2 * (s * t * t * d + t * s * s * d)  # Q Kᵀ and weights · V, along time and along sensors
    feedforward = 2 * s * t * d * settings.feedforward
    head = pooled_width(settings) * settings.head_width + settings.head_width
    if settings.readout == "both":
        head += 2 * d * settings.head_width + settings.head_width
    forward = 2.0 * (settings.layers * (projections + products + feedforward) + s * t * _embedding(settings) + head)
    return batch * forward * (3 if task == "train" else 1)


def _embedding(settings: NetworkShape) -> int:
    """Multiplications that embed a segment of a sensor."""
    if settings.embedding == "statistics":
        of_machine = (N_STATISTICS + N_OF_RESIDUAL) * (settings.quantile_features + 1)
        of_residual = settings.n_sensors * settings.segment_length
        return (N_STATISTICS * settings.quantile_features + of_machine) * settings.d_model + of_residual
    assert settings.filters is not None
    inputs = [1] + [settings.filters] * (settings.blocks - 1)
    lengths = [settings.segment_length // 2**block for block in range(settings.blocks)]
    return sum(points * i * settings.filters * settings.kernel for points, i in zip(lengths, inputs, strict=True))


def _table(result: dict[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in result["matrix_gflops"].items())
    bf16 = "" if bf16_is_fast() else "; bf16: not supported by this processor"
    head = f"threads: {result['threads']}, rounds: {result['rounds']}; best matrix product: {rates} GFLOPS{bf16}"
    return "\n".join([head, "", HEADER, *map(_line, result["rows"])])


def _line(row: dict[str, Any]) -> str:
    seconds, megabytes = row["seconds"], row["megabytes"]
    cells = [
        f"{row['shape']} {SHAPES[row['shape']].text}",
        row["task"],
        str(row["batch"]),
        *(_number(seconds.get(model), 3) for model in MODELS),
        _number(row["limit_seconds"], 3),
        _number(row["ratio_vs_loop"], 2),
        _number(row["ratio_vs_plain"], 2),
        _number(row["over_limit"], 2),
        *(_number(megabytes.get(model), 0) for model in ("loop", "plain", auto_precision())),
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("network", __doc__, rounds=3)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="NAME", help="all four")
    parser.add_argument(
        "--long", type=float, default=LONG, help=f"a call longer than this many seconds is measured once ({LONG:g})"
    )
    parser.add_argument("--quick", action="store_true", help=f"the shape {QUICK_SHAPE}, batch {QUICK_BATCH}, as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
