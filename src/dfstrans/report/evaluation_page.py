"""The HTML report on a detector: its performance on labelled episodes, and its diagnoses of the anomalous ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.diagnosis_page import describe_known_faults
from dfstrans.report.figures import precision_recall_figure, probability_figure, signals_figure, training_figure
from dfstrans.report.index import table_content
from dfstrans.report.page import as_div, page_name, write_page
from dfstrans.training.calibration import Calibration, Threshold
from dfstrans.training.committee import Committee
from dfstrans.training.evaluation import Evaluation


def write_report(
    path: Path,
    title: str,
    test: Episodes,
    diagnoses: Sequence[Diagnosis],
    shown: Mapping[int, Recording],
    folder: str,
    *,
    evaluation: Evaluation,
    threshold: Threshold,
    calibration: Calibration,
    log: list[dict[str, float]],
    best_epoch: int,
    committee: Committee | None = None,
    commissioned: Sequence[str] = (),
) -> Path:
    """Write the report on a detector's performance on labelled test episodes.

    `diagnoses` has one entry per test episode, in the same order; `shown` maps rows to the recordings whose signals the
    report shows. Links to the pages of diagnoses point into `folder`. `commissioned` tells in a line each what
    commissioning a new machine brought.
    """
    labels = test.require_labels()
    probabilities = np.array([diagnosis.probability for diagnosis in diagnoses])
    point = (evaluation.recall or 0.0, evaluation.precision)
    figures = {
        "probabilities": probability_figure(probabilities, labels, test.ids, evaluation.threshold),
        "precision_recall": precision_recall_figure(probabilities, labels, point),
        "training": training_figure(log, best_epoch),
    }
    details = [
        {
            "diagnosis": diagnoses[row],
            "first": diagnoses[row].top_segments(1)[0],
            "known_fault": describe_known_faults(recording, diagnoses[row].clock),
            "figure": as_div(signals_figure(diagnoses[row], recording)),
            "link": folder + page_name(diagnoses[row].episode_id),
        }
        for row, recording in shown.items()
    ]
    return write_page(
        path,
        "report.html",
        title=title,
        test=test,
        evaluation=evaluation,
        threshold=threshold,
        calibration=calibration,
        committee=committee,
        commissioned=commissioned,
        chance_check=diagnoses[0].chance_check,
        figures={name: as_div(figure) for name, figure in figures.items()},
        details=details,
        agreement=agreement(test, diagnoses),
        **table_content([diagnosis.to_dict() for diagnosis in diagnoses if diagnosis.is_anomaly], folder),
    )


def agreement(test: Episodes, diagnoses: Sequence[Diagnosis]) -> dict[str, float] | None:
    """Return how often diagnoses of detected episodes name the right sensor and moment, and the chance levels.

    Also return how often they name the right cause, if they name any. None without detected episodes of a known fault.
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
        if diagnosis.likely_cause is not None:
            causes.append(diagnosis.likely_cause == test.fault_kinds()[row])
    if not rows:
        return None
    sensor, moment, sensor_chance, moment_chance = np.mean(rows, axis=0).tolist()
    return {
        "episodes": len(rows),
        "sensor": sensor,
        "sensor_chance": sensor_chance,
        "moment": moment,
        "moment_chance": moment_chance,
        **({"cause": float(np.mean(causes))} if causes else {}),
    }


def _segment_length(diagnosis: Diagnosis, test: Episodes) -> int:
    """Return the segment length in points, from the first segment, since only the last may be shorter."""
    return round(float(np.diff(diagnosis.segment_bounds[0])[0]) / (test.interval or 1))
