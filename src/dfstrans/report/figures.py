"""Interactive figures of diagnoses and of a detector's performance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from sklearn.metrics import precision_recall_curve

from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.views import (
    Array,
    AttentionView,
    Line,
    edges,
    lanes,
    range_times,
    ranking_scale,
    ranking_title,
    shaded,
    signals,
    spans,
)

NORMAL, ANOMALOUS, INK = "#4c78a8", "#d1495b", "#1f2933"
GREY, GREEN = "#9aa5b1", "#66a182"
MARKED = "rgba(209, 73, 91, 0.16)"
NORMAL_RANGE = "rgba(102, 161, 130, 0.22)"
NEAREST = "#7fa3c9"
KNOWN = "#edae49"
TITLE_HEIGHT = 24  # pixels
MOST_TICKS = 6  # on a time axis
_SECOND, _DAY = 1e3, 864e5  # in the unit of axes with dates
_DATES = (  # between these steps of the ticks, short enough for a phone: the date below the time, once a day
    (None, _SECOND, "%H:%M:%S.%3f\n%b %-d"),
    (_SECOND, 60 * _SECOND, "%H:%M:%S\n%b %-d"),
    (60 * _SECOND, _DAY, "%H:%M\n%b %-d"),
    (_DAY, "M1", "%b %-d\n%Y"),
    ("M1", None, "%b\n%Y"),
)
MANY_CELLS = 40  # in a row of a matrix
FIXED = {"fixedrange": True}  # disables zooming of an axis
DECADES = np.array([1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000], dtype=np.float64)


def signals_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """Plot the top-ranked sensors, each in its own unit, with the top-ranked moments shaded [fig:PAJ38].

    If known, the range of normal recordings and the most similar normal recording are behind each signal. The last
    panel shows the values by which moments are ranked.
    """
    shown, clock = signals(diagnosis, recording), diagnosis.clock
    last = len(shown) + 1
    height = 140 * len(shown) + 130
    scale = " (1 is typical)" if diagnosis.occlusion is None else ""
    figure = make_subplots(
        rows=last,
        shared_xaxes=True,
        row_heights=[*[1.0] * len(shown), 0.75],
        vertical_spacing=34 / (height - 80),
        subplot_titles=[*(one.title for one in shown), f"When? {ranking_title(diagnosis)}{scale}"],
    )
    for row, one in enumerate(shown, start=1):
        if one.normal_range is not None:
            _add_range(figure, clock.at(range_times(diagnosis)), one.normal_range, row)
        if one.nearest is not None:
            figure.add_trace(_line(one.nearest, clock, NEAREST, f"{one.title}, normal"), row=row, col=1)
        figure.add_trace(_line(one.line, clock, INK, one.title), row=row, col=1)
        figure.update_yaxes(nticks=5, row=row, **FIXED)
    figure.add_trace(_moment_bars(diagnosis), row=last, col=1)
    if diagnosis.occlusion is None:
        most = 1.05 * ranking_scale(diagnosis).limit
        figure.update_yaxes(type="log", range=[-0.3, most], tickvals=_decades(most)[::2], row=last, **FIXED)
    _shade(figure, diagnosis)
    _mark_known_faults(figure, diagnosis, recording)
    return _over_time(figure, diagnosis, recording, height, rows=last)


def panel_tops(figure: go.Figure) -> list[float]:
    """Return how many pixels below the top of a figure each of its panels begins, with its title."""
    layout = figure.layout
    inner = layout.height - layout.margin.t - layout.margin.b
    return [layout.margin.t + (1 - axis.domain[1]) * inner - TITLE_HEIGHT for axis in figure.select_yaxes()]


def cells_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """Plot the ranking value of every sensor at every moment."""
    values = diagnosis.ranking.T
    scale = ranking_scale(diagnosis)
    ticks = _decades(scale.limit)
    figure = go.Figure(
        go.Heatmap(
            x=diagnosis.clock.at(edges(diagnosis)),
            y=list(diagnosis.sensors),
            z=scale.height(values).astype(np.float32),
            zmin=0,
            zmax=scale.limit,
            colorscale="Reds",
            customdata=values.astype(np.float32),
            hovertemplate="%{y} at %{x}: %{customdata:.1f}<extra></extra>",
            colorbar={
                "orientation": "h",
                "thickness": 12,
                "yref": "container",  # takes no room from the plot, which would misplace the axis title
                "y": 1.0,
                "yanchor": "top",
                **({"tickvals": np.log10(ticks), "ticktext": [f"{t:g}" for t in ticks]} if scale.logarithmic else {}),
            },
        )
    )
    title = {"text": ranking_title(diagnosis), "xref": "paper", "yref": "paper", "y": 1, "yanchor": "bottom"}
    figure.add_annotation(title, yshift=1, showarrow=False)
    figure.update_yaxes(autorange="reversed", dtick=1, tickfont={"size": 11}, ticklabelstandoff=4, **FIXED)
    height = 150 + 22 * len(diagnosis.sensors)
    return _over_time(figure, diagnosis, recording, height, top=64, left=_label_width(diagnosis.sensors))


def lanes_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """Plot the whole recording: every sensor in its own lane, those that make the moments to look at in red."""
    figure = go.Figure()
    red = {sensor for span in spans(diagnosis) for sensor in span.sensors}
    for name, line in zip(diagnosis.sensors, lanes(recording), strict=True):
        figure.add_trace(_line(line, diagnosis.clock, ANOMALOUS if name in red else NORMAL, name, hoverinfo="name+x"))
    _shade(figure, diagnosis)
    names = [*diagnosis.sensors, *(["known fault"] if recording.episode.faults else [])]
    n = len(names)
    _mark_known_faults(figure, diagnosis, recording, 0.8 / (n + 0.05))
    figure.update_yaxes(
        tickvals=[0.45 - lane for lane in range(n)],
        ticktext=names,
        range=[1 - n, 1.05],
        tickfont={"size": 11},
        ticklabelstandoff=4,
        **FIXED,
    )
    return _over_time(figure, diagnosis, recording, 70 + 30 * n, top=8, left=_label_width(names))


def attention_figure(view: AttentionView, names: Sequence[str] | None, what: str) -> go.Figure:
    """Plot an attention matrix, whose rows attend to its columns, above its column sums, the relevance.

    [fig:mix2] to [fig:mix5] and [fig:lsa_t34]: A^G with a^G, B^G with b^G, B^(τ) with b^(τ). A red dot or bar is above
    its normal band; a dash over a bar is the edge of its band.
    """
    labels = list(map(str, range(len(view.attention)))) if names is None else list(names)
    figure = make_subplots(rows=2, shared_xaxes=True, row_heights=[0.76, 0.24], vertical_spacing=0.04)
    figure.add_heatmap(
        z=view.attention.astype(np.float32),
        x=labels,
        y=labels,
        colorscale="Blues",
        zmin=0,
        showscale=False,
        customdata=view.normal.astype(np.float32),
        hovertemplate="%{y} attends to %{x}: %{z:.3f}, normally %{customdata:.3f}<extra></extra>",
        row=1,
        col=1,
    )
    rows, columns = view.cells_beyond
    figure.add_scatter(
        x=[labels[column] for column in columns],
        y=[labels[row] for row in rows],
        mode="markers",
        marker={"color": ANOMALOUS, "size": 3 if len(labels) > MANY_CELLS else 5},
        hoverinfo="skip",
        row=1,
        col=1,
    )
    figure.add_bar(
        x=labels,
        y=view.relevance,
        marker_color=np.where(view.bars_beyond, ANOMALOUS, NORMAL),
        customdata=view.relevance_edge,
        hovertemplate="%{x}: %{y:.2f}, normally up to %{customdata:.2f}<extra></extra>",
        row=2,
        col=1,
    )
    dash = {"symbol": "line-ew", "size": max(3, 190 // len(labels)), "line": {"color": INK, "width": 1.5}}
    figure.add_scatter(x=labels, y=view.relevance_edge, mode="markers", marker=dash, hoverinfo="skip", row=2, col=1)
    figure.add_hline(1, line_dash="dot", line_color=INK, line_width=1, row=2, col=1)
    small = {"size": 10}
    first, last = -0.5, len(labels) - 0.5
    figure.update_xaxes(type="category", range=[first, last], tickfont=small, **FIXED)
    figure.update_yaxes(type="category", range=[last, first], tickfont=small, row=1, **FIXED)
    figure.update_yaxes(nticks=4, tickfont=small, row=2, **FIXED)
    figure.update_xaxes(title={"text": what, "standoff": 8}, row=2)
    return styled(figure, height=470, showlegend=False).update_layout(margin={"l": 10, "r": 10, "t": 10, "b": 10})


def probability_figure(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int8], ids: npt.NDArray[np.str_], threshold: float
) -> go.Figure:
    """Plot the anomaly probability of each episode by true class, with the threshold."""
    figure = go.Figure()
    spread = np.random.default_rng(0).uniform(-0.3, 0.3, len(labels))
    for label, name, colour in ((0, "normal", NORMAL), (1, "anomalous", ANOMALOUS)):
        rows = labels == label
        figure.add_scatter(
            x=probabilities[rows],
            y=label + spread[rows],
            mode="markers",
            name=name,
            marker={"color": colour, "size": 8, "opacity": 0.7},
            text=ids[rows],
            hovertemplate="%{text}<br>probability %{x:.3f}<extra></extra>",
        )
    figure.add_vline(threshold, line_dash="dash", line_color=INK, annotation_text=f"threshold {threshold:.2f}")
    figure.update_yaxes(tickvals=[0, 1], ticktext=["normal", "anomalous"], range=[-0.6, 1.6])
    figure.update_xaxes(title="anomaly probability", range=[-0.03, 1.03])
    return styled(figure, height=240, showlegend=False).update_layout(margin_t=20)


def precision_recall_figure(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int8], point: tuple[float, float]
) -> go.Figure:
    """Plot precision against recall, with the chance level and the operating point of the threshold."""
    precision, recall, _ = precision_recall_curve(labels, probabilities)
    figure = go.Figure()
    figure.add_scatter(x=recall, y=precision, mode="lines", line={"color": ANOMALOUS, "shape": "hv"}, name="detector")
    figure.add_hline(float(labels.mean()), line_dash="dot", line_color=GREY, annotation_text="chance")
    figure.add_scatter(x=[point[0]], y=[point[1]], mode="markers", marker={"size": 11, "color": INK}, name="threshold")
    figure.update_xaxes(title="recall", range=[-0.02, 1.02])
    figure.update_yaxes(title="precision", range=[-0.02, 1.05])
    return styled(figure, height=300, showlegend=False).update_layout(margin_t=20)


def training_figure(log: list[dict[str, float]], best_epoch: int) -> go.Figure:
    """Plot losses and validation PR-AUC over the epochs, with the epoch whose weights are kept."""
    epochs = [row["epoch"] for row in log]
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    for key, name, colour, second in (
        ("loss", "training loss", NORMAL, False),
        ("validation_loss", "validation loss", ANOMALOUS, False),
        ("validation_pr_auc", "validation PR-AUC", GREEN, True),
    ):
        trace = go.Scatter(x=epochs, y=[row[key] for row in log], name=name, line={"color": colour})
        figure.add_trace(trace, secondary_y=second)
    figure.add_vline(best_epoch, line_dash="dash", line_color=INK, annotation_text="kept", annotation_position="top")
    figure.update_xaxes(title="epoch")
    figure.update_yaxes(title="loss", secondary_y=False)
    figure.update_yaxes(title="PR-AUC", range=[0, 1.05], dtick=0.25, secondary_y=True, showgrid=False)
    return styled(figure, height=300, legend={"orientation": "h", "y": -0.25}).update_layout(margin_t=20)


def styled(figure: go.Figure, **layout: Any) -> go.Figure:
    """Apply the shared style of interactive figures."""
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 70, "r": 30, "t": 50, "b": 50},
        **layout,
    )
    return figure


def _line(line: Line, clock: Clock, colour: str, name: str, hoverinfo: str = "x+y") -> go.Scatter:
    (start,) = clock.at([line.start])
    look = {"color": colour, "width": 1.2}
    return go.Scatter(x0=start, dx=clock.length(line.step), y=line.values, line=look, name=name, hoverinfo=hoverinfo)


def _moment_bars(diagnosis: Diagnosis) -> go.Bar:
    """Return bars of the ranking value of each moment; the moments to look at are red."""
    bounds, clock = diagnosis.segment_bounds, diagnosis.clock
    red = {moment.segment for moment in diagnosis.marked_segments}
    return go.Bar(
        x=clock.at(bounds.mean(axis=1)),
        y=diagnosis.segment_ranking,
        width=[clock.length(0.94 * (end - start)) for start, end in bounds],
        marker_color=[ANOMALOUS if t in red else NORMAL for t in range(len(bounds))],
        hovertemplate="%{customdata}: %{y:.1f}<extra></extra>",
        customdata=[clock.span(start, end) for start, end in bounds],
    )


def _add_range(figure: go.Figure, time: list[Any], normal_range: Array, row: int) -> None:
    """Fill the area between the lowest and the highest normal value."""
    for values, fill in zip(normal_range.T, (None, "tonexty"), strict=True):
        figure.add_scatter(
            x=time,
            y=values.astype(np.float32),
            mode="lines",
            line={"width": 0},
            fill=fill,
            fillcolor=NORMAL_RANGE,
            hoverinfo="skip",
            row=row,
            col=1,
        )


def _shade(figure: go.Figure, diagnosis: Diagnosis) -> None:
    for span in shaded(diagnosis):
        start, end = diagnosis.clock.at(span)
        figure.add_vrect(start, end, fillcolor=MARKED, line_width=0, layer="below")


def _mark_known_faults(figure: go.Figure, diagnosis: Diagnosis, recording: Recording, share: float = 0.05) -> None:
    """Draw a strip along the bottom, so that a fault that lasts the whole recording hides nothing."""
    for fault in recording.episode.faults or ():
        start, end = diagnosis.clock.at([fault.start * recording.step, fault.stop * recording.step])
        figure.add_vrect(start, end, y0=0, y1=share, fillcolor=KNOWN, line={"color": KNOWN, "width": 2})


def _over_time(
    figure: go.Figure,
    diagnosis: Diagnosis,
    recording: Recording,
    height: int,
    *,
    rows: int = 1,
    top: int = 30,
    left: int = 46,
) -> go.Figure:
    """Set up time axes, titled below the last row, with narrow margins for phones."""
    end = recording.episode.values.shape[1] * recording.step
    figure.update_xaxes(range=diagnosis.clock.at([0, end]), **time_ticks(diagnosis.clock))
    where = {} if rows == 1 else {"row": rows}
    figure.update_xaxes(title={"text": diagnosis.clock.title, "standoff": 8}, **where)
    styled(figure, height=height, showlegend=False)
    figure.update_annotations(x=0, xanchor="left", font_size=13)
    return figure.update_layout(margin={"l": left, "r": 12, "t": top, "b": 45})


def time_ticks(clock: Clock) -> dict[str, Any]:
    """Return the layout of the ticks of a time axis."""
    stops = [{"dtickrange": [low, high], "value": form} for low, high, form in _DATES]
    return {"tickangle": 0, "nticks": MOST_TICKS, "tickformatstops": [] if clock.start is None else stops}


def _label_width(names: Sequence[str]) -> int:
    """Return the width in pixels of the longest name."""
    return 16 + round(6.5 * max(map(len, names)))


def _decades(most: float) -> Array:
    """Return the ticks 1, 3, 10, 30, … up to 10 to the power of `most`."""
    return DECADES[np.log10(DECADES) <= most + 1e-9]
