"""Models beside each other: a page with the figure, the table and the tests."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.experiments.comparison import ComparisonResult, Spread
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.page import as_div, write_page

LEAST_SHOWN = 0.2  # of a figure between 0 and 1
PANELS = {"f1": "F1", "pr_auc": "PR-AUC"}
CAPTION = (
    "A point is one split; the mark and its bar are mean and standard deviation, drawn from 0 to 1 only. F1 is at the "
    "threshold of each split."
)
LEAK = " Dashed: neighbours, which look at no value: what knowing where an episode comes from gives."


def write_comparison(path: Path, result: ComparisonResult) -> Path:
    """Write a page that needs nothing from outside."""
    figure = as_div(comparison_figure(result))
    return write_page(path, "comparison.html", tables=result.tables(), figure=figure, caption=caption(result))


def caption(result: ComparisonResult) -> str:
    """What the marks of the figure are."""
    return CAPTION if result.leak("f1") is None else CAPTION + LEAK


def comparison_figure(result: ComparisonResult) -> go.Figure:
    """Each split as a point, with the mean and standard deviation of each model."""
    figure = make_subplots(cols=len(PANELS), shared_yaxes=True, subplot_titles=list(PANELS.values()))
    for column, name in enumerate(PANELS, start=1):
        for model in result.models:
            spread = result.spreads(model).get(name)
            if spread is None:
                continue
            figure.add_scatter(
                x=spread.values,
                y=[model] * len(spread.values),
                text=[f"split {cell.fold}" for cell in result.of(model)],
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
        if (leak := result.leak(name)) is not None:
            figure.add_vline(leak, line={"color": INK, "width": 1, "dash": "dash"}, row=1, col=column)
        figure.update_xaxes(range=shown_range(result, name), row=1, col=column)
    figure.update_yaxes(
        autorange="reversed", type="category", categoryorder="array", categoryarray=list(result.models), color=INK
    )
    return styled(figure, height=140 + 44 * len(result.models), showlegend=False)


def bar(spread: Spread) -> tuple[float, float]:
    """From where to where the bar of a mean goes: a standard deviation to both sides, as far as the figure can be.

    >>> bar(Spread(0.75, 0.5, [0.4, 1.0]))
    (0.25, 1.0)
    """
    reach = spread.std or 0.0
    return max(spread.mean - reach, 0.0), min(spread.mean + reach, 1.0)


def shown_range(result: ComparisonResult, name: str) -> tuple[float, float]:
    """From where to where a figure is drawn: all points and bars with a margin, at least a fifth of 0 to 1."""
    spreads = [spread for model in result.models if (spread := result.spreads(model).get(name)) is not None]
    ends = [end for spread in spreads for end in (*spread.values, *bar(spread))] or [0.0, 1.0]
    high = max(*ends, LEAST_SHOWN)
    low = min(*ends, high - LEAST_SHOWN)
    margin = 0.08 * (high - low)
    return low - margin, high + margin
