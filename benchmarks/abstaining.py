"""Errors on recordings that are like training, and on those that are not.

    python -m benchmarks.abstaining FOLDER --results results/abstaining.jsonl --figure docs/images/abstaining.svg

FOLDER holds telemanom/, ServerMachineDataset/ and elevator_small.h5 (`dfstrans simulate elevator --preset small`).

For each split, `--model trees` is trained, and the test part is sorted by novelty. The risk at a coverage of 80 % is
the share of wrong decisions, at the threshold of the model, among the 80 % that are least unlike training. Protocols:

- "grouped": the machines of the test part are unknown.
- "grouped, own": they are compared with themselves, as with --own-baseline.
- "no-overlap": random splits, so that machines of the test part are known.

Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dfstrans import Episodes, load_episodes
from dfstrans.data.splits import Split
from dfstrans.detectors.trees import TreesClassifier
from dfstrans.files import atomic_write
from dfstrans.lab.compare.protocols import splits_of
from dfstrans.lab.compare.runs import circumstances
from dfstrans.lab.paper.request import DATA_SETS, recordings_of
from dfstrans.report.print_figures import STYLE, UNDATED, WIDTH

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
COLOURS = {"smd": "#c2410c", "smap": "#1d4ed8", "msl": "#15803d", "elevator": "#7e22ce"}
GROUPED, OWN, KNOWN = "grouped", "grouped, own", "no-overlap"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the recordings")
    parser.add_argument("--sets", nargs="+", default=list(COLOURS), choices=list(COLOURS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--results", type=Path, help="file to write, one line of JSON for each part")
    parser.add_argument("--figure", type=Path, help="SVG file to write")
    given = parser.parse_args()
    torch.set_num_threads(1)
    here, found = circumstances(), []
    for name in given.sets:
        path, read = recordings_of(name, "grouped", given.data, "small")
        episodes = load_episodes(path, **read)
        for kind in ("grouped", "random"):
            for number, split in enumerate(splits_of(episodes, kind, given.splits, 0)):
                for one in measure(episodes, split, known=kind == "random", trees=given.trees):
                    found.append({"data": name, "split": number, **one, **here})
                    print(json.dumps({**found[-1], "versions": None}), file=sys.stderr, flush=True)
    if given.results:
        with atomic_write(given.results) as temporary:
            temporary.write_text("".join(json.dumps(one) + "\n" for one in found))
    if given.figure:
        draw(found, given.figure)
    print(table(found))


def measure(episodes: Episodes, split: Split, *, known: bool, trees: int) -> list[dict[str, Any]]:
    """Train on a split, and return the errors of its test part by coverage, for each protocol."""
    train, validation, test = (episodes[rows] for rows in split)
    detector = TreesClassifier(trees=trees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector.fit(train, validation=validation)
        if known:
            return [{"protocol": KNOWN, **risks(detector, test)}]
        own = detector.with_own_baselines(test)
        return [{"protocol": GROUPED, **risks(detector, test)}, {"protocol": OWN, **risks(own, test)}]


def risks(detector: TreesClassifier, test: Episodes) -> dict[str, Any]:
    """Return the share of wrong decisions by coverage, and the same of what counts as seen before and of the rest."""
    labels, novelty = test.require_labels(), detector.novelty(test)
    wrong, unseen = detector.predict(test) != labels, novelty > 1
    by_novelty = wrong[np.argsort(novelty, kind="stable")]
    return {
        "episodes": len(test),
        "risk": {f"{share:g}": float(by_novelty[: round(share * len(test))].mean()) for share in COVERAGES},
        "seen": None if unseen.all() else float(wrong[~unseen].mean()),
        "not_seen": None if not unseen.any() else float(wrong[unseen].mean()),
        "share_of_normal": float(unseen[labels == 0].mean()),
        "share_of_anomalous": float(unseen[labels == 1].mean()),
    }


def curves(found: list[dict[str, Any]], data: str, protocol: str) -> npt.NDArray[np.float64]:
    """Return the risk by split and coverage."""
    return np.array([list(one["risk"].values()) for one in found if (one["data"], one["protocol"]) == (data, protocol)])


def table(found: list[dict[str, Any]]) -> str:
    """Return the means over splits as a Markdown table."""
    columns = ("data", "protocol", "all", "80 %", "50 %", "normal", "anomalous")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for data, protocol in dict.fromkeys((one["data"], one["protocol"]) for one in found):
        own = [one for one in found if (one["data"], one["protocol"]) == (data, protocol)]
        mean = curves(found, data, protocol).mean(axis=0)
        shown = [f"{mean[COVERAGES.index(share)]:.3f}" for share in (1.0, 0.8, 0.5)]
        shown += [f"{100 * np.mean([one[f'share_of_{kind}'] for one in own]):.0f} %" for kind in columns[-2:]]
        lines.append(f"| {' | '.join([DATA_SETS[data].title, protocol, *shown])} |")
    return "\n".join(lines)


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean risk over splits by coverage, a panel for each protocol."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.6))
        panels = figure.subplots(1, 3, sharey=True)
        for axes, protocol in zip(panels, (GROUPED, OWN, KNOWN), strict=True):
            for data in dict.fromkeys(one["data"] for one in found):
                mean = 100 * curves(found, data, protocol).mean(axis=0)
                title = DATA_SETS[data].title
                axes.plot(100 * np.array(COVERAGES), mean, color=COLOURS[data], marker="o", markersize=3, label=title)
            axes.set_title(protocol)
            axes.set_xlabel("coverage in %")
            axes.invert_xaxis()
        panels[0].set_ylabel("wrong decisions in %")
        panels[0].set_ylim(bottom=0)
        panels[-1].legend(loc="center right")
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="svg", metadata=UNDATED["svg"])


if __name__ == "__main__":
    main()
