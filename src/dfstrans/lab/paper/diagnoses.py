"""The paper's figures of diagnoses, with the same panels, and the numbers in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording, recordings_of
from dfstrans.diagnosis.trust import attention_trust_score
from dfstrans.lab.paper.examples import (
    Examples,
    Rows,
    Subject,
    examples_of,
    fault_segments,
    group_name,
    require_examples,
    subject_of,
)
from dfstrans.lab.paper.request import Outcome, Request, write_target
from dfstrans.report.figures import ANOMALOUS, INK, KNOWN, NORMAL
from dfstrans.report.print_figures import (
    EDGE,
    FEW_NAMES,
    MOST_TRIED,
    WIDTH,
    course_colour,
    draw_edge,
    draw_trust,
    mark_as_no_result,
    mark_beyond,
    matplotlib,
    matrix_over_bars,
    new_figure,
    relevance_bars,
    relevance_over_signal,
)
from dfstrans.report.views import (
    MOST_POINTS,
    Array,
    RelevanceCourse,
    between_moments,
    between_sensors,
    chosen_moments,
    edges,
    named,
    relevance_courses,
    thinned,
    trust_boxes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


POINT_JOURNEYS = 5  # of fig:paj_ax_local
LASTING_JOURNEYS = NORMAL_JOURNEYS = 3  # of fig:paj_id_local
POINT_SENSORS, LASTING_SENSOR = ("Ax", "Ay"), "Iq"  # of fig:lta
SHOWN_SENSORS = 4  # of a journey with friction
DRAW = 0  # seed of the sample of anomalous episodes
CHOICE = (
    "Examples are the episodes of each kind that the model is most certain of, one with two point anomalies first, "
    "from the part named here; fig:at_scores has the detected anomalies, or a random sample of "
    f"{MOST_TRIED} of them."
)


class Drawing(NamedTuple):
    """A figure, and the numbers in it."""

    draw: Callable[[], Figure]
    numbers: dict[str, Any]


def diagnoses(request: Request) -> Outcome:
    """Draw one of the figures, with a given model or one trained for it."""
    matplotlib()  # fails before hours of training if it is missing
    subject = subject_of(request)
    detector, episodes = subject.detector, subject.episodes
    probabilities = detector.predict_proba(episodes)[:, 1]
    examples = examples_of(episodes, probabilities, detector.decision_threshold)
    require_examples(examples, request.target, len(episodes))
    make = {"fig:lsa": _spatial, "fig:mix": _global, "fig:lta": _temporal, "fig:at_scores": _trust}[request.target]
    drawing = make(subject, examples)

    def draw() -> Figure:
        figure = drawing.draw()
        if request.quick:
            mark_as_no_result(figure)
        return figure

    written = write_target(request, draw)
    anomalous = 0 if episodes.labels is None else episodes.n_anomalous
    content = {
        "model": {"name": subject.name, "settings": detector.get_params(deep=False), "metrics": detector.metrics_},
        "shown": {"part": subject.part, "episodes": len(episodes), "anomalous": anomalous, "choice": CHOICE},
        "data_fingerprint": episodes.fingerprint(),
        "numbers": drawing.numbers,
    }
    return Outcome(content=content, written=written)


def _spatial(subject: Subject, examples: Examples) -> Drawing:
    """Spatial attention at the moments of the faults and at a quiet one [fig:lsa]."""
    ((diagnosis, recording),) = _diagnosed(subject, examples.point[:1])
    segment_length = subject.detector.network_settings_.segment_length
    known = fault_segments(recording.episode, segment_length)
    quiet = list(chosen_moments(diagnosis))[-1]
    moments = _titled(diagnosis, [*known, quiet] if known else list(chosen_moments(diagnosis)), quiet)
    sensors = _among(POINT_SENSORS, diagnosis)
    numbers = {
        **_summary(diagnosis, recording),
        "global_spatial_relevance": _by_name(diagnosis.sensors, diagnosis.global_spatial_relevance),
        "moments": [
            {
                "segment": t,
                "title": title,
                "spatial_relevance": _by_name(diagnosis.sensors, diagnosis.spatial_relevance[t]),
                "spatial_attention": _rounded(diagnosis.spatial_attention[t]),
            }
            for t, title in moments.items()
        ],
    }
    return Drawing(lambda: print_spatial(diagnosis, recording, sensors, moments), numbers)


def _global(subject: Subject, examples: Examples) -> Drawing:
    """Global temporal and spatial attention of a whole journey [fig:mix]."""
    ((diagnosis, recording),) = _diagnosed(subject, examples.lasting[:1])
    first = [diagnosis.sensors[s] for s in np.argsort(-diagnosis.global_spatial_relevance, kind="stable")]
    sensors = list(dict.fromkeys([*_among((LASTING_SENSOR,), diagnosis), *first]))[:SHOWN_SENSORS]
    numbers = {
        **_summary(diagnosis, recording),
        "global_temporal_attention": _rounded(diagnosis.global_temporal_attention),
        "global_temporal_relevance": _rounded(diagnosis.global_temporal_relevance),
        "global_spatial_attention": _rounded(diagnosis.global_spatial_attention),
        "global_spatial_relevance": _by_name(diagnosis.sensors, diagnosis.global_spatial_relevance),
    }
    return Drawing(lambda: print_global(diagnosis, recording, sensors), numbers)


def _temporal(subject: Subject, examples: Examples) -> Drawing:
    """Temporal relevance of one sensor [fig:lta]."""
    point = _diagnosed(subject, examples.point[:POINT_JOURNEYS])
    lasting, normal = examples.lasting[:LASTING_JOURNEYS], examples.normal[:NORMAL_JOURNEYS]
    beside = _diagnosed(subject, np.concatenate([lasting, normal]))
    diagnosis, recording = point[0]
    over = {
        named(sensor, recording.units[diagnosis.sensors.index(sensor)]): relevance_courses(point, sensor)
        for sensor in _among(POINT_SENSORS, diagnosis)
    }
    sensor = _among((LASTING_SENSOR,), beside[0][0])[0]
    courses = [
        course._replace(is_anomaly=row < len(lasting)) for row, course in enumerate(relevance_courses(beside, sensor))
    ]
    numbers = {
        "over": {
            title: {course.episode_id: _rounded(course.relevance) for course in shown} for title, shown in over.items()
        },
        "beside": {
            course.episode_id: {"anomalous": course.is_anomaly, "temporal_relevance": _rounded(course.relevance)}
            for course in courses
        },
        "beside_sensor": sensor,
    }
    return Drawing(lambda: print_temporal(over, courses, sensor, recording.time_title), numbers)


def _trust(subject: Subject, examples: Examples) -> Drawing:
    """How much the logit falls without the largest attention weights [fig:at_scores]."""
    tried = subject.episodes[sample(examples.anomalous)]
    trust = attention_trust_score(subject.detector, tried)
    boxes = trust_boxes(trust, [group_name(kind) for kind in tried.fault_kinds()])
    numbers = {
        kind: {
            "episodes": len(values["top"]),
            **{which: {"mean": _rounded(one.mean(axis=0)), "median": _rounded(np.median(one, axis=0))}
               for which, one in values.items()},
        }
        for kind, values in boxes.items()
    }  # fmt: skip
    summary = {"k": trust.percentages.tolist(), "fall_of_logit": numbers}
    return Drawing(lambda: draw_trust(boxes, trust.percentages), summary)


def sample(rows: Rows) -> Rows:
    """The sorted rows, or a random sample if there are many: the most certain ones would look too good."""
    rows = np.sort(rows)
    if len(rows) <= MOST_TRIED:
        return rows
    return np.sort(np.random.default_rng(DRAW).choice(rows, MOST_TRIED, replace=False))


def _diagnosed(subject: Subject, rows: Rows) -> list[tuple[Diagnosis, Recording]]:
    """The diagnoses of some episodes, with their recordings."""
    shown = subject.episodes[rows]
    recording = recordings_of(subject.detector, shown)
    return [(diagnosis, recording(row)) for row, diagnosis in enumerate(subject.detector.diagnose(shown))]


def _among(wanted: Sequence[str], diagnosis: Diagnosis) -> list[str]:
    """These sensors; if the machine does not have them, as many of the top-ranked ones."""
    if set(wanted) <= set(diagnosis.sensors):
        return list(wanted)
    return [ranked.sensor for ranked in diagnosis.top_sensors(len(wanted))]


def _titled(diagnosis: Diagnosis, segments: list[int], quiet: int) -> dict[int, str]:
    bounds = diagnosis.segment_bounds
    return {t: f"{bounds[t, 0]:g} – {bounds[t, 1]:g}{', quiet' if t == quiet else ''}" for t in dict.fromkeys(segments)}


def _summary(diagnosis: Diagnosis, recording: Recording) -> dict[str, Any]:
    faults = [fault._asdict() for fault in recording.episode.faults or ()]
    return {"episode": diagnosis.episode_id, "probability": diagnosis.probability, "faults": faults}


def _by_name(names: Sequence[str], values: Any) -> dict[str, float]:
    return dict(zip(names, _rounded(values), strict=True))


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 5).tolist()


# ---- drawing --------------------------------------------------------------------------------------------------------

PALE_WEIGHTS = 3.0
PALE = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}


def print_spatial(
    diagnosis: Diagnosis, recording: Recording, sensors: Sequence[str], moments: Mapping[int, str]
) -> Figure:
    """Signals with marked moments, b^G, and B^(τ) with b^(τ) at each of the moments [fig:lsa].

    Panels as in the paper: (a) signals, (b) global spatial relevance, from (c) on the moments, on one colour scale.
    """
    from matplotlib.colors import Normalize

    figure = new_figure(2.2 + WIDTH / 2 + 0.5)
    above, below = _parts(figure, 2, 1, height_ratios=[2.2, WIDTH / 2 + 0.5])
    left, right = _parts(above, 1, 2)
    panels = _signals(left, diagnosis, recording, sensors, moments)
    panels[0].set_title(_signals_title(recording), loc="left", pad=14)
    axes = right.subplots()
    relevance_bars(axes, between_sensors(diagnosis))
    names = diagnosis.sensors
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7 if len(names) <= FEW_NAMES else 5.5)
    axes.set_title("(b) global spatial relevance $b^G$", loc="left")
    grid = below.subplots(2, len(moments), squeeze=False, height_ratios=[3, 1], sharey="row")
    scale = Normalize(0, _highest(*(diagnosis.spatial_attention[t] for t in moments)))
    image = None
    for column, (t, title) in enumerate(moments.items()):
        symbols = f"({'cdefgh'[column]}) $B^{{({t})}}$, {title}", f"$b^{{({t})}}$"
        image = matrix_over_bars(grid[:, column], between_sensors(diagnosis, t), names, symbols, scale=scale)
    grid[0, 0].set_ylabel("query sensor")
    grid[1, 0].set_ylabel("relevance")
    below.colorbar(image, ax=list(grid[0]), label="attention weight", pad=0.02, aspect=30)
    return figure


def print_global(diagnosis: Diagnosis, recording: Recording, sensors: Sequence[str]) -> Figure:
    """Signals, A^G over a^G, and B^G over b^G [fig:mix], panels (a) to (e) as in the paper.

    Both matrices share one square-root colour scale, because weights spread over the whole time are small.
    """
    from matplotlib.colors import PowerNorm

    figure = new_figure(4.3)
    left, right = _parts(figure, 1, 2, width_ratios=[1, 2.3])
    panels = _signals(left, diagnosis, recording, sensors, {})
    panels[0].set_title(_signals_title(recording), loc="left", pad=14)
    grid = right.subplots(2, 2, height_ratios=[2.2, 1], width_ratios=[1, 1.3], sharex="col")
    scale = PowerNorm(0.5, 0, _highest(diagnosis.global_temporal_attention, diagnosis.global_spatial_attention))
    when, moments = grid[:, 0]
    time, of_moments = edges(diagnosis), between_moments(diagnosis)
    image = when.pcolormesh(time, time, of_moments.attention, cmap="Blues", norm=scale)
    mark_beyond(when, of_moments, (time[1:] + time[:-1]) / 2)
    when.invert_yaxis()
    when.set_ylabel(f"{recording.time_title}, query")
    when.set_title("(b) $A^G$", loc="left")
    moments.stairs(of_moments.relevance, time, fill=True, color=NORMAL)
    beyond = np.where(of_moments.bars_beyond, of_moments.relevance, 0)
    moments.stairs(beyond, time, fill=True, color=ANOMALOUS)
    moments.stairs(of_moments.relevance_edge, time, baseline=None, **EDGE)
    moments.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    moments.set(xlabel=f"{recording.time_title}, key", ylabel="relevance", xlim=(time[0], time[-1]))
    moments.set_title("(c) $a^G$", loc="left")
    symbols = "(d) $B^G$", "(e) $b^G$"
    matrix_over_bars(grid[:, 1], between_sensors(diagnosis), diagnosis.sensors, symbols, scale=scale)
    right.colorbar(image, ax=list(grid[0]), label="attention weight, root scale", pad=0.02, aspect=30)
    return figure


def print_temporal(
    point: Mapping[str, Sequence[RelevanceCourse]], beside: Sequence[RelevanceCourse], sensor: str, time_title: str
) -> Figure:
    """a^(s) over signals with point anomalies, per sensor, and in lasting and normal episodes [fig:lta]."""
    rows = max(len(courses) for courses in point.values())
    figure = new_figure(0.8 + 0.85 * rows + 2.2)
    above, below = _parts(figure, 2, 1, height_ratios=[0.8 + 0.85 * rows, 2.2])
    grid = above.subplots(rows, len(point), squeeze=False, sharex=True)
    for column, (title, courses) in enumerate(point.items()):
        for row, (axes, course) in enumerate(zip(grid[:, column], courses, strict=True)):
            other = relevance_over_signal(axes, course)
            axes.set_xlim(course.line.time[0], course.line.time[-1])
            other.spines["right"].set_visible(True)
            for each in (axes, other):
                each.tick_params(labelsize=7)
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
    """The signals of some sensors, with shaded moments and known faults marked above."""
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
    """Parts of a figure, each with its own layout; the stubs of matplotlib take several for one."""
    return figure.subfigures(rows, columns, **ratios)


def _signals_title(recording: Recording) -> str:
    return f"(a) {recording.episode.id}" + ("\n▼ known faults" if recording.episode.faults else "")


def _highest(*attentions: Array) -> float:
    """Upper end of a colour scale: the largest weight, at least three times the uniform one, which stays pale."""
    return max(float(max(one.max(), PALE_WEIGHTS / len(one))) for one in attentions)
