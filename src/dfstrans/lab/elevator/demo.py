"""The whole workflow on simulated elevator journeys: simulate, train, evaluate, diagnose, report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dfstrans.data.readers import load_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.workflow import train_model
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.lab.elevator.journey_file import simulate_to_file
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.progress import Progress, no_progress
from dfstrans.report.diagnosis_page import write_pages
from dfstrans.report.evaluation_page import agreement, write_report

JOURNEYS: dict[str, Any] = {"normal": 320, "faulty": 120, "sampling_rate": 100, "n_timepoints": 2000}
SETTINGS: dict[str, Any] = {  # a slim network that trains in minutes on two cores
    "segment_length": 50,
    "filters": 10,
    "heads": 6,
    "feedforward": 128,
    "head_width": 128,
    "batch_size": 16,
    "epochs": 20,
    "learning_rate": 2e-3,
    "mixup": 0.0,
}
SHOWN_PER_CAUSE = 2
PAGES = "diagnoses"


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    remark: Callable[[str], None] = print,
    progress: Progress = no_progress,
    journeys: dict[str, Any] = JOURNEYS,
    settings: dict[str, Any] = SETTINGS,
) -> dict[str, Any]:
    """Run the demo into a folder; return the paths and metrics."""
    recordings = out / "journeys.h5"
    fleet = Fleet(SimulationSettings(**journeys, seed=seed))
    remark(
        f"simulating {fleet.settings.n_journeys} elevator journeys, {fleet.settings.faulty} with a fault: {recordings}"
    )
    with progress("simulating", fleet.settings.n_journeys) as advance:
        simulate_to_file(recordings, fleet, jobs=2, overwrite=True, advance=advance)
    episodes = load_episodes(recordings).load()
    remark("training a detector on 70 % of them, calibrating it on 15 %")
    detector = train_model(Diagnoser.from_settings(seed=seed, **settings), episodes, out / "model", progress=True)
    *_, test = episodes.split(seed)
    remark(f"diagnosing {len(test)} test journeys")
    diagnoses = list(detector.diagnose(test, trust=True))
    recording = recordings_of(detector, test, beside=episodes)
    pages = out / PAGES
    write_pages(pages, [(diagnosis, recording(row)) for row, diagnosis in enumerate(diagnoses) if diagnosis.is_anomaly])
    shown = most_certain(diagnoses)
    report = out / "report.html"
    write_report(
        report,
        "dfstrans demo: elevator journeys",
        test,
        diagnoses,
        {row: recording(row) for row in shown},
        f"{PAGES}/",
        evaluation=detector.evaluate(test),
        threshold=detector.threshold_,
        calibration=detector.calibration_,
        log=detector.log_,
        best_epoch=detector.best_epoch_,
    )
    for row in shown:
        remark(diagnoses[row].summary())
    return {
        "report": str(report),
        "diagnoses": str(pages / "index.html"),
        "model": str(out / "model"),
        "recordings": str(recordings),
        "metrics": detector.metrics_,
        "agreement": agreement(test, diagnoses),
        "causes": {str(test.ids[row]): [diagnoses[row].likely_cause, test.fault_kinds()[row]] for row in shown},
    }


def most_certain(diagnoses: list[Diagnosis]) -> list[int]:
    """The rows of the detections with the highest probability, some for each likely cause."""
    by_cause: dict[str, list[int]] = {}
    for row in sorted(range(len(diagnoses)), key=lambda row: -diagnoses[row].probability):
        if diagnoses[row].is_anomaly:
            by_cause.setdefault(diagnoses[row].likely_cause or "", []).append(row)
    return [row for cause in sorted(by_cause) for row in by_cause[cause][:SHOWN_PER_CAUSE]]
