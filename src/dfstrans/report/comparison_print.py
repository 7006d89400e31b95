"""Models beside each other, for print, from the same numbers as the figure for the screen in `comparison`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.variants import CHANGE
from dfstrans.report.comparison import PANELS, bar, caption, shown_range
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.printing import new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_WIDTH = 24  # characters; longer names take several lines, so that the axes keep most of the width
CAPTION_WIDTH = 110  # characters
LINE_HEIGHT = 0.16  # inches


def write_print_comparison(folder: Path, result: ComparisonResult) -> list[Path]:
    """Write the figure as comparison.svg and comparison.png."""
    return write_figures(folder, {"comparison": lambda: print_comparison(result)}, ("svg", "png"))


def print_comparison(result: ComparisonResult) -> Figure:
    """Each split as a point, with the mean and standard deviation of each model."""
    labels = [wrapped(model) for model in result.models]
    most_lines = max(label.count("\n") + 1 for label in labels)
    figure = new_figure(1.2 + (0.12 + LINE_HEIGHT * most_lines) * len(labels))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1, wspace=0.04)
    panels = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        for row, model in enumerate(result.models):
            spread = result.spreads(model).get(name)
            if spread is not None:
                axes.plot(spread.values, [row] * len(spread.values), "o", color=NORMAL, alpha=0.55, markersize=5)
                low, high = bar(spread)
                reach = [[spread.mean - low], [high - spread.mean]]
                axes.errorbar(spread.mean, row, xerr=reach, fmt="|", color=ANOMALOUS, capsize=3)
        if (leak := result.leak(name)) is not None:
            axes.axvline(leak, color=INK, linewidth=0.8, linestyle="--")
        axes.set(title=title, yticks=range(len(labels)), yticklabels=labels)
        axes.set_xlim(shown_range(result, name))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(labels) - 0.5, -0.5)
    figure.supxlabel(textwrap.fill(caption(result), CAPTION_WIDTH), fontsize=7)
    return figure


def wrapped(model: str) -> str:
    """The name of a model on lines of at most 24 characters, each setting on one line if it can be.

    >>> wrapped("dfstrans+schedule=constant+epochs=2+mixup=0").splitlines()
    ['dfstrans', '+schedule=constant', '+epochs=2+mixup=0']
    """
    lines = textwrap.wrap(model.replace(CHANGE, f" {CHANGE}"), LABEL_WIDTH, break_on_hyphens=False)
    return "\n".join(lines).replace(f" {CHANGE}", CHANGE)
