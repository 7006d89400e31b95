"""The report: one HTML file that needs nothing from outside."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.files import written_atomically
from dfstrans.report.figures import (
    diagnosis_figure,
    matrix_figure,
    precision_recall_figure,
    probability_figure,
    training_figure,
)

if TYPE_CHECKING:
    from dfstrans.diagnoser import Diagnoser


def write_report(
    path: Path, title: str, detector: Diagnoser, test: Episodes, diagnoses: list[Diagnosis], shown: list[int]
) -> None:
    """Write the report on a detector's work on labelled test episodes.

    `diagnoses` are of all test episodes, in their order; `shown` are the rows of those to show in detail.
    """
    test = detector.check_input(test)
    labels = test.require_labels()
    probabilities = np.array([diagnosis.probability for diagnosis in diagnoses])
    evaluation = detector.evaluate(test)
    figures = {
        "probabilities": probability_figure(probabilities, labels, test.ids, evaluation.threshold),
        "precision_recall": precision_recall_figure(
            probabilities, labels, (evaluation.recall or 0.0, evaluation.precision)
        ),
        "training": training_figure(detector.log_, detector.best_epoch_),
    }
    details = []
    for row in shown:
        (episode,) = test[row]
        figure = diagnosis_figure(diagnoses[row], episode, test.interval)
        details.append({"diagnosis": diagnoses[row], "truth": _truth(episode, test.interval), "figure": as_div(figure)})
    page = template("report.html").render(
        title=title,
        test=test,
        evaluation=evaluation,
        detector=detector,
        plotly=plotly_script(),
        figures={name: as_div(figure) for name, figure in figures.items()},
        details=details,
        agreement=agreement(test, diagnoses),
    )
    with written_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def agreement(test: Episodes, diagnoses: list[Diagnosis]) -> dict[str, float] | None:
    """Of the detected episodes whose fault is known, the share in which sensor, and moment, were named rightly.

    Beside each, what guessing would give; also the share in which the cause was, where causes were named.
    """
    rows, causes = [], []
    for row, diagnosis in enumerate(diagnoses):
        if not diagnosis.is_anomaly:
            continue
        cells = test.fault_cells(row, _segment_length(diagnosis, test))
        if not cells.any():
            continue
        blamed, affected = np.atleast_1d(cells.any(axis=0)), np.atleast_1d(cells.any(axis=1))
        sensor = test.sensors.index(diagnosis.top_sensor)
        rows.append((blamed[sensor], affected[diagnosis.top_segment], blamed.mean(), affected.mean()))
        causes.append((diagnosis.likely_cause, test.fault_kinds()[row]))
    if not rows:
        return None
    named = [cause == kind for cause, kind in causes if cause is not None]
    sensor, moment, sensor_chance, moment_chance = np.mean(rows, axis=0).tolist()
    return {
        "episodes": len(rows),
        "sensor": sensor,
        "sensor_chance": sensor_chance,
        "moment": moment,
        "moment_chance": moment_chance,
        **({"cause": float(np.mean(named))} if named else {}),
    }


def _segment_length(diagnosis: Diagnosis, test: Episodes) -> int:
    """In points; only the last segment may be shorter than the first."""
    return round(float(np.diff(diagnosis.segment_bounds[0])[0]) / (test.interval or 1))


def _truth(episode: Episode, interval: float | None) -> str:
    step = interval or 1
    return "; ".join(
        f"{fault.kind or 'fault'} in {', '.join(fault.sensors) or 'unknown sensors'} "
        f"from {fault.start * step:g} to {fault.stop * step:g}"
        for fault in episode.faults or ()
    )


def write_diagnosis(path: Path, diagnosis: Diagnosis, episode: Episode, interval: float | None) -> None:
    """Write one episode's diagnosis as a page for those who look after the machine."""
    page = template("diagnosis.html").render(
        diagnosis=diagnosis,
        sensors=diagnosis.top_sensors(5),
        moments=diagnosis.top_segments(5),
        pairs=diagnosis.changed_pairs[:8],
        truth=_truth(episode, interval),
        unit="" if interval else " (in points)",
        plotly=plotly_script(),
        figure=as_div(diagnosis_figure(diagnosis, episode, interval)),
        along_time=as_div(matrix_figure(diagnosis.scores.global_temporal, None, "moments")),
        among_sensors=as_div(matrix_figure(diagnosis.scores.global_spatial, diagnosis.sensors, "sensors")),
    )
    with written_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def write_index(path: Path, found: list[dict[str, Any]]) -> None:
    """Write a page that leads to the diagnoses, the surest anomaly first."""
    ranked = sorted(found, key=lambda content: -content["severity"])
    page = template("index.html").render(diagnoses=ranked, page_name=page_name)
    with written_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def page_name(episode_id: str) -> str:
    """The file name of an episode's page: its id, with what a file system might not take replaced."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", episode_id)[:80]
    return f"{plain}-{zlib.crc32(episode_id.encode()):08x}.html"


def template(name: str) -> Template:
    """A page to be filled in; what is filled in is escaped."""
    environment = Environment(
        loader=PackageLoader("dfstrans.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


def as_div(figure: object) -> str:
    """A figure as a piece of HTML, without plotly's own code."""
    html: str = figure.to_html(  # type: ignore[attr-defined]
        full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True}
    )
    return html


def plotly_script() -> str:
    """Plotly's own code, so that a page needs nothing from outside."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
