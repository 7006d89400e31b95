"""Detection on several 70/15/15 splits of a data set: one JSON file per split, and their mean.

    python -m benchmarks.detection ServerMachineDataset --length 500 --stride 500 --results docs/results/smd_500

A split that is there already is not computed again, so an interrupted run goes on, and splits can be computed side by
side (`--fold 0` in one process, `--fold 1` in another).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dfstrans import Diagnoser, Episodes, load_episodes
from dfstrans.artifact import library_versions
from dfstrans.data.splits import folds
from dfstrans.files import written_atomically

FIGURES = ("precision", "recall", "f1", "pr_auc", "false_alarms_per_100_normal", "seconds_per_epoch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--length", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--spacecraft")
    parser.add_argument("--split", choices=("random", "grouped"), default="random")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--fold", type=int, action="append", help="compute this one only; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--settings", type=json.loads, default={}, help="Diagnoser arguments as JSON")
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    reading = {name: getattr(given, name) for name in ("length", "stride", "spacecraft") if getattr(given, name)}
    episodes = load_episodes(given.data, **reading)
    groups = episodes.groups if given.split == "grouped" else None
    splits = list(folds(episodes.require_labels(), groups, k=given.folds, seed=given.seed))
    protocol = {**reading, "split": given.split, "folds": given.folds, "seed": given.seed, "settings": given.settings}
    for number in given.fold if given.fold is not None else range(given.folds):
        path = given.results / f"fold_{number}.json"
        if path.exists():
            print(f"fold {number} is there already", file=sys.stderr)
            continue
        result = run_split(episodes, splits[number], given.settings)
        content = {"fold": number, "data": given.data.name, "protocol": protocol, **result, **circumstances()}
        with written_atomically(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(summary(given.results), indent=2))


def run_split(episodes: Episodes, split: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Train on one part, settle on the second, test on the third."""
    train, validation, test = (episodes[rows] for rows in split)
    detector = Diagnoser(**settings).fit(train, validation=validation, progress=True)
    seconds = float(np.median([row["seconds"] for row in detector.log_]))
    return {
        "test": {**detector.evaluate(test).to_dict(), "seconds_per_epoch": seconds},
        "validation": detector.metrics_["validation"],
        "epochs": len(detector.log_),
        "best_epoch": detector.best_epoch_,
    }


def summary(results: Path) -> dict[str, Any]:
    """Mean and standard deviation over the splits that are there."""
    tests = [json.loads(path.read_text())["test"] for path in sorted(results.glob("fold_*.json"))]
    columns = {name: [test[name] for test in tests] for name in FIGURES}
    return {
        "splits": len(tests),
        **{
            name: {"mean": float(np.mean(c)), "std": float(np.std(c, ddof=1))}
            for name, c in columns.items()
            if len(c) > 1
        },
    }


def circumstances() -> dict[str, Any]:
    """The commit, the versions and the number of threads."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"commit": commit, "versions": library_versions(), "threads": torch.get_num_threads()}


if __name__ == "__main__":
    main()
