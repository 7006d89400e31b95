"""Detection on machines that were never seen, by the number of recordings in their baseline.

    python -m benchmarks.commissioning ServerMachineDataset --length 500 --stride 500 \
        --results results/smd_commissioning.jsonl --figure docs/images/commissioning_smd.svg

Half of the machines, drawn at random for each split, train `--model trees`; the others are held out. All figures of a
split are PR-AUC on the same recordings: those of the held-out machines after their first 20. No label of a held-out
machine is used.

- "before": each held-out machine is commissioned with its latest recordings before the evaluated ones.
- "whole period": the recordings are drawn at random from the whole period. The evaluated ones are divided into four
  parts, and those of a part are compared with others only.
- "own baseline": the evaluated recordings themselves are the baseline, as with --own-baseline.

Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import average_precision_score

from dfstrans import Episodes, load_episodes
from dfstrans.detectors.trees import TreesClassifier
from dfstrans.files import atomic_write
from dfstrans.lab.compare.runs import circumstances
from dfstrans.report.print_figures import STYLE, UNDATED, WIDTH

BEFORE = 20  # recordings of a machine that are never evaluated
SIZES = {"before": (0, 3, 5, 10, 20), "whole period": (0, 3, 5, 10, 20, 40)}  # recordings of each machine
PARTS = 4  # of the evaluated recordings
COLOURS = {"before": "#c2410c", "whole period": "#1d4ed8"}
Rows = npt.NDArray[np.intp]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="recordings of many machines, each with more than 20")
    parser.add_argument("--length", type=int, help="points of a piece")
    parser.add_argument("--stride", type=int, help="points from one piece to the next")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--results", type=Path, help="file to write, one line of JSON for each split")
    parser.add_argument("--figure", type=Path, help="SVG file to write")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cut = {name: getattr(given, name) for name in ("length", "stride") if getattr(given, name)}
    episodes = load_episodes(given.data, **cut)
    here = circumstances()
    splits = []
    for seed in range(given.splits):
        splits.append(measure(episodes, seed, given.trees))
        print(f"split {seed}: {json.dumps(splits[-1])}", file=sys.stderr, flush=True)
    if given.results:
        with atomic_write(given.results) as temporary:
            temporary.write_text("".join(json.dumps({**one, **here}) + "\n" for one in splits))
    if given.figure:
        draw(splits, given.figure)
    for name, scores in all_scores(splits).items():
        gain = scores - curve(splits, "before")[0]
        print(f"{name:<16}  {scores.mean():.3f} ± {spread(scores):.3f}  gain {gain.mean():+.3f} ± {spread(gain):.3f}")


def measure(episodes: Episodes, seed: int, trees: int) -> dict[str, Any]:
    """Return PR-AUC by protocol and number of recordings, for one random half of the machines."""
    rng = np.random.default_rng(seed)
    groups = episodes.require_groups()
    machines = rng.permutation(np.unique(groups))
    held_out = np.sort(machines[len(machines) // 2 :])
    detector = TreesClassifier(trees=trees, seed=seed).fit(episodes[~np.isin(groups, held_out)])
    rows = {str(name): np.flatnonzero(groups == name) for name in held_out}  # in the order of recording
    evaluated = np.concatenate([own[BEFORE:] for own in rows.values()])
    labels = episodes.require_labels()[evaluated]
    found: dict[str, Any] = {
        "seed": seed,
        "held_out": len(held_out),
        "episodes": len(evaluated),
        "chance": float(labels.mean()),
    }
    for protocol, sizes in SIZES.items():
        found[protocol] = {}
        for n in sizes:
            logits = np.empty(len(episodes))
            for part, baseline in _baselines(rows, protocol, n, rng):
                logits[part] = _logits(detector, episodes, part, baseline)
            found[protocol][n] = float(average_precision_score(labels, logits[evaluated]))
    tested = episodes[evaluated]
    own = detector.with_own_baselines(tested).decision_function(tested)
    return {**found, "own baseline": float(average_precision_score(labels, own))}


def _baselines(rows: dict[str, Rows], protocol: str, n: int, rng: np.random.Generator) -> list[tuple[Rows, Rows]]:
    """Return the evaluated rows, in parts, each with the `n` rows of every machine that are its baseline."""
    if protocol == "before":
        evaluated, before = ([own[part] for own in rows.values()] for part in (slice(BEFORE, None), slice(BEFORE)))
        return [(np.concatenate(evaluated), np.concatenate([own[BEFORE - n :] for own in before]))]
    parts = []
    for number in range(PARTS):
        evaluated = [own[BEFORE:][number::PARTS] for own in rows.values()]
        others = [np.setdiff1d(own, part) for own, part in zip(rows.values(), evaluated, strict=True)]
        drawn = [rng.choice(own, min(n, len(own)), replace=False) for own in others]
        parts.append((np.concatenate(evaluated), np.concatenate(drawn)))
    return parts


def _logits(detector: TreesClassifier, episodes: Episodes, part: Rows, baseline: Rows) -> npt.NDArray[np.float64]:
    commissioned = copy.copy(detector)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(baseline):
            commissioned.commission(episodes[baseline])
        return commissioned.decision_function(episodes[part])


def curve(splits: list[dict[str, Any]], protocol: str) -> dict[int, npt.NDArray[np.float64]]:
    """Return the PR-AUC of all splits by the number of recordings."""
    return {n: np.array([one[protocol][n] for one in splits]) for n in SIZES[protocol]}


def all_scores(splits: list[dict[str, Any]]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the PR-AUC of all splits by protocol and number of recordings."""
    found = {f"{name} {n}": scores for name in SIZES for n, scores in curve(splits, name).items()}
    return {**found, "own baseline": np.array([one["own baseline"] for one in splits])}


def spread(scores: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation over splits."""
    return float(np.std(scores, ddof=1))


def draw(splits: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean over splits of each curve, and the range between their quartiles."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * 0.8, 2.8))
        axes = figure.subplots()
        for protocol, colour in COLOURS.items():
            found = curve(splits, protocol)
            low, high = np.quantile(list(found.values()), [0.25, 0.75], axis=1)
            axes.fill_between(list(found), low, high, color=colour, alpha=0.12, linewidth=0)
            means = [scores.mean() for scores in found.values()]
            axes.plot(list(found), means, color=colour, marker="o", markersize=3.5, label=protocol)
        axes.set_xlabel("recordings in the baseline of each machine")
        axes.set_ylabel("PR-AUC")
        axes.set_xticks(SIZES["whole period"])
        axes.legend(title="drawn from", loc="lower right")
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="svg", metadata=UNDATED["svg"])


if __name__ == "__main__":
    main()
