"""What a comparison writes: a page with its figure, and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.files import atomic_write
from dfstrans.lab.compare.comparison import TESTED, ComparisonResult, ResultTable, Spread
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.page import as_div, write_page

LEAST_SHOWN = 0.2  # length of an axis
CAPTION = (
    "A point is one split; the mark and its bar are mean and standard deviation, clipped to 0 … 1. F1 is at the "
    "threshold of each split."
)
LEAKAGE_CAPTION = " Dashed: the leakage check, which only knows where an episode was recorded."


def write_comparison(folder: Path, result: ComparisonResult) -> list[Path]:
    """Write a self-contained page with the figure, the tables and the tests; and the tables as Markdown.

    Results with a baseline of the test machines have its name in their files.
    """
    baseline = result.runs[0].protocol.baseline
    name = "comparison" if baseline == "none" else f"comparison_{baseline}"
    tables, figure = result.tables(), as_div(comparison_figure(result))
    caption = CAPTION if result.leakage("f1") is None else CAPTION + LEAKAGE_CAPTION
    parts: dict[str, Any] = {"tables": tables, "figure": figure, "caption": caption}
    page = write_page(folder / f"{name}.html", "comparison.html", package="dfstrans.lab", **parts)
    return [page, write_tables(folder / f"{name}.md", tables)]


def write_tables(path: Path, tables: Iterable[ResultTable]) -> Path:
    """Write tables as Markdown."""
    with atomic_write(path) as temporary:
        temporary.write_text("\n".join(table.to_markdown() for table in tables), encoding="utf-8")
    return path


def comparison_figure(result: ComparisonResult) -> go.Figure:
    """Each split as a point, with the mean and standard deviation of each model."""
    figure = make_subplots(cols=len(TESTED), shared_yaxes=True, subplot_titles=list(TESTED.values()))
    for column, name in enumerate(TESTED, start=1):
        place = {"row": 1, "col": column}
        spreads = {model: spread for model in result.models if (spread := result.spreads(model).get(name))}
        for model, spread in spreads.items():
            figure.add_scatter(
                x=spread.values,
                y=[model] * len(spread.values),
                text=[f"split {run.fold}" for run in result.of(model)],
                mode="markers",
                marker={"color": NORMAL, "size": 9, "opacity": 0.55},
                hovertemplate="%{y}, %{text}: %{x:.3f}<extra></extra>",
                **place,
            )
            low, high = error_bar(spread)
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
                **place,
            )
        if (leakage := result.leakage(name)) is not None:
            figure.add_vline(leakage, line={"color": INK, "width": 1, "dash": "dash"}, **place)
        figure.update_xaxes(range=_shown_range([*spreads.values()]), **place)
    figure.update_yaxes(
        autorange="reversed", type="category", categoryorder="array", categoryarray=list(result.models), color=INK
    )
    return styled(figure, height=140 + 44 * len(result.models), showlegend=False)


def error_bar(spread: Spread) -> tuple[float, float]:
    """The ends of an error bar: one standard deviation to both sides, clipped to 0 … 1.

    >>> error_bar(Spread(0.75, 0.5, [0.4, 1.0]))
    (0.25, 1.0)
    """
    reach = spread.std or 0.0
    return max(spread.mean - reach, 0.0), min(spread.mean + reach, 1.0)


def _shown_range(spreads: list[Spread]) -> tuple[float, float]:
    """The range of an axis: all points and bars with a margin, at least a fifth of 0 … 1."""
    ends = [end for spread in spreads for end in (*spread.values, *error_bar(spread))] or [0.0, 1.0]
    high = max(*ends, LEAST_SHOWN)
    low = min(*ends, high - LEAST_SHOWN)
    margin = 0.08 * (high - low)
    return low - margin, high + margin
