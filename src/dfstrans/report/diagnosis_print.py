"""The figures of a diagnosis for print, from the same numbers as those for the screen in `diagnosis_figures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.errors import DfstransError, counted
from dfstrans.files import written_atomically
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.views import (
    Array,
    AttentionView,
    RelevanceCourse,
    between_moments,
    between_sensors,
    chosen_moments,
    edge_beside,
    edges,
    ranking_title,
    shaded,
    signals,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTH = 6.3  # inches: the text of an A4 page
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
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "dfstrans",  # the same file for the same numbers
    "figure.constrained_layout.use": True,
}
UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}


def write_figures(
    folder: Path, drawings: Mapping[str, Callable[[], Figure]], formats: tuple[str, ...] = ("pdf", "svg")
) -> list[Path]:
    """Draw figures in the shared style and write each, by its name, in every format."""
    written = []
    with matplotlib().rc_context(STYLE):
        for name, draw in drawings.items():
            figure = draw()
            for suffix in formats:
                path = folder / f"{name}.{suffix}"
                with written_atomically(path) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=UNDATED[suffix], dpi=200)
                written.append(path)
    return written


def new_figure(height: float) -> Figure:
    """An empty figure as wide as the text of a page."""
    figure: Figure = matplotlib().figure.Figure(figsize=(WIDTH, height))
    return figure


def mark_as_no_result(figure: Figure) -> None:
    """Say on a figure that it is only a quick look."""
    figure.suptitle("QUICK LOOK, NO RESULT", color="#b00020", fontweight="bold", fontsize=9)


def matplotlib() -> Any:
    """The package, or an error that tells how to get it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise DfstransError(
            "expected matplotlib for figures in print quality, got no such package; pip install 'dfstrans[paper]'"
        ) from error
    return matplotlib


GREY, TRUTH = "#8b98a5", "#edae49"
USUAL = "#d9e8e0"
EDGE: dict[str, Any] = {"color": INK, "linestyle": "-.", "linewidth": 0.7}  # of a normal band


def write_diagnosis_figures(folder: Path, stem: str, diagnosis: Diagnosis, recording: Recording) -> list[Path]:
    """Write the figures of one diagnosis, as PDF and SVG; the files are named `stem`_*."""
    drawings = {
        f"{stem}_signals": lambda: print_signals(diagnosis, recording),
        f"{stem}_cells": lambda: print_cells(diagnosis, recording),
        f"{stem}_attention": lambda: print_attention(diagnosis),
        f"{stem}_moments": lambda: print_moments(diagnosis),
    }
    return write_figures(folder, drawings)


def print_signals(diagnosis: Diagnosis, recording: Recording) -> Figure:
    """The sensors that matter with the moments that matter shaded [fig:PAJ38]; see `signals_figure`."""
    shown = signals(diagnosis, recording)
    figure = new_figure(1.25 * len(shown) + 0.9)
    panels = figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0]
    for axes, one in zip(panels, shown, strict=True):
        if one.usual is not None:
            low, high = one.usual.low, one.usual.high
            axes.stairs(high, one.usual.edges, baseline=low, fill=True, color=USUAL, linewidth=0, label="normal ones")
        if one.nearest is not None:
            axes.plot(one.nearest.time, one.nearest.values, color=GREY, linewidth=0.7, label="a normal one like it")
        axes.plot(one.line.time, one.line.values, color=INK, linewidth=0.8, label="this recording")
        for start, end in shaded(diagnosis):
            axes.axvspan(start, end, color=ANOMALOUS, alpha=0.18, linewidth=0, label="moments to look at")
        for fault in recording.episode.faults or ():
            when = [fault.start * recording.step, fault.stop * recording.step]
            place = axes.get_xaxis_transform()  # in time, and along the height of the panel
            look = {"color": TRUTH, "linewidth": 2.5, "solid_capstyle": "butt", "label": "known truth"}
            axes.plot(when, [1.03, 1.03], transform=place, clip_on=False, **look)
        axes.set_title(one.title, fontweight="bold")
        axes.margins(x=0)
    panels[-1].set_xlabel(recording.time_title)
    handles, labels = panels[0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))  # several moments, several faults
    figure.legend(list(once.values()), list(once), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def print_cells(diagnosis: Diagnosis, recording: Recording) -> Figure:
    """What sensors and moments are ranked by, of every sensor at every moment; see `cells_figure`."""
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


def print_attention(diagnosis: Diagnosis) -> Figure:
    """A^G and a^G, B^G and b^G [fig:mix2] to [fig:mix5]."""
    figure = new_figure(4.3)
    grid = figure.subplots(2, 2, height_ratios=[3, 1])
    _matrix_over_bars(grid[:, 0], between_moments(diagnosis), None, ("$A^G$", "$a^G$"), "segment")
    _matrix_over_bars(grid[:, 1], between_sensors(diagnosis), diagnosis.sensors, ("$B^G$", "$b^G$"), "")
    return figure


def print_moments(diagnosis: Diagnosis, segments: Sequence[int] | None = None) -> Figure:
    """B^(τ) and b^(τ) at some moments [fig:lsa_t34] to [fig:lsa_t75]."""
    moments = chosen_moments(diagnosis, segments)
    figure = new_figure(1.6 + WIDTH / len(moments))
    grid = figure.subplots(2, len(moments), squeeze=False, height_ratios=[3, 1], sharey="row")
    for column, (t, title) in enumerate(moments.items()):
        in_two_lines = title.replace(": ", "\n")
        symbols = (f"$B^{{({t})}}$, {in_two_lines}", f"$b^{{({t})}}$")
        _matrix_over_bars(grid[:, column], between_sensors(diagnosis, t), diagnosis.sensors, symbols, "")
    return figure


def print_relevance(courses: Sequence[RelevanceCourse], title: str) -> Figure:
    """A sensor's local temporal relevance over its recording, episode by episode [fig:paj_ax_local]."""
    figure = new_figure(0.5 + 1.15 * len(courses))
    panels = figure.subplots(len(courses), sharex=True, squeeze=False)[:, 0]
    for axes, course in zip(panels, courses, strict=True):
        axes.plot(course.line.time, course.line.values, color=GREY, linewidth=0.7)
        other = axes.twinx()
        other.plot(course.centre, course.relevance, color=course_colour(course), linewidth=1.3)
        other.plot(course.centre, course.edge, **EDGE)
        other.set_ylim(bottom=0)
        other.tick_params(colors=course_colour(course))
        other.set_ylabel("$a^{(s)}$")
        axes.set_title(course.episode_id)
        axes.margins(x=0)
    panels[-1].set_xlabel(courses[0].time_title)
    figure.supylabel(title, fontsize=9)
    return figure


def print_relevance_beside_normal(courses: Sequence[RelevanceCourse], title: str) -> Figure:
    """A sensor's local temporal relevance in anomalous and in other episodes [fig:paj_id_local]."""
    figure = new_figure(2.5)
    axes = figure.subplots()
    named: set[bool] = set()
    for course in courses:
        label = None if course.is_anomaly in named else "anomalous" if course.is_anomaly else "not anomalous"
        named.add(course.is_anomaly)
        axes.plot(course.centre, course.relevance, color=course_colour(course), linewidth=1.2, label=label)
    draw_edge(axes, courses)
    axes.set(xlabel=courses[0].time_title, ylabel=f"temporal relevance of {title}")
    axes.margins(x=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=8)
    return figure


def print_trust(boxes: Mapping[str, Mapping[str, Array]], percentages: Array) -> Figure:
    """AT_k by k with its random and bottom controls, a panel per kind of fault [fig:at_scores].

    Lines are medians and diamonds means, a dot is a single episode; the paper has lines and diamonds red and green,
    which not everybody can tell apart.
    """
    figure = new_figure(2.9)
    panels = figure.subplots(1, len(boxes), sharey=True, squeeze=False)[0]
    looks = {"top": ANOMALOUS, "random": GREY, "bottom": NORMAL}
    for number, axes, (kind, by_weights) in zip(range(len(boxes)), panels, boxes.items(), strict=True):
        for place, (which, values) in enumerate(by_weights.items()):
            positions = np.arange(len(percentages)) + 0.27 * (place - 1)
            if len(values) == 1:  # a box without height has no colour
                axes.plot(positions, values[0], "o", color=looks[which], markersize=4)
            else:
                axes.boxplot(
                    values, positions=positions, widths=0.22, showmeans=True, patch_artist=True, manage_ticks=False,
                    boxprops={"facecolor": looks[which], "alpha": 0.55, "linewidth": 0.6},
                    medianprops={"color": INK, "linewidth": 1.4},
                    meanprops={"marker": "D", "markersize": 2.2, "markeredgewidth": 0.6, "markerfacecolor": "white",
                               "markeredgecolor": INK},
                    flierprops={"markersize": 2}, whiskerprops={"linewidth": 0.6}, capprops={"linewidth": 0.6},
                )  # fmt: skip
            axes.bar(0, 0, color=looks[which], alpha=0.55, label=which)  # for the legend
        axes.axhline(0, color=INK, linewidth=0.6, linestyle=":")
        n = len(by_weights["top"])
        title = f"({panel_letters(number)}) {kind or 'anomalous'}\n{counted(n, 'episode')}"
        axes.set(title=title, xlabel="weights set to zero, %")
        axes.set_xticks(range(len(percentages)), [f"{k:g}" for k in percentages])
    panels[0].set_ylabel("fall of the logit")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def panel_letters(number: int) -> str:
    """What the panel of this number, from 0 on, is called: a to z, then aa, ab and so on.

    >>> [panel_letters(number) for number in (0, 25, 26, 701, 702)]
    ['a', 'z', 'aa', 'zz', 'aaa']
    """
    earlier, place = divmod(number, 26)
    return (panel_letters(earlier - 1) if earlier else "") + chr(ord("a") + place)


def draw_edge(axes: Any, courses: Sequence[RelevanceCourse]) -> None:
    """The edge of the normal band beside courses drawn over one another, where it is known."""
    time, edge = edge_beside(courses)
    if len(edge):
        axes.plot(time, edge, label="edge of the 99 % normal band", **EDGE)


def mark_beyond(axes: Any, view: AttentionView, places: Array | None = None) -> None:
    """A red dot on each weight of a matrix that is above its normal band; rows and columns may have other `places`."""
    at = np.arange(len(view.attention)) if places is None else places
    rows, columns = view.cells_beyond
    axes.scatter(at[columns], at[rows], s=600 / len(view.attention) ** 1.5, color=ANOMALOUS, linewidth=0)


def relevance_bars(axes: Any, view: AttentionView) -> None:
    """A bar per column, red above its normal band, whose edge is a dash; 1 is unremarkable."""
    places = range(len(view.relevance))
    axes.bar(places, view.relevance, color=np.where(view.bars_beyond, ANOMALOUS, NORMAL), width=0.85)
    axes.scatter(places, view.relevance_edge, marker="_", s=900 / len(places), color=INK, linewidth=0.8)
    axes.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    axes.set_xlim(-0.5, len(places) - 0.5)


def _matrix_over_bars(
    panels: Any, view: AttentionView, names: Sequence[str] | None, symbols: tuple[str, str], label: str
) -> None:
    """An attention matrix and, below it, its column sums."""
    above, below = panels
    above.imshow(view.attention, cmap="Blues", vmin=0, aspect="auto", interpolation="none")
    mark_beyond(above, view)
    above.set_title(symbols[0])
    relevance_bars(below, view)
    below.set_title(symbols[1])
    if names is None:
        above.yaxis.get_major_locator().set_params(integer=True)
    below.set_xlabel(label)
    if names is not None:
        small: dict[str, Any] = {"fontsize": 5.5}
        above.set_yticks(range(len(names)), names, **small)
        above.set_xticks(range(len(names)), [""] * len(names))
        below.set_xticks(range(len(names)), names, rotation=90, **small)


def course_colour(course: RelevanceCourse) -> str:
    """Red, or blue, which also those tell apart who do not see red and green as two colours."""
    return ANOMALOUS if course.is_anomaly else NORMAL
