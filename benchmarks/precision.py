"""Accuracy of training in bf16 against fp32: `python -m benchmarks.precision DATA --results FOLDER`.

The same splits and seeds in both precisions, on a processor that supports bf16. One JSON file per split and precision;
existing runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.measure import progress
from dfstrans import Diagnoser, Episodes, load_episodes
from dfstrans.data.splits import folds
from dfstrans.errors import DfstransError
from dfstrans.files import atomic_write
from dfstrans.lab.compare.protocols import protocol_name
from dfstrans.lab.compare.runs import circumstances
from dfstrans.model.detector import bf16_is_fast

PRECISIONS: tuple[Literal["32", "bf16"], ...] = ("32", "bf16")
FIGURES = ("f1", "pr_auc")
SEED = 0  # of splits and training


def main(arguments: list[str] | None = None) -> None:
    """Compute the missing runs, then print a table or JSON; progress goes to stderr."""
    options = _parse(arguments)
    if not bf16_is_fast():
        raise DfstransError("expected a processor with bf16, got one without; run this on another machine")
    torch.set_num_threads(1)
    reading = {name: value for name in ("length", "stride", "spacecraft") if (value := getattr(options, name))}
    episodes = load_episodes(options.data, **reading)
    splits = list(folds(episodes.require_labels(), None, k=options.splits, seed=SEED))
    settings = {"epochs": options.epochs} if options.epochs else {}
    runs = []
    for number, rows in enumerate(splits):
        parts = [episodes[some] for some in rows]
        for precision in PRECISIONS:
            path = options.results / f"split_{number}_{precision}.json"
            asked = {"split": number, "data": options.data.name, "precision": precision, **reading, **settings}
            if not path.exists():
                progress(f"split {number}, {precision}")
                how = {"seed": SEED, "protocol": protocol_name(reading, "random"), "command": _command(asked)}
                found = {**asked, **train(parts, precision, settings), **how, **circumstances()}
                with atomic_write(path) as temporary:
                    temporary.write_text(json.dumps(found, indent=2) + "\n")
            runs.append(_matching(path, asked))
    print(json.dumps(runs, indent=2) if options.json else table(runs))


def train(parts: list[Episodes], precision: Literal["32", "bf16"], settings: dict[str, Any]) -> dict[str, Any]:
    """The test metrics of a model trained on the first part and calibrated on the second."""
    detector = Diagnoser.from_settings(**settings, precision=precision, seed=SEED).fit(parts[0], validation=parts[1])
    found = detector.evaluate(parts[2]).to_dict()
    return {name: found[name] for name in FIGURES}


def _command(asked: dict[str, Any]) -> str:
    """The command that computes all runs, with the name instead of the path of the recordings.

    >>> _command({"data": "telemanom", "split": 1, "precision": "32", "length": 500, "spacecraft": "MSL"})
    'python -m benchmarks.precision telemanom --length 500 --spacecraft MSL --results RESULTS'
    """
    given = {name: value for name, value in asked.items() if name not in ("data", "split", "precision")}
    options = [f"--{name} {value}" for name, value in given.items()]
    return " ".join(["python -m benchmarks.precision", asked["data"], *options, "--results RESULTS"])


def _matching(path: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """The content of a result file, after checking that it belongs to the request."""
    found: dict[str, Any] = json.loads(path.read_text())
    if {name: found.get(name) for name in asked} != asked or ("epochs" in found) != ("epochs" in asked):
        raise DfstransError(f"expected the result of {asked} in {path}, got another one; choose another folder")
    return found


def table(runs: list[dict[str, Any]]) -> str:
    """Print the metrics of each split, and the mean difference with its standard deviation."""
    lines = ["| split | F1, fp32 | F1, bf16 | PR-AUC, fp32 | PR-AUC, bf16 |", "|---|---|---|---|---|"]
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    for exact, rough in pairs:
        row = [exact["f1"], rough["f1"], exact["pr_auc"], rough["pr_auc"]]
        lines.append(f"| {exact['split']} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    for name in FIGURES:
        differences = [rough[name] - exact[name] for exact, rough in pairs]
        spread = f" ± {np.std(differences, ddof=1):.3f}" if len(pairs) > 1 else ""
        lines.append(f"bf16 minus fp32, {name}: {np.mean(differences):+.3f}{spread} ({len(pairs)} splits)")
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--length", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--spacecraft")
    parser.add_argument("--splits", type=int, default=3, help="different splits (3)")
    parser.add_argument("--epochs", type=int, help="maximum number of epochs (default: that of Diagnoser)")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
