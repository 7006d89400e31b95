"""What each change brings, for print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dfstrans.experiments.ablation import what_is_missing
from dfstrans.experiments.comparison import TESTED, ComparisonResult
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.printing import mark_as_no_result, new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_ablation_figure(folder: Path, name: str, result: ComparisonResult) -> list[Path]:
    """Write the figure as PDF, SVG and PNG."""
    return write_figures(folder, {name: lambda: print_ablation(result)}, ("pdf", "svg", "png"))


def print_ablation(result: ComparisonResult) -> Figure:
    """The gain of each change with its 95 % interval, and each split as a faint point behind it."""
    rivals = result.models[1:]
    figure = new_figure(1.1 + 0.27 * len(rivals))
    panels = figure.subplots(1, len(TESTED), sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(panels, TESTED.items(), strict=True):
        axes.axvline(0, color=INK, linewidth=0.7)
        tests = result.tests(name)
        for row, model in enumerate(rivals):
            if model not in tests:
                axes.text(0, row, " not finished", color="#6b7785", fontsize=7, va="center")
                continue
            test = tests[model]
            gains = result.gains(name, model)
            axes.plot(gains, [row] * len(gains), "o", color=NORMAL, alpha=0.35, markersize=3.5, linewidth=0)
            reach = (
                None
                if test.low is None or test.high is None
                else [[test.difference - test.low], [test.high - test.difference]]
            )
            axes.errorbar(
                test.difference, row, xerr=reach, fmt="D", color=ANOMALOUS, markersize=4, capsize=2.5, linewidth=1.1
            )
        axes.set_title(f"{title} gained")
        axes.set_yticks(range(len(rivals)), [what_is_missing(model) or model for model in rivals])
        axes.set_ylim(len(rivals) - 0.5, -0.5)
        axes.grid(axis="x", color="#e4e8ec", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.supxlabel("dfstrans minus the model without it, mean and 95 % interval; points: splits", fontsize=8)
    if any(cell.protocol.at_most is not None for cell in result.cells):
        mark_as_no_result(figure)
    return figure
