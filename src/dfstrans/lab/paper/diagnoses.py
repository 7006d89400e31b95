"""The paper's figures of diagnoses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording, recordings_of
from dfstrans.lab.paper.figures import print_global, print_spatial, print_temporal
from dfstrans.lab.paper.request import Outcome, Request, Simulate
from dfstrans.lab.paper.subject import (
    LASTING_JOURNEYS,
    LASTING_SENSOR,
    NORMAL_JOURNEYS,
    POINT_JOURNEYS,
    POINT_SENSORS,
    Exemplars,
    Rows,
    Subject,
    exemplars_of,
    group_name,
    moments_of_faults,
    require_shown,
    subject_of,
)
from dfstrans.report.print_figures import MOST_TRIED, draw_trust, mark_as_no_result, matplotlib, write_figures
from dfstrans.report.views import chosen_moments, named, relevance_courses, trust_boxes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = ("pdf", "svg", "png")
DRAW = 0  # seed of which anomalous episodes are tried
SHOWN_SENSORS = 4  # of a journey with friction
CHOICE = (
    "Examples are those of their kind that the model is surest of, one with two point anomalies first, among the "
    "recordings named by part; fig:at_scores has those that are anomalous and detected, of more than "
    f"{MOST_TRIED} as many drawn at random."
)

Seen = tuple[Diagnosis, Recording]


class Drawing(NamedTuple):
    """A figure, and the numbers in it."""

    draw: Callable[[], Figure]
    numbers: dict[str, Any]


def diagnoses(request: Request, simulate: Simulate) -> Outcome:
    """Draw one of the figures, of a model that is given or trained for it."""
    matplotlib()  # told at once, not after hours of training
    subject = subject_of(request, simulate)
    detector, episodes = subject.detector, subject.episodes
    probabilities = detector.predict_proba(episodes)[:, 1]
    exemplars = exemplars_of(episodes, probabilities, detector.decision_threshold)
    require_shown(exemplars, request.target, len(episodes))
    make = {"fig:lsa": _spatial, "fig:mix": _global, "fig:lta": _temporal, "fig:at_scores": _trust}[request.target]
    made = make(subject, exemplars)

    def draw() -> Figure:
        figure = made.draw()
        if request.quick:
            mark_as_no_result(figure)
        return figure

    written = write_figures(request.out, {request.target.replace(":", "_"): draw}, FORMATS)
    anomalous = 0 if episodes.labels is None else episodes.n_anomalous
    content = {
        "model": {"name": subject.name, "settings": detector.get_params(deep=False), "metrics": detector.metrics_},
        "shown": {"part": subject.part, "episodes": len(episodes), "anomalous": anomalous, "choice": CHOICE},
        "data_fingerprint": episodes.fingerprint(),
        "numbers": made.numbers,
    }
    return Outcome(content=content, written=written)


def _spatial(subject: Subject, exemplars: Exemplars) -> Drawing:
    """Fig. lsa: where to look, at the moments of the faults and at a quiet one."""
    ((diagnosis, recording),) = _seen(subject, exemplars.point[:1])
    segment_length = subject.detector.network_settings_.segment_length
    known = moments_of_faults(recording.episode, segment_length)
    quiet = list(chosen_moments(diagnosis))[-1]
    moments = _titled(diagnosis, [*known, quiet] if known else list(chosen_moments(diagnosis)), quiet)
    sensors = _among(POINT_SENSORS, diagnosis)
    numbers = {
        **_told(diagnosis, recording),
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


def _global(subject: Subject, exemplars: Exemplars) -> Drawing:
    """Fig. mix: when and where, over a whole journey."""
    ((diagnosis, recording),) = _seen(subject, exemplars.lasting[:1])
    first = [diagnosis.sensors[s] for s in np.argsort(-diagnosis.global_spatial_relevance, kind="stable")]
    sensors = list(dict.fromkeys([*_among((LASTING_SENSOR,), diagnosis), *first]))[:SHOWN_SENSORS]
    numbers = {
        **_told(diagnosis, recording),
        "global_temporal_attention": _rounded(diagnosis.global_temporal_attention),
        "global_temporal_relevance": _rounded(diagnosis.global_temporal_relevance),
        "global_spatial_attention": _rounded(diagnosis.global_spatial_attention),
        "global_spatial_relevance": _by_name(diagnosis.sensors, diagnosis.global_spatial_relevance),
    }
    return Drawing(lambda: print_global(diagnosis, recording, sensors), numbers)


def _temporal(subject: Subject, exemplars: Exemplars) -> Drawing:
    """Fig. lta: when, for one sensor."""
    point = _seen(subject, exemplars.point[:POINT_JOURNEYS])
    lasting, normal = exemplars.lasting[:LASTING_JOURNEYS], exemplars.normal[:NORMAL_JOURNEYS]
    beside = _seen(subject, np.concatenate([lasting, normal]))
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


def _trust(subject: Subject, exemplars: Exemplars) -> Drawing:
    """Fig. at_scores: what the logit loses without the largest weights."""
    from dfstrans.diagnosis.trust import attention_trust_score

    tried = subject.episodes[drawn(exemplars.anomalous)]
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
    told = {"k": trust.percentages.tolist(), "fall_of_logit": numbers}
    return Drawing(lambda: draw_trust(boxes, trust.percentages), told)


def drawn(rows: Rows) -> Rows:
    """The rows in order, of many only some: drawn, since the surest would flatter."""
    rows = np.sort(rows)
    if len(rows) <= MOST_TRIED:
        return rows
    return np.sort(np.random.default_rng(DRAW).choice(rows, MOST_TRIED, replace=False))


def _seen(subject: Subject, rows: Rows) -> list[Seen]:
    """The diagnoses of some episodes, with their recordings."""
    shown = subject.episodes[rows]
    recording = recordings_of(subject.detector, shown)
    return [(diagnosis, recording(row)) for row, diagnosis in enumerate(subject.detector.diagnose(shown))]


def _among(wanted: Sequence[str], diagnosis: Diagnosis) -> list[str]:
    """These sensors, or as many of the first of the ranking where the machine is another one."""
    if set(wanted) <= set(diagnosis.sensors):
        return list(wanted)
    return [ranked.sensor for ranked in diagnosis.top_sensors(len(wanted))]


def _titled(diagnosis: Diagnosis, segments: list[int], quiet: int) -> dict[int, str]:
    bounds = diagnosis.segment_bounds
    return {t: f"{bounds[t, 0]:g} – {bounds[t, 1]:g}{', quiet' if t == quiet else ''}" for t in dict.fromkeys(segments)}


def _told(diagnosis: Diagnosis, recording: Recording) -> dict[str, Any]:
    faults = [fault._asdict() for fault in recording.episode.faults or ()]
    return {"episode": diagnosis.episode_id, "probability": diagnosis.probability, "faults": faults}


def _by_name(names: Sequence[str], values: Any) -> dict[str, float]:
    return dict(zip(names, _rounded(values), strict=True))


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 5).tolist()
