"""The figures of the paper for a model's diagnoses, written into a folder as they come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.diagnosis_page import file_stem
from dfstrans.report.diagnosis_print import (
    matplotlib,
    print_relevance,
    print_relevance_beside_normal,
    print_trust,
    write_diagnosis_figures,
    write_figures,
)
from dfstrans.report.views import named, relevance_courses, trust_boxes

if TYPE_CHECKING:  # which loads torch
    from dfstrans.diagnosis.inspection import Detector

COMPARED = 5  # episodes, of each of anomalous and others, that are shown together
MOST_TRIED = 60  # anomalous episodes whose attention is put to the test


class FigureFolder:
    """Draws the diagnoses it is given, one at a time, and remembers a few to compare."""

    def __init__(self, folder: Path, detector: Detector) -> None:
        matplotlib()  # told at once, not after the first diagnosis
        self.folder, self.detector = folder, detector
        self.remembered: dict[bool, list[tuple[Diagnosis, Recording]]] = {True: [], False: []}
        self.anomalous: list[str] = []

    def add(self, diagnosis: Diagnosis, recording: Recording) -> None:
        """Draw one diagnosis: its signals, its cells, its global attention, and its attention at some moments."""
        write_diagnosis_figures(self.folder, file_stem(diagnosis.episode_id), diagnosis, recording)
        if len(self.remembered[diagnosis.is_anomaly]) < COMPARED:
            self.remembered[diagnosis.is_anomaly].append((diagnosis, recording))
        if diagnosis.is_anomaly and len(self.anomalous) < MOST_TRIED:
            self.anomalous.append(diagnosis.episode_id)

    def add_comparisons(self, episodes: Episodes) -> None:
        """Draw what needs several episodes: relevance over the signals, anomalous beside others, and AT_k."""
        shown = self.remembered[True] + self.remembered[False]
        if not shown:
            return
        first, recording = shown[0]
        sensor = first.top_sensor
        title = named(sensor, recording.units[first.sensors.index(sensor)])
        courses = relevance_courses(shown, sensor)
        drawings = {
            "temporal_relevance": lambda: print_relevance(courses[:COMPARED], title),
            "temporal_relevance_beside_normal": lambda: print_relevance_beside_normal(courses, sensor),
        }
        if self.anomalous:
            from dfstrans.diagnosis.trust import attention_trust_score

            tried = episodes[np.flatnonzero(np.isin(episodes.ids, self.anomalous))]
            trust = attention_trust_score(self.detector, tried)
            boxes = trust_boxes(trust, tried.fault_kinds())
            drawings["attention_trust"] = lambda: print_trust(boxes, trust.percentages)
        write_figures(self.folder, drawings)
