"""Speed and memory beside loops, plain operations and the limit, in one run: `python -m benchmarks.network`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.matrix_rate import measure_matrix_rates
from benchmarks.options import add_shapes, add_threads, new_parser, parsed
from benchmarks.timing import progress
from benchmarks.turns import LONG, Measured, measure_in_turns
from benchmarks.workload import BATCHES, MODELS, SHAPES, auto_precision, case, count_flops, measured_models
from dfstrans.model.arithmetic import bf16_is_fast

HEADER = (
    "| shape | task | batch | loop s | plain s | ours fp32 s | ours bf16 s | limit s | loop ÷ ours | plain ÷ ours "
    "| ours ÷ limit | loop MB | plain MB | ours MB |\n" + "|---" * 14 + "|"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    rates: dict[str, float] = {}
    measured = []
    for name in options.shapes:
        progress(f"{name}: matrix products")
        found = measure_matrix_rates(options.rounds, options.threads)
        rates = {precision: max(rate, rates.get(precision, 0.0)) for precision, rate in found.items()}
        for task, batches in BATCHES.items():
            for batch in batches:
                progress(f"{name}: {task}, batch {batch}")
                measured.append((name, task, batch, measure(name, task, batch, options)))
                progress(_line(as_row(*measured[-1], max(rates.values()))))  # what an interrupted run leaves
    rows = [as_row(*one, max(rates.values())) for one in measured]  # the best rate of the whole run
    result = {"threads": options.threads, "rounds": options.rounds, "matrix_gflops": rates, "rows": rows}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure(name: str, task: str, batch: int, options: argparse.Namespace) -> dict[str, Measured]:
    """Seconds and memory of each model that is measured there."""
    cases = {model: case(model, SHAPES[name], task, batch) for model in measured_models()}
    return measure_in_turns(cases, options.rounds, options.threads, options.long)


def as_row(
    name: str, task: str, batch: int, measured: dict[str, Measured], gflops: float, precision: str | None = None
) -> dict[str, Any]:
    """One row of the table; `ours` is the network in this precision, or as "auto" computes it."""
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


def _table(result: dict[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in result["matrix_gflops"].items())
    bf16 = "" if bf16_is_fast() else "; bf16: not on this processor"
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
    parser = new_parser("network", __doc__)
    add_shapes(parser)
    add_threads(parser)
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (3)")
    parser.add_argument("--long", type=float, default=LONG, help=f"seconds from which one call is enough ({LONG:g})")
    return parsed(parser, arguments, "rounds", "threads")


if __name__ == "__main__":
    main()
