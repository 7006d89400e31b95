"""How soon a model is good: `python -m benchmarks.time_to_model MODEL ... --plot FILE.svg`.

Reads the training logs of saved models. A model is good from the first epoch on whose validation PR-AUC is within 1 %
of the best that the run reached.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from dfstrans.detectors.saved_model import LOG
from dfstrans.training.run_folder import LogRows, read_log

NEAR = 0.99  # of the best validation PR-AUC


def main(arguments: list[str] | None = None) -> None:
    """Print a table (or JSON), and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_to_model", description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--plot", type=Path, help="where to write the picture (.svg, .png, .pdf)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    logs = {model.name: read_log(model / LOG) for model in options.models}
    found = [{"model": name, **time_to_model(log)} for name, log in logs.items()]
    if options.plot:
        draw(logs, options.plot)
    print(json.dumps(found, indent=2) if options.json else _table(found))


def time_to_model(log: LogRows) -> dict[str, float]:
    """When a run was first within 1 % of its best validation PR-AUC, of how much in all.

    >>> rows = [{"validation_pr_auc": value, "seconds": 2.0} for value in (0.5, 0.895, 0.9, 0.8)]
    >>> time_to_model(rows)
    {'best_pr_auc': 0.9, 'epoch': 2, 'seconds': 4.0, 'epochs': 4, 'all_seconds': 8.0}
    """
    best = max(row["validation_pr_auc"] for row in log)
    epoch = next(n for n, row in enumerate(log, start=1) if row["validation_pr_auc"] >= NEAR * best)
    return {
        "best_pr_auc": best,
        "epoch": epoch,
        "seconds": sum(row["seconds"] for row in log[:epoch]),
        "epochs": len(log),
        "all_seconds": sum(row["seconds"] for row in log),
    }


def draw(logs: Mapping[str, LogRows], path: Path) -> None:
    """Validation PR-AUC over the seconds of training, with the moment from which a model is good."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, log in logs.items():
        seconds = list(accumulate(row["seconds"] for row in log))
        found = time_to_model(log)
        (line,) = axes.plot(seconds, [row["validation_pr_auc"] for row in log], label=name)
        axes.plot(found["seconds"], log[int(found["epoch"]) - 1]["validation_pr_auc"], "o", color=line.get_color())
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("validation PR-AUC")
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    axes.legend(title="dot: within 1 % of the best")
    figure.savefig(path)


def _table(found: list[dict[str, Any]]) -> str:
    lines = ["| model | best PR-AUC | epoch within 1 % | after s | epochs in all | s in all |", "|---" * 6 + "|"]
    for row in found:
        lines.append(
            f"| {row['model']} | {row['best_pr_auc']:.3f} | {row['epoch']} | {row['seconds']:.0f} | {row['epochs']} "
            f"| {row['all_seconds']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
