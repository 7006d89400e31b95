"""The paper's figures of diagnoses, each with its panels as there, from the same numbers as the page of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.figures import ANOMALOUS, INK, KNOWN, NORMAL
from dfstrans.report.print_figures import (
    EDGE,
    GREY,
    WIDTH,
    course_colour,
    draw_edge,
    mark_beyond,
    new_figure,
    relevance_bars,
)
from dfstrans.report.views import (
    MOST_POINTS,
    Array,
    AttentionView,
    RelevanceCourse,
    between_moments,
    between_sensors,
    edges,
    named,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PALE_WEIGHTS = 3.0
FEW_NAMES = 12  # sensors that can be named without small print
FINE = {"fontsize": 5.5}
PALE = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}


def print_spatial(
    diagnosis: Diagnosis, recording: Recording, sensors: Sequence[str], moments: Mapping[int, str]
) -> Figure:
    """Signals with the moments that are looked at, b^G, and B^(τ) with b^(τ) at each of them [fig:lsa].

    Panels as in the paper: (a) signals, (b) global spatial relevance, (c) and on the moments, on one scale of colours.
    """
    from matplotlib.colors import Normalize

    figure = new_figure(2.2 + WIDTH / 2 + 0.5)
    above, below = _parts(figure, 2, 1, height_ratios=[2.2, WIDTH / 2 + 0.5])
    left, right = _parts(above, 1, 2)
    panels = _signals(left, diagnosis, recording, sensors, moments)
    panels[0].set_title(_title_of_signals(recording), loc="left", pad=14)
    axes = right.subplots()
    _bars(axes, between_sensors(diagnosis), diagnosis.sensors)
    axes.set_title("(b) global spatial relevance $b^G$", loc="left")
    grid = below.subplots(2, len(moments), squeeze=False, height_ratios=[3, 1], sharey="row")
    scale = Normalize(0, _highest(*(diagnosis.spatial_attention[t] for t in moments)))
    image = None
    for column, (t, title) in enumerate(moments.items()):
        matrix, bars = grid[:, column]
        view = between_sensors(diagnosis, t)
        image = _matrix(matrix, view, diagnosis.sensors, scale)
        matrix.set_xticks(range(len(diagnosis.sensors)), [""] * len(diagnosis.sensors))  # they stand below the bars
        matrix.set_title(f"({'cdefgh'[column]}) $B^{{({t})}}$, {title}", loc="left")
        bars.set_title(f"$b^{{({t})}}$", loc="left")
        _bars(bars, view, diagnosis.sensors)
    grid[0, 0].set_ylabel("sensor that looks")
    grid[1, 0].set_ylabel("relevance")
    below.colorbar(image, ax=list(grid[0]), label="attention weight", pad=0.02, aspect=30)
    return figure


def print_global(diagnosis: Diagnosis, recording: Recording, sensors: Sequence[str]) -> Figure:
    """Signals, A^G over a^G, and B^G over b^G [fig:mix], panels (a) to (e) as in the paper.

    The two matrices share one scale of colours. It grows as the root, since weights spread over all of time are small.
    """
    from matplotlib.colors import PowerNorm

    figure = new_figure(4.3)
    left, right = _parts(figure, 1, 2, width_ratios=[1, 2.3])
    panels = _signals(left, diagnosis, recording, sensors, {})
    panels[0].set_title(_title_of_signals(recording), loc="left", pad=14)
    grid = right.subplots(2, 2, height_ratios=[2.2, 1], width_ratios=[1, 1.3], sharex="col")
    scale = PowerNorm(0.5, 0, _highest(diagnosis.global_temporal_attention, diagnosis.global_spatial_attention))
    (when, where), (moments, bars) = grid
    time = edges(diagnosis)
    of_moments, of_sensors = between_moments(diagnosis), between_sensors(diagnosis)
    image = when.pcolormesh(time, time, of_moments.attention, cmap="Blues", norm=scale)
    mark_beyond(when, of_moments, (time[1:] + time[:-1]) / 2)
    when.invert_yaxis()
    when.set_ylabel(f"{recording.time_title}, looking")
    when.set_title("(b) $A^G$", loc="left")
    moments.stairs(of_moments.relevance, time, fill=True, color=NORMAL)
    beyond = np.where(of_moments.bars_beyond, of_moments.relevance, 0)
    moments.stairs(beyond, time, fill=True, color=ANOMALOUS)
    moments.stairs(of_moments.relevance_edge, time, baseline=None, **EDGE)
    moments.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    moments.set(xlabel=f"{recording.time_title}, looked at", ylabel="relevance", xlim=(time[0], time[-1]))
    moments.set_title("(c) $a^G$", loc="left")
    _matrix(where, of_sensors, diagnosis.sensors, scale)
    where.set_title("(d) $B^G$", loc="left")
    _bars(bars, of_sensors, diagnosis.sensors)
    bars.set_title("(e) $b^G$", loc="left")
    right.colorbar(image, ax=list(grid[0]), label="attention weight, root scale", pad=0.02, aspect=30)
    return figure


def print_temporal(
    point: Mapping[str, Sequence[RelevanceCourse]], beside: Sequence[RelevanceCourse], sensor: str, time_title: str
) -> Figure:
    """a^(s) over signals with point anomalies, by sensor, and beside normal ones [fig:lta], panels (a) to (c)."""
    rows = max(len(courses) for courses in point.values())
    figure = new_figure(0.8 + 0.85 * rows + 2.2)
    above, below = _parts(figure, 2, 1, height_ratios=[0.8 + 0.85 * rows, 2.2])
    grid = above.subplots(rows, len(point), squeeze=False, sharex=True)
    for column, (title, courses) in enumerate(point.items()):
        for row, (axes, course) in enumerate(zip(grid[:, column], courses, strict=True)):
            axes.plot(course.line.time, course.line.values, color=GREY, linewidth=0.6)
            axes.margins(x=0)
            other = axes.twinx()
            other.spines["right"].set_visible(True)
            other.plot(course.centre, course.relevance, color=course_colour(course), linewidth=1.3)
            other.plot(course.centre, course.edge, **EDGE)
            other.set_ylim(bottom=0)
            axes.set_xlim(course.line.time[0], course.line.time[-1])
            other.tick_params(colors=course_colour(course), labelsize=7)
            axes.tick_params(labelsize=7)
            axes.set_title(course.episode_id, loc="right", fontsize=7)
            if row == len(courses) // 2:
                axes.set_ylabel("signal", color="#5f6b76")
                other.set_ylabel("$a^{(s)}$", color=course_colour(course))
        grid[0, column].set_title(f"({'ab'[column]}) {title}", loc="left")
        grid[-1, column].set_xlabel(time_title)
    axes = below.subplots()
    for course in beside:
        anomalous = course.is_anomaly
        axes.plot(course.centre, course.relevance, color=course_colour(course), linestyle="-" if anomalous else "--",
                  linewidth=1.2, label=f"{course.episode_id} ({'anomalous' if anomalous else 'normal'})")  # fmt: skip
    axes.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    draw_edge(axes, beside)
    axes.set(xlabel=time_title, ylabel="temporal relevance", xlim=(0, max(c.line.time[-1] for c in beside)))
    axes.set_title(f"(c) $a^{{(s)}}$ of {sensor}", loc="left")
    axes.legend(ncols=2, fontsize=7)
    return figure


def _signals(
    place: Any, diagnosis: Diagnosis, recording: Recording, sensors: Sequence[str], moments: Mapping[int, str]
) -> Any:
    """Some sensors' recordings one below the other, with the moments shaded and known faults marked above."""
    panels = place.subplots(len(sensors), sharex=True, squeeze=False)[:, 0]
    for axes, sensor in zip(panels, sensors, strict=True):
        row = diagnosis.sensors.index(sensor)
        line = thinned(recording.episode.values[row], recording.step, MOST_POINTS)
        axes.plot(line.time, line.values, color=INK, linewidth=0.7)
        title = named(sensor, recording.units[row])
        axes.text(0.01, 0.97, title, transform=axes.transAxes, fontsize=7.5, fontweight="bold", va="top", bbox=PALE)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.25 * (high - low))  # room for the name
        axes.margins(x=0)
        for t in moments:
            start, end = diagnosis.segment_bounds[t]
            axes.axvspan(start, end, color=NORMAL, alpha=0.22, linewidth=0)
    marked = panels[0].get_xaxis_transform()  # in time, and along the height of the panel
    for fault in recording.episode.faults or ():
        span = np.array([fault.start, fault.stop]) * recording.step
        panels[0].plot(span, [1.02, 1.02], color=KNOWN, linewidth=3, transform=marked, clip_on=False)
        panels[0].plot(span.mean(), 1.07, marker="v", color=KNOWN, markersize=5, transform=marked, clip_on=False)
    panels[-1].set_xlabel(recording.time_title)
    return panels


def _parts(figure: Any, rows: int, columns: int, **ratios: Any) -> Any:
    """Parts of a figure, each with a layout of its own."""
    return figure.subfigures(rows, columns, **ratios)


def _title_of_signals(recording: Recording) -> str:
    return f"(a) {recording.episode.id}" + ("\n▼ known faults" if recording.episode.faults else "")


def _highest(*attentions: Array) -> float:
    """Where a scale of colours ends: at the largest weight, or at a few times that of even ones, which stay pale."""
    return max(float(max(one.max(), PALE_WEIGHTS / len(one))) for one in attentions)


def _matrix(axes: Any, view: AttentionView, names: Sequence[str], scale: Any) -> Any:
    """An attention matrix of sensors: rows look, columns are looked at; dots are above their normal band."""
    image = axes.imshow(view.attention, cmap="Blues", norm=scale, aspect="auto", interpolation="none")
    mark_beyond(axes, view)
    axes.set_yticks(range(len(names)), names, **_print_of(names))
    return image


def _bars(axes: Any, view: AttentionView, names: Sequence[str]) -> None:
    """A relevance per sensor, with their names."""
    relevance_bars(axes, view)
    axes.set_xticks(range(len(names)), names, rotation=90, **_print_of(names))


def _print_of(names: Sequence[str]) -> dict[str, Any]:
    return {"fontsize": 7} if len(names) <= FEW_NAMES else FINE
