"""The report on a detector's work: how well episodes are told apart, and the diagnoses of those it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.diagnosis_figures import signals_figure
from dfstrans.report.diagnosis_page import index_content, known_truth
from dfstrans.report.figures import precision_recall_figure, probability_figure, training_figure
from dfstrans.report.page import as_div, write_page


class ReportedDetector(Protocol):
    """What the report says of a detector."""

    threshold_: Any
    calibration_: Any
    log_: list[dict[str, float]]
    best_epoch_: int

    @property
    def chance_check(self) -> Any:
        """Whether it is better than guessing."""

    def evaluate(self, X: Episodes) -> Any:  # noqa: N803
        """How well labelled episodes are told apart."""


def write_report(
    path: Path,
    title: str,
    detector: ReportedDetector,
    test: Episodes,
    diagnoses: list[Diagnosis],
    shown: dict[int, Recording],
    folder: str,
) -> Path:
    """Write the report on a detector's work on labelled test episodes.

    `diagnoses` are of all test episodes, in their order; `shown` are the recordings, by row, of those whose signals are
    to be seen. The pages of the diagnoses are in `folder`, seen from the report.
    """
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
    details = [
        {
            "diagnosis": diagnoses[row],
            "first": diagnoses[row].top_segments(1)[0],
            "truth": known_truth(recording),
            "figure": as_div(signals_figure(diagnoses[row], recording)),
        }
        for row, recording in shown.items()
    ]
    return write_page(
        path,
        "report.html",
        title=title,
        test=test,
        evaluation=evaluation,
        detector=detector,
        figures={name: as_div(figure) for name, figure in figures.items()},
        details=details,
        agreement=agreement(test, diagnoses),
        **index_content([diagnosis.to_dict() for diagnosis in diagnoses if diagnosis.is_anomaly], folder)
        | {"chance_check": detector.chance_check},
    )


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
