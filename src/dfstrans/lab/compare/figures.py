"""The page and the figures of a comparison."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.lab.compare.comparison import TESTED, ComparisonResult, Spread
from dfstrans.lab.compare.variants import CHANGE
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.page import as_div, write_page
from dfstrans.report.print_figures import new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_SHOWN = 0.2  # length of an axis
CAPTION = (
    "A point is one split; the mark and its bar are mean and standard deviation, clipped to 0 … 1. F1 is at the "
    "threshold of each split."
)
LEAKAGE_CAPTION = " Dashed: the leakage baseline, which only knows where an episode was recorded."


def write_comparison(path: Path, result: ComparisonResult) -> Path:
    """Write a self-contained page with the figure, the tables and the tests."""
    figure = as_div(comparison_figure(result))
    return write_page(
        path, "comparison.html", package="dfstrans.lab", tables=result.tables(), figure=figure, caption=caption(result)
    )


def caption(result: ComparisonResult) -> str:
    """The explanation of the marks in the figure."""
    return CAPTION if result.leakage("f1") is None else CAPTION + LEAKAGE_CAPTION


def comparison_figure(result: ComparisonResult) -> go.Figure:
    """Each split as a point, with the mean and standard deviation of each model."""
    figure = make_subplots(cols=len(TESTED), shared_yaxes=True, subplot_titles=list(TESTED.values()))
    for column, name in enumerate(TESTED, start=1):
        for model in result.models:
            spread = result.spreads(model).get(name)
            if spread is None:
                continue
            figure.add_scatter(
                x=spread.values,
                y=[model] * len(spread.values),
                text=[f"split {run.fold}" for run in result.of(model)],
                mode="markers",
                marker={"color": NORMAL, "size": 9, "opacity": 0.55},
                hovertemplate="%{y}, %{text}: %{x:.3f}<extra></extra>",
                row=1,
                col=column,
            )
            low, high = bar(spread)
            figure.add_scatter(
                x=[spread.mean],
                y=[model],
                error_x={
                    "array": [high - spread.mean],
                    "arrayminus": [spread.mean - low],
                    "symmetric": False,
                    "color": ANOMALOUS,
                    "thickness": 2,
                    "width": 6,
                },
                mode="markers",
                marker={"color": ANOMALOUS, "size": 13, "symbol": "line-ns", "line": {"color": ANOMALOUS, "width": 3}},
                hovertemplate="%{y}: mean %{x:.3f}<extra></extra>",
                row=1,
                col=column,
            )
        if (leakage := result.leakage(name)) is not None:
            figure.add_vline(leakage, line={"color": INK, "width": 1, "dash": "dash"}, row=1, col=column)
        figure.update_xaxes(range=shown_range(result, name), row=1, col=column)
    figure.update_yaxes(
        autorange="reversed", type="category", categoryorder="array", categoryarray=list(result.models), color=INK
    )
    return styled(figure, height=140 + 44 * len(result.models), showlegend=False)


def bar(spread: Spread) -> tuple[float, float]:
    """The ends of an error bar: one standard deviation to both sides, clipped to 0 … 1.

    >>> bar(Spread(0.75, 0.5, [0.4, 1.0]))
    (0.25, 1.0)
    """
    reach = spread.std or 0.0
    return max(spread.mean - reach, 0.0), min(spread.mean + reach, 1.0)


def shown_range(result: ComparisonResult, name: str) -> tuple[float, float]:
    """The range of an axis: all points and bars with a margin, at least a fifth of 0 … 1."""
    spreads = [spread for model in result.models if (spread := result.spreads(model).get(name)) is not None]
    ends = [end for spread in spreads for end in (*spread.values, *bar(spread))] or [0.0, 1.0]
    high = max(*ends, LEAST_SHOWN)
    low = min(*ends, high - LEAST_SHOWN)
    margin = 0.08 * (high - low)
    return low - margin, high + margin


LABEL_WIDTH = 24  # characters; longer names wrap, so that the axes keep most of the width
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
    panels = figure.subplots(1, len(TESTED), sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(panels, TESTED.items(), strict=True):
        for row, model in enumerate(result.models):
            spread = result.spreads(model).get(name)
            if spread is not None:
                axes.plot(spread.values, [row] * len(spread.values), "o", color=NORMAL, alpha=0.55, markersize=5)
                low, high = bar(spread)
                reach = [[spread.mean - low], [high - spread.mean]]
                axes.errorbar(spread.mean, row, xerr=reach, fmt="|", color=ANOMALOUS, capsize=3)
        if (leakage := result.leakage(name)) is not None:
            axes.axvline(leakage, color=INK, linewidth=0.8, linestyle="--")
        axes.set(title=title, yticks=range(len(labels)), yticklabels=labels)
        axes.set_xlim(shown_range(result, name))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(labels) - 0.5, -0.5)
    figure.supxlabel(textwrap.fill(caption(result), CAPTION_WIDTH), fontsize=7)
    return figure


def wrapped(model: str) -> str:
    """The name of a model on lines of at most 24 characters, broken between settings if possible.

    >>> wrapped("dfstrans+schedule=constant+epochs=2+mixup=0").splitlines()
    ['dfstrans', '+schedule=constant', '+epochs=2+mixup=0']
    """
    lines = textwrap.wrap(model.replace(CHANGE, f" {CHANGE}"), LABEL_WIDTH, break_on_hyphens=False)
    return "\n".join(lines).replace(f" {CHANGE}", CHANGE)
