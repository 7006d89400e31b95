"""How far the network is from the loops and from the limit, in under a minute, as JSON: `python -m benchmarks.quick`.

At the elevator's shape, batch 16, one thread. A ratio to the loops is their seconds ÷ ours, memory ours ÷ theirs; over
the limit is our seconds ÷ those of the same arithmetic at the best rate of a matrix product in this run. Ours is what
precision "auto" means on this processor; fp32, the default of prediction, stands beside it.
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
    shown = {"train": {"train": ours}, "predict": {"predict": ours, "predict_fp32": "fp32"}}
    for task, precisions in shown.items():
        models = dict.fromkeys(("loop", *precisions.values()))
        cases = {model: case(model, SHAPES[SHAPE], task, BATCH) for model in models}
        measured = measure_in_turns(cases, ROUNDS[task])
        for key, precision in precisions.items():
            row = as_row(SHAPE, task, BATCH, measured, max(rates.values()), precision)
            result |= {
                f"{key}_ratio_vs_loop": row["ratio_vs_loop"],
                f"{key}_over_limit": row["over_limit"],
                f"{key}_memory_vs_loop": row["megabytes"][precision] / row["megabytes"]["loop"],
                f"{key}_seconds": row["seconds"][precision],
            }
    result["precision"] = ours
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
