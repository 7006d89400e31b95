"""Print figures of diagnoses as PDF and SVG, and the style and writer shared by all print figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.scores import AttentionTrust
from dfstrans.errors import DfstransError, counted
from dfstrans.files import atomic_write
from dfstrans.report.figures import ANOMALOUS, INK, KNOWN, NORMAL
from dfstrans.report.page import file_stem
from dfstrans.report.views import (
    Array,
    AttentionView,
    RelevanceCourse,
    between_moments,
    between_sensors,
    chosen_moments,
    edges,
    named,
    range_times,
    ranking_title,
    relevance_courses,
    shaded,
    signals,
    trust_boxes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = 5  # maximum number of anomalous episodes, and of other episodes, in one figure
MOST_TRIED = 60  # maximum number of anomalous episodes whose attention is tested
FEW_NAMES = 12  # largest number of sensors whose names fit in the normal font
WIDTH = 6.3  # inches: text width of an A4 page
GREY, NORMAL_RANGE = "#8b98a5", "#d9e8e0"
EDGE: dict[str, Any] = {"color": INK, "linestyle": "-.", "linewidth": 0.7}  # of a normal band
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # keeps text editable
    "svg.hashsalt": "dfstrans",  # the same file for the same numbers
    "figure.constrained_layout.use": True,
}
UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}


class FigureFolder:
    """Writes figures into a folder: first those of each diagnosis, then those that compare several.

    `test_attention` measures AT_k of the detector behind the diagnoses.
    """

    def __init__(self, folder: Path, test_attention: Callable[[Episodes], AttentionTrust]) -> None:
        matplotlib()  # reports a missing package now, not after the first diagnosis
        self.folder, self.test_attention = folder, test_attention
        self.compared: dict[bool, list[tuple[Diagnosis, Recording]]] = {True: [], False: []}  # by is_anomaly
        self.anomalous: list[str] = []

    def add(self, diagnosis: Diagnosis, recording: Recording) -> None:
        """Write the signals, cells, global attention and attention at a few moments of one diagnosis."""
        stem = file_stem(diagnosis.episode_id)
        drawings = {
            f"{stem}_signals": lambda: draw_signals(diagnosis, recording),
            f"{stem}_cells": lambda: draw_cells(diagnosis, recording),
        }
        if diagnosis.network_logit is None:  # trees alone have no attention to draw or to compare
            write_figures(self.folder, drawings)
            return
        drawings[f"{stem}_attention"] = lambda: draw_attention(diagnosis)
        drawings[f"{stem}_moments"] = lambda: draw_moments(diagnosis)
        write_figures(self.folder, drawings)
        if len(self.compared[diagnosis.is_anomaly]) < COMPARED:
            self.compared[diagnosis.is_anomaly].append((diagnosis, recording))
        if diagnosis.is_anomaly and len(self.anomalous) < MOST_TRIED:
            self.anomalous.append(diagnosis.episode_id)

    def add_comparisons(self, episodes: Episodes) -> None:
        """Write the figures of several episodes: temporal relevance and, for anomalous ones, AT_k."""
        shown = self.compared[True] + self.compared[False]
        if not shown:
            return
        first, recording = shown[0]
        sensor = first.top_sensor
        title = named(sensor, recording.units[first.sensors.index(sensor)])
        courses = relevance_courses(shown, sensor)
        drawings = {
            "temporal_relevance": lambda: draw_relevance(courses[:COMPARED], title),
            "temporal_relevance_beside_normal": lambda: draw_relevance_beside_normal(courses, sensor),
        }
        if self.anomalous:
            tried = episodes[np.flatnonzero(np.isin(episodes.ids, self.anomalous))]
            trust = self.test_attention(tried)
            boxes = trust_boxes(trust, tried.fault_kinds())
            drawings["attention_trust"] = lambda: draw_trust(boxes, trust.percentages)
        write_figures(self.folder, drawings)


def write_figures(
    folder: Path, drawings: Mapping[str, Callable[[], Figure]], formats: tuple[str, ...] = ("pdf", "svg")
) -> list[Path]:
    """Draw figures in the shared style and write each in every format."""
    written = []
    with matplotlib().rc_context(STYLE):
        for name, draw in drawings.items():
            figure = draw()
            for suffix in formats:
                path = folder / f"{name}.{suffix}"
                with atomic_write(path) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=UNDATED[suffix], dpi=200)
                written.append(path)
    return written


def new_figure(height: float) -> Figure:
    """Create an empty figure of the text width of a page."""
    figure: Figure = matplotlib().figure.Figure(figsize=(WIDTH, height))
    return figure


def mark_as_no_result(figure: Figure) -> None:
    """Mark a figure as a quick look, not a result."""
    figure.suptitle("QUICK LOOK, NO RESULT", color="#b00020", fontweight="bold", fontsize=9)


def matplotlib() -> Any:
    """Import matplotlib, or raise an error that says how to install it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise DfstransError(
            "expected matplotlib for print-quality figures, but it is not installed; pip install 'dfstrans[paper]'"
        ) from error
    return matplotlib


def draw_signals(diagnosis: Diagnosis, recording: Recording) -> Figure:
    """Draw the top-ranked sensors with the top-ranked moments shaded [fig:PAJ38]; see `signals_figure`."""
    shown = signals(diagnosis, recording)
    figure = new_figure(1.25 * len(shown) + 0.9)
    panels = figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0]
    for axes, one in zip(panels, shown, strict=True):
        if one.normal_range is not None:
            low, high = one.normal_range.T
            look = {"color": NORMAL_RANGE, "linewidth": 0, "label": "normal range"}
            axes.fill_between(range_times(diagnosis), low, high, **look)
        if one.nearest is not None:
            axes.plot(one.nearest.time, one.nearest.values, color=GREY, linewidth=0.7, label="similar normal recording")
        axes.plot(one.line.time, one.line.values, color=INK, linewidth=0.8, label="this recording")
        for start, end in shaded(diagnosis):
            axes.axvspan(start, end, color=ANOMALOUS, alpha=0.18, linewidth=0, label="moments to look at")
        for fault in recording.episode.faults or ():
            when = [fault.start * recording.step, fault.stop * recording.step]
            place = axes.get_xaxis_transform()  # x in time units, y as a share of the panel's height
            look = {"color": KNOWN, "linewidth": 2.5, "solid_capstyle": "butt", "label": "known fault"}
            axes.plot(when, [1.03, 1.03], transform=place, clip_on=False, **look)
        axes.set_title(one.title, fontweight="bold")
        axes.margins(x=0)
    panels[-1].set_xlabel(recording.time_title)
    _add_legend(figure, panels[0], "lower center")
    return figure


def draw_cells(diagnosis: Diagnosis, recording: Recording) -> Figure:
    """Draw the ranking value of every sensor at every moment; see `cells_figure`."""
    from matplotlib.colors import LogNorm

    values = diagnosis.ranking.T
    figure = new_figure(0.9 + 0.16 * len(values))
    axes = figure.subplots()
    distance = diagnosis.occlusion is None
    scale = {"norm": LogNorm(1, max(10.0, float(values.max())))} if distance else {"vmin": 0}
    shown = np.maximum(values, 1 if distance else 0)
    image = axes.pcolormesh(edges(diagnosis), np.arange(len(values) + 1) - 0.5, shown, cmap="Reds", **scale)
    axes.set_yticks(range(len(values)), diagnosis.sensors, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(recording.time_title)
    figure.colorbar(image, ax=axes, label=ranking_title(diagnosis), pad=0.02)
    return figure


def draw_attention(diagnosis: Diagnosis) -> Figure:
    """Draw A^G and a^G, B^G and b^G [fig:mix2] to [fig:mix5]."""
    figure = new_figure(4.3)
    grid = figure.subplots(2, 2, height_ratios=[3, 1])
    matrix_over_bars(grid[:, 0], between_moments(diagnosis), None, ("$A^G$", "$a^G$"), "segment")
    matrix_over_bars(grid[:, 1], between_sensors(diagnosis), diagnosis.sensors, ("$B^G$", "$b^G$"))
    return figure


def draw_moments(diagnosis: Diagnosis) -> Figure:
    """Draw B^(τ) and b^(τ) at a few moments [fig:lsa_t34] to [fig:lsa_t75]."""
    moments = chosen_moments(diagnosis)
    figure = new_figure(1.6 + WIDTH / len(moments))
    grid = figure.subplots(2, len(moments), squeeze=False, height_ratios=[3, 1], sharey="row")
    for column, (t, title) in enumerate(moments.items()):
        in_two_lines = title.replace(": ", "\n")
        symbols = (f"$B^{{({t})}}$, {in_two_lines}", f"$b^{{({t})}}$")
        matrix_over_bars(grid[:, column], between_sensors(diagnosis, t), diagnosis.sensors, symbols)
    return figure


def draw_relevance(courses: Sequence[RelevanceCourse], title: str) -> Figure:
    """Draw a sensor's local temporal relevance over the recording, one panel per episode [fig:paj_ax_local]."""
    figure = new_figure(0.5 + 1.15 * len(courses))
    panels = figure.subplots(len(courses), sharex=True, squeeze=False)[:, 0]
    for axes, course in zip(panels, courses, strict=True):
        relevance_over_signal(axes, course).set_ylabel("$a^{(s)}$")
        axes.set_title(course.episode_id)
    panels[-1].set_xlabel(courses[0].time_title)
    figure.supylabel(title, fontsize=9)
    return figure


def draw_relevance_beside_normal(courses: Sequence[RelevanceCourse], title: str) -> Figure:
    """Draw a sensor's local temporal relevance in anomalous and other episodes [fig:paj_id_local]."""
    figure = new_figure(2.5)
    axes = figure.subplots()
    for course in courses:
        label = "anomalous" if course.is_anomaly else "not anomalous"
        axes.plot(course.centre, course.relevance, color=course_colour(course), linewidth=1.2, label=label)
    draw_edge(axes, courses)
    axes.set(xlabel=courses[0].time_title, ylabel=f"temporal relevance of {title}")
    axes.margins(x=0)
    _add_legend(figure, axes, "upper right")
    return figure


def draw_trust(boxes: Mapping[str, Mapping[str, Array]], percentages: Array) -> Figure:
    """Draw AT_k by k with its random and bottom controls, one panel per kind of fault [fig:at_scores].

    Lines are medians, diamonds means; a dot is a single episode.
    """
    figure = new_figure(2.9)
    panels = figure.subplots(1, len(boxes), sharey=True, squeeze=False)[0]
    looks = {"top": ANOMALOUS, "random": GREY, "bottom": NORMAL}
    for number, axes, (kind, by_weights) in zip(range(len(boxes)), panels, boxes.items(), strict=True):
        for place, (which, values) in enumerate(by_weights.items()):
            positions = np.arange(len(percentages)) + 0.27 * (place - 1)
            _add_boxes(axes, positions, values, looks[which])
            axes.bar(0, 0, color=looks[which], alpha=0.55, label=which)  # for the legend
        axes.axhline(0, color=INK, linewidth=0.6, linestyle=":")
        n = len(by_weights["top"])
        title = f"({panel_letters(number)}) {kind or 'anomalous'}\n{counted(n, 'episode')}"
        axes.set(title=title, xlabel="weights set to zero in %")
        axes.set_xticks(range(len(percentages)), [f"{k:g}" for k in percentages])
    panels[0].set_ylabel("drop in logit")
    _add_legend(figure, panels[0], "lower center")
    return figure


def draw_early(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw how good alarms are by the share of a recording seen, a panel for each data set."""
    figure = new_figure(2.6)
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (name, steps) in zip(panels, curves.items(), strict=True):
        shares = [100 * step["share"] for step in steps]
        for key, label, colour, look in (
            ("f1", "F1 of alarms so far", ANOMALOUS, "o-"),
            ("recall", "faults found so far", KNOWN, "s--"),
            ("pr_auc", "PR-AUC at this share", NORMAL, "^:"),
        ):
            axes.plot(shares, [step[key] for step in steps], look, color=colour, label=label, markersize=3)
        if steps[0]["begun"] is not None:
            axes.plot(shares, [step["begun"] for step in steps], color=INK, linewidth=0.8, label="faults begun")
        false = [step["false_alarms_per_100_normal"] / 100 for step in steps]
        axes.bar(shares, false, width=4, color=GREY, label="false alarms so far, per normal recording")
        axes.set(title=name, xlabel="share of a typical recording in %", ylim=(0, 1.02))
    _add_legend(figure, panels[0], "lower center")
    return figure


def _add_boxes(axes: Any, positions: Any, values: Array, colour: str) -> None:
    """Draw a box per column of values (episode, k), or dots for a single episode, whose boxes would have no height."""
    if len(values) == 1:
        axes.plot(positions, values[0], "o", color=colour, markersize=4)
        return
    diamond = {"marker": "D", "markersize": 2.2, "markerfacecolor": "white", "markeredgecolor": INK}
    axes.boxplot(
        values, positions=positions, widths=0.22, showmeans=True, patch_artist=True, manage_ticks=False,
        boxprops={"facecolor": colour, "alpha": 0.55, "linewidth": 0.6},
        medianprops={"color": INK, "linewidth": 1.4},
        meanprops={**diamond, "markeredgewidth": 0.6},
        flierprops={"markersize": 2}, whiskerprops={"linewidth": 0.6}, capprops={"linewidth": 0.6},
    )  # fmt: skip


def panel_letters(number: int) -> str:
    """Return the letters of a panel, counted from 0: a to z, then aa, ab and so on.

    >>> [panel_letters(number) for number in (0, 25, 26, 701, 702)]
    ['a', 'z', 'aa', 'zz', 'aaa']
    """
    earlier, place = divmod(number, 26)
    return (panel_letters(earlier - 1) if earlier else "") + chr(ord("a") + place)


def relevance_over_signal(axes: Any, course: RelevanceCourse) -> Any:
    """Draw a signal and, on axes of its own, which are returned, its temporal relevance."""
    axes.plot(course.line.time, course.line.values, color=GREY, linewidth=0.7)
    other = axes.twinx()
    other.plot(course.centre, course.relevance, color=course_colour(course), linewidth=1.3)
    other.plot(course.centre, course.edge, **EDGE)
    other.set_ylim(bottom=0)
    other.tick_params(colors=course_colour(course))
    axes.margins(x=0)
    return other


def draw_edge(axes: Any, courses: Sequence[RelevanceCourse]) -> None:
    """Draw one edge of the normal band for courses on the same axes, for the most common length."""
    length = mode(len(course.edge) for course in courses)
    course = next(course for course in courses if len(course.edge) == length)
    axes.plot(course.centre, course.edge, label="edge of the 99 % normal band", **EDGE)


def mark_beyond(axes: Any, view: AttentionView, places: Array | None = None) -> None:
    """Draw a red dot on each weight above its normal band; `places` are the positions of rows and columns."""
    at = np.arange(len(view.attention)) if places is None else places
    rows, columns = view.cells_beyond
    axes.scatter(at[columns], at[rows], s=600 / len(view.attention) ** 1.5, color=ANOMALOUS, linewidth=0)


def relevance_bars(axes: Any, view: AttentionView) -> None:
    """Draw a bar per column, red above its normal band, with a dash at the edge of the band; 1 is average."""
    places = range(len(view.relevance))
    axes.bar(places, view.relevance, color=np.where(view.bars_beyond, ANOMALOUS, NORMAL), width=0.85)
    axes.scatter(places, view.relevance_edge, marker="_", s=900 / len(places), color=INK, linewidth=0.8)
    axes.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    axes.set_xlim(-0.5, len(places) - 0.5)


def _add_legend(figure: Figure, axes: Any, place: str) -> None:
    """Add a legend outside the axes, with one entry per label."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(list(once.values()), list(once), loc=f"outside {place}", ncols=3, fontsize=8)


def matrix_over_bars(
    panels: Any,
    view: AttentionView,
    names: Sequence[str] | None,
    symbols: tuple[str, str],
    label: str = "",
    scale: Any = None,
) -> Any:
    """Draw an attention matrix, whose image is returned, above its column sums; `scale` is shared by several."""
    above, below = panels
    limits = {"vmin": 0} if scale is None else {"norm": scale}
    image = above.imshow(view.attention, cmap="Blues", aspect="auto", interpolation="none", **limits)
    mark_beyond(above, view)
    above.set_title(symbols[0])
    relevance_bars(below, view)
    below.set_title(symbols[1])
    below.set_xlabel(label)
    if names is None:
        above.yaxis.get_major_locator().set_params(integer=True)
    else:
        fontsize = 7 if len(names) <= FEW_NAMES else 5.5
        above.set_yticks(range(len(names)), names, fontsize=fontsize)
        above.set_xticks(range(len(names)), [""] * len(names))
        below.set_xticks(range(len(names)), names, rotation=90, fontsize=fontsize)
    return image


def course_colour(course: RelevanceCourse) -> str:
    """Return red for anomalous episodes, else blue, which colour-blind readers can distinguish."""
    return ANOMALOUS if course.is_anomaly else NORMAL
