"""Interactive figures of a diagnosis; the same for print are in `diagnosis_print`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.views import (
    Array,
    AttentionView,
    Band,
    Line,
    RelevanceCourse,
    between_sensors,
    chosen_moments,
    edge_beside,
    edges,
    lanes,
    ranking_title,
    shaded,
    signals,
    spans,
)

MARKED = "rgba(209, 73, 91, 0.16)"
USUAL = "rgba(102, 161, 130, 0.22)"
NEAREST = "#7fa3c9"
KNOWN = "#edae49"
RANDOM, BOTTOM = "#9aa5b1", "#66a182"
EDGE = {"color": INK, "dash": "dashdot", "width": 1}  # of a normal band
MANY_CELLS = 40  # in a row of a matrix
LIMITS = {"fixedrange": True}  # of an axis that zooming leaves alone


def signals_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """The sensors that matter, each in its own unit, with the moments that matter shaded [fig:PAJ38].

    Behind each the band of normal recordings and the normal recording that is most like it, where they are known;
    below them what the moments are ranked by.
    """
    shown = signals(diagnosis, recording)
    height = 140 * len(shown) + 130
    figure = make_subplots(
        rows=len(shown) + 1,
        shared_xaxes=True,
        row_heights=[*[1.0] * len(shown), 0.75],
        vertical_spacing=34 / (height - 80),
        subplot_titles=[*(one.title for one in shown), f"When? {_with_scale(diagnosis)}"],
    )
    for row, one in enumerate(shown, start=1):
        if one.usual is not None:
            _add_band(figure, one.usual, row)
        if one.nearest is not None:
            _add_line(figure, one.nearest, NEAREST, f"{one.title}, normal", row)
        _add_line(figure, one.line, INK, one.title, row)
        figure.update_yaxes(nticks=5, row=row, **LIMITS)
    bounds, height_of_moment = diagnosis.segment_bounds, diagnosis.ranking.max(axis=1)
    marked = {t for span in spans(diagnosis) for t in range(span.first, span.last + 1)}
    figure.add_bar(
        x=bounds.mean(axis=1),
        y=height_of_moment,
        width=np.diff(bounds, axis=1)[:, 0] * 0.94,
        marker_color=[ANOMALOUS if t in marked else NORMAL for t in range(len(bounds))],
        hovertemplate="from %{customdata[0]:g} to %{customdata[1]:g}: %{y:.1f}<extra></extra>",
        customdata=bounds,
        row=len(shown) + 1,
        col=1,
    )
    if diagnosis.occlusion is None:
        most = max(1.0, float(np.log10(height_of_moment.max())) * 1.05)
        figure.update_yaxes(type="log", range=[-0.3, most], tickvals=_decades(most)[::2], row=len(shown) + 1, **LIMITS)
    for start, end in shaded(diagnosis):
        figure.add_vrect(start, end, fillcolor=MARKED, line_width=0, layer="below")
    _mark_truth(figure, recording)
    return _over_time(figure, recording, height, rows=len(shown) + 1)


def cells_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """What sensors and moments are ranked by, of every sensor at every moment."""
    values = diagnosis.ranking.T
    by_distance = diagnosis.occlusion is None
    most = max(0.5, float(np.log10(values.max()))) if by_distance else max(float(values.max()), 1e-6)
    ticks = _decades(most) if by_distance else None
    figure = go.Figure(
        go.Heatmap(
            x=edges(diagnosis),
            y=list(diagnosis.sensors),
            z=(np.log10(np.maximum(values, 1)) if by_distance else values).astype(np.float32),
            zmin=0,
            zmax=most,
            colorscale="Reds",
            customdata=values.astype(np.float32),
            hovertemplate="%{y} at %{x}: %{customdata:.1f}<extra></extra>",
            colorbar={
                "orientation": "h",
                "thickness": 12,
                "yref": "container",  # so that it takes no room of the picture's, which would misplace the axis title
                "y": 1.0,
                "yanchor": "top",
                **({} if ticks is None else {"tickvals": np.log10(ticks), "ticktext": [f"{t:g}" for t in ticks]}),
            },
        )
    )
    title = {"text": ranking_title(diagnosis), "xref": "paper", "yref": "paper", "y": 1, "yanchor": "bottom"}
    figure.add_annotation(title, yshift=1, showarrow=False)
    figure.update_yaxes(autorange="reversed", dtick=1, tickfont={"size": 11}, **LIMITS)
    return _over_time(figure, recording, 150 + 22 * len(diagnosis.sensors), top=64, left=_room(diagnosis.sensors))


def lanes_figure(diagnosis: Diagnosis, recording: Recording) -> go.Figure:
    """The whole recording: every sensor in a lane of its own, the first of the ranking in red."""
    figure = go.Figure()
    first = {one.sensor for one in diagnosis.top_sensors(2)}
    for name, line in zip(diagnosis.sensors, lanes(recording), strict=True):
        _add_line(figure, line, ANOMALOUS if name in first else NORMAL, name, hoverinfo="name+x")
    for start, end in shaded(diagnosis):
        figure.add_vrect(start, end, fillcolor=MARKED, line_width=0, layer="below")
    names = [*diagnosis.sensors, *(["known truth"] if recording.episode.faults else [])]  # that has a lane of its own
    n = len(names)
    _mark_truth(figure, recording, 0.8 / (n + 0.05))
    figure.update_yaxes(
        tickvals=[0.45 - lane for lane in range(n)],
        ticktext=names,
        range=[1 - n, 1.05],
        tickfont={"size": 11},
        **LIMITS,
    )
    return _over_time(figure, recording, 70 + 30 * n, top=8, left=_room(names))


def attention_figure(view: AttentionView, names: Sequence[str] | None, what: str) -> go.Figure:
    """An attention matrix, whose rows attend to its columns, and below it their relevance: its column sums.

    [fig:mix2] to [fig:mix5] and [fig:lsa_t34]: A^G with a^G, B^G with b^G, B^(τ) with b^(τ). What is above its normal
    band is red: a dot on a cell, a bar. A dash over a bar is the edge of its band.
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
        customdata=view.usual.astype(np.float32),
        hovertemplate="%{y} attends to %{x}: %{z:.3f}" + _beside(view.usual, "normally", ".3f"),
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
        hovertemplate="%{x}: %{y:.2f}" + _beside(view.relevance_edge, "edge of normal", ".2f"),
        row=2,
        col=1,
    )
    dash = {"symbol": "line-ew", "size": max(3, 190 // len(labels)), "line": {"color": INK, "width": 1.5}}
    figure.add_scatter(x=labels, y=view.relevance_edge, mode="markers", marker=dash, hoverinfo="skip", row=2, col=1)
    figure.add_hline(1, line_dash="dot", line_color=INK, line_width=1, row=2, col=1)
    small = {"size": 10}
    first, last = -0.5, len(labels) - 0.5
    figure.update_xaxes(type="category", range=[first, last], tickfont=small, **LIMITS)
    figure.update_yaxes(type="category", range=[last, first], tickfont=small, row=1, **LIMITS)
    figure.update_yaxes(nticks=4, tickfont=small, row=2, **LIMITS)
    figure.update_xaxes(title={"text": what, "standoff": 8}, row=2)
    return styled(figure, height=470, showlegend=False).update_layout(margin={"l": 10, "r": 10, "t": 10, "b": 10})


def moment_figures(diagnosis: Diagnosis, segments: Sequence[int] | None = None) -> dict[str, go.Figure]:
    """B^(τ) and b^(τ) at some moments, by title [fig:lsa_t34] to [fig:lsa_t75]."""
    return {
        title: attention_figure(between_sensors(diagnosis, t), diagnosis.sensors, "sensor")
        for t, title in chosen_moments(diagnosis, segments).items()
    }


def relevance_figure(courses: Sequence[RelevanceCourse], title: str) -> go.Figure:
    """A sensor's local temporal relevance a^(s) over its recording, episode by episode [fig:paj_ax_local]."""
    figure = make_subplots(
        rows=len(courses),
        shared_xaxes=True,
        specs=[[{"secondary_y": True}] for _ in courses],
        vertical_spacing=0.08 / len(courses),
        subplot_titles=[course.episode_id for course in courses],
    )
    for row, course in enumerate(courses, start=1):
        _add_line(figure, course.line, NEAREST, title, row)
        line = {"color": ANOMALOUS if course.is_anomaly else BOTTOM, "width": 2}
        figure.add_scatter(
            x=course.centre, y=course.relevance, line=line, name="relevance", row=row, col=1, secondary_y=True
        )
        figure.add_scatter(
            x=course.centre, y=course.edge, line=EDGE, name="edge of normal", row=row, col=1, secondary_y=True
        )
    figure.update_yaxes(nticks=4, secondary_y=True, showgrid=False, rangemode="tozero")
    figure.update_yaxes(nticks=4, secondary_y=False)
    figure.update_xaxes(title=courses[0].time_title, row=len(courses))
    return _left_titles(styled(figure, height=90 + 140 * len(courses), showlegend=False))


def relevance_beside_normal_figure(courses: Sequence[RelevanceCourse], title: str) -> go.Figure:
    """A sensor's local temporal relevance in anomalous and in other episodes, over one another [fig:paj_id_local]."""
    figure = go.Figure()
    for course in courses:
        figure.add_scatter(
            x=course.centre,
            y=course.relevance,
            name=course.episode_id,
            line={"color": ANOMALOUS if course.is_anomaly else BOTTOM},
        )
    time, edge = edge_beside(courses)
    if len(edge):
        figure.add_scatter(x=time, y=edge, line=EDGE, name="edge of normal")
    figure.update_xaxes(title=courses[0].time_title)
    figure.update_yaxes(title=f"temporal relevance of {title}")
    return styled(figure, height=340, legend={"orientation": "h", "y": -0.2})


def trust_figure(boxes: Mapping[str, Mapping[str, Array]], percentages: Array) -> go.Figure:
    """AT_k by k with its random and bottom controls, a panel per kind of fault [fig:at_scores]."""
    figure = make_subplots(
        rows=1, cols=len(boxes), shared_yaxes=True, subplot_titles=[kind or "anomalous" for kind in boxes]
    )
    labels = [f"{k:g} %" for k in percentages]
    colours = {"top": ANOMALOUS, "random": RANDOM, "bottom": BOTTOM}
    for column, by_weights in enumerate(boxes.values(), start=1):
        for which, values in by_weights.items():
            figure.add_box(
                x=np.repeat(labels, len(values)),
                y=values.T.ravel(),
                name=which,
                legendgroup=which,
                showlegend=column == 1,
                marker_color=colours[which],
                boxmean=True,
                row=1,
                col=column,
            )
    figure.update_xaxes(title="weights set to zero", categoryorder="array", categoryarray=labels)
    figure.update_yaxes(title="fall of the logit", col=1)
    return styled(figure, height=380, boxmode="group", legend={"orientation": "h", "y": -0.25})


def _add_line(
    figure: go.Figure,
    line: Line,
    colour: str,
    name: str,
    row: int | None = None,
    *,
    hoverinfo: str = "x+y",
) -> None:
    trace = go.Scatter(
        x0=line.start,
        dx=line.step,
        y=line.values,
        line={"color": colour, "width": 1.2},
        name=name,
        hoverinfo=hoverinfo,
    )
    figure.add_trace(trace) if row is None else figure.add_trace(trace, row=row, col=1)


def _add_band(figure: go.Figure, band: Band, row: int) -> None:
    """The area between the two borders, a step per segment."""
    x = np.repeat(band.edges, 2)[1:-1]
    for values, fill in ((band.low, None), (band.high, "tonexty")):
        figure.add_scatter(
            x=x,
            y=np.repeat(values, 2),
            mode="lines",
            line={"width": 0},
            fill=fill,
            fillcolor=USUAL,
            hoverinfo="skip",
            row=row,
            col=1,
        )


def _mark_truth(figure: go.Figure, recording: Recording, share: float = 0.05) -> None:
    """A strip along the bottom, that share of the height, so that a fault that lasts throughout hides nothing."""
    for fault in recording.episode.faults or ():
        start, end = fault.start * recording.step, fault.stop * recording.step
        figure.add_vrect(start, end, y0=0, y1=share, fillcolor=KNOWN, line={"color": KNOWN, "width": 2})


def _over_time(
    figure: go.Figure, recording: Recording, height: int, *, rows: int = 1, top: int = 30, left: int = 46
) -> go.Figure:
    """Time along the recording below the last row; narrow margins, so that a phone shows something, too."""
    end = recording.episode.values.shape[1] * recording.step
    figure.update_xaxes(range=[0, end])
    where = {} if rows == 1 else {"row": rows}
    figure.update_xaxes(title={"text": recording.time_title, "standoff": 8}, **where)
    styled(figure, height=height, showlegend=False)
    return _left_titles(figure).update_layout(margin={"l": left, "r": 12, "t": top, "b": 45})


def _room(names: Sequence[str]) -> int:
    """Pixels for the longest name of a lane."""
    return 12 + round(6.5 * max(map(len, names)))


def _beside(normal: Array, words: str, digits: str) -> str:
    """What a pointer over a number tells of the normal one, which not every model keeps."""
    return "<extra></extra>" if np.isnan(normal).all() else f", {words} %{{customdata:{digits}}}<extra></extra>"


def _left_titles(figure: go.Figure) -> go.Figure:
    return figure.update_annotations(x=0, xanchor="left", font_size=13)


def _with_scale(diagnosis: Diagnosis) -> str:
    return ranking_title(diagnosis) + (" (1 is usual)" if diagnosis.occlusion is None else "")


def _decades(most: float) -> Array:
    """1, 10, 100, … and between them 3, 30, … as far as a logarithm reaches."""
    ticks = np.array([1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000], dtype=np.float64)
    return ticks[np.log10(ticks) <= most + 1e-9]
