"""A page on planted faults: how well each kind and strength is detected and diagnosed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.errors import counted
from dfstrans.lab.injection.settings import KINDS
from dfstrans.lab.injection.study import CellResult, StudyResult
from dfstrans.report.figures import styled
from dfstrans.report.page import as_div, write_page
from dfstrans.training.evaluation import LEVEL, enough_to_tell, rank_sum_chance

RELIABLE = 0.8  # of the trials detected, at a strength and at all greater ones


def verdict(result: StudyResult) -> list[str]:
    """A sentence each on the kinds that are found reliably, on those that are found at times, and on the others."""
    found, partly, below, hidden, untold = [], [], [], [], []
    for kind in dict.fromkeys(cell.kind for cell in result.cells):
        cells = sorted((cell for cell in result.cells if cell.kind == kind), key=lambda cell: cell.strength)
        told_apart = [cell for cell in cells if _told_apart(cell, result.normal_tested)]
        reliable = _reliable_from(cells, told_apart)
        if not any(enough_to_tell(cell.episodes, result.normal_tested) for cell in cells):
            untold.append(kind)
        elif not told_apart:
            hidden.append(kind)
        elif not any(cell.detected for cell in told_apart):
            below.append(f"{kind} (at {_strengths(told_apart)})")
        elif reliable is None:
            partly.append(f"{kind} (at most {max(cell.recall or 0.0 for cell in told_apart):.0%})")
        else:
            found.append(f"{kind} from {KINDS[kind].shown(reliable)} on")
    said = {
        f"found in at least {RELIABLE:.0%} of the trials": found,
        "found at times, not reliably at the strengths tried": partly,
        "ranked above normal episodes, but never over the threshold": below,
        "not told from normal episodes at the strengths tried": hidden,
        "too few trials to tell": untold,
    }
    return [f"{words}: {', '.join(kinds)}" for words, kinds in said.items() if kinds]


def _strengths(cells: Sequence[CellResult]) -> str:
    """Strengths of one kind, with their unit."""
    *weaker, strongest = cells
    return ", ".join([*(f"{cell.strength:g}" for cell in weaker), strongest.shown_strength])


def _reliable_from(cells: Sequence[CellResult], told_apart: Sequence[CellResult]) -> float | None:
    """The least strength from which on a kind is told apart and found reliably; `cells` from the weakest on."""
    least = None
    for cell in reversed(cells):
        if cell not in told_apart or cell.recall is None or cell.recall < RELIABLE:
            break
        least = cell.strength
    return least


def _told_apart(cell: CellResult, normal: int) -> bool:
    """Whether guessing would hardly order faults and normal episodes as well, by the rank-sum test."""
    return cell.roc_auc is not None and rank_sum_chance(cell.roc_auc, cell.episodes, normal) <= LEVEL


PANELS = {
    "recall": "detected",
    "sensor_hit_rate": "right sensor, of those",
    "segment_hit": "right moment, of those",
}
SCALE = [[0.0, "#f8e3e0"], [0.5, "#f6eccf"], [1.0, "#7fbf9b"]]  # dark text can be read on all of it


def write_injection(path: Path, result: StudyResult, recordings: str, command: str) -> Path:
    """Write the page, which needs nothing from outside, with the recordings and the command that gave it."""
    return write_page(
        path,
        "injection.html",
        result=result,
        epochs=counted(result.epochs, "epoch"),
        recordings=recordings,
        command=command,
        cells=result.cells,
        chance_check=result.chance_check,
        verdict=verdict(result),
        figure=as_div(strength_figure(result)),
    )


def strength_figure(result: StudyResult) -> go.Figure:
    """Kinds of fault against strengths, weakest first: share detected, and of these the right sensor and moment.

    Under the first stands the strength, since each kind has a unit of its own; under the others how many were detected.
    """
    kinds = list(dict.fromkeys(cell.kind for cell in result.cells))
    of_kind = {kind: [cell for cell in result.cells if cell.kind == kind] for kind in kinds}
    n_levels = max(len(cells) for cells in of_kind.values())
    names = [f"{kind}<br><span style='font-size:11px;color:#616e7c'>{of_kind[kind][0].unit}</span>" for kind in kinds]
    figure = make_subplots(
        cols=len(PANELS), shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=list(PANELS.values())
    )
    for column, metric in enumerate(PANELS, start=1):
        rows = [_padded(of_kind[kind], n_levels) for kind in kinds]
        figure.add_heatmap(
            x=list(range(1, n_levels + 1)),
            y=names,
            z=[[None if cell is None else cell.value(metric) for cell in row] for row in rows],
            coloraxis="coloraxis",
            xgap=3,
            ygap=3,
            hoverinfo="skip",
            row=1,
            col=column,
        )
        for name, row in zip(names, rows, strict=True):  # a heat map's own text has one line only
            for level, cell in enumerate(row, start=1):
                figure.add_annotation(x=level, y=name, text=_label(cell, metric), showarrow=False, row=1, col=column)
    ends = ["weakest", *[""] * (n_levels - 2), "strongest"] if n_levels > 1 else [""]
    figure.update_xaxes(tickvals=list(range(1, n_levels + 1)), ticktext=ends, showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0.5, n_levels + 0.5])  # a panel without any value would choose another one
    figure.update_yaxes(type="category", categoryarray=names, range=[len(names) - 0.5, -0.5], showgrid=False)
    bar = {"title": "share", "thickness": 12, "tickformat": ".0%"}
    figure = styled(figure, height=130 + 52 * len(kinds), coloraxis={"colorscale": SCALE, "cmin": 0, "cmax": 1})
    figure.update_layout(coloraxis_colorbar=bar, margin_l=130, plot_bgcolor="#ffffff")
    return figure


def _padded(cells: list[CellResult], n_levels: int) -> list[CellResult | None]:
    return [*cells, *[None] * (n_levels - len(cells))]


def _label(cell: CellResult | None, metric: str) -> str:
    """A figure, and below it the strength, or how many were detected: a hundred per cent of one means little."""
    if cell is None:
        return ""
    value = cell.value(metric)
    shown = "–" if value is None else f"{value:.0%}"
    below = f"at {cell.strength:g}" if metric == "recall" else f"of {cell.detected}"
    return f"<b>{shown}</b><br><span style='font-size:11px'>{below}</span>"
