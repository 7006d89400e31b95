"""How far the network is from the loops and from the limit, in under a minute, as JSON: `python -m benchmarks.quick`.

At the elevator's shape, batch 16, one thread. A ratio to the loops is their seconds ÷ ours, memory ours ÷ theirs; over
the limit is our seconds ÷ those of the same arithmetic at the best rate of a matrix product in this run. Ours is what
precision "auto" means on this processor; prediction in fp32, its default, stands beside it.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.matrix_rate import measure_matrix_rates
from benchmarks.network import as_row
from benchmarks.turns import measure_in_turns
from benchmarks.workload import SHAPES, auto_precision, case

SHAPE, BATCH = "elevator", 16
ROUNDS = {"train": 1, "predict": 2}  # after a first call that does not count, for the sake of the minute


def main() -> None:
    """Measure and print."""
    rates = measure_matrix_rates(max(ROUNDS.values()))
    result: dict[str, Any] = {"shape": SHAPE, "batch": BATCH, "threads": 1, "matrix_gflops": rates}
    ours = auto_precision()
    for task, rounds in ROUNDS.items():
        models = dict.fromkeys(("loop", ours) if task == "train" else ("loop", ours, "fp32"))
        cases = {model: case(model, SHAPES[SHAPE], task, BATCH) for model in models}
        row = as_row(SHAPE, task, BATCH, measure_in_turns(cases, rounds), max(rates.values()))
        result |= {
            f"{task}_ratio_vs_loop": row["ratio_vs_loop"],
            f"{task}_over_limit": row["over_limit"],
            f"{task}_memory_vs_loop": row["megabytes"][ours] / row["megabytes"]["loop"],
            f"{task}_seconds": row["seconds"][ours],
            f"{task}_precision": ours,
        }
    exact = row["seconds"]["fp32"]  # of the last task, prediction
    result |= {
        "predict_fp32_ratio_vs_loop": row["seconds"]["loop"] / exact,
        "predict_fp32_over_limit": exact / row["limit_seconds"],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
