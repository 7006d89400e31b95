"""The whole workflow on simulated elevator journeys: simulate, train, evaluate, diagnose, report, commission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.workflow import save_again, train_model
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.lab.elevator.journey_file import simulate_to_file
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.progress import Progress, no_progress
from dfstrans.report.diagnosis_page import write_pages
from dfstrans.report.evaluation_page import agreement, write_report
from dfstrans.training.committee import COMMITTEE
from dfstrans.training.evaluation import Evaluation, Labels, Scores, average_precision

JOURNEYS: dict[str, Any] = {"normal": 320, "faulty": 120, "sampling_rate": 100, "n_timepoints": 2000}
SETTINGS: dict[str, Any] = {"segment_length": 50}
SHOWN_PER_CAUSE = 2
COMMISSIONED_WITH = 4  # every fourth journey of the new elevator; the others are more and tell the gain better
DRAWS = 500  # samples of the test journeys, for the interval of the gain
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
    everything = load_episodes(recordings).load()
    new = everything.require_groups() == max(fleet.groups)
    episodes, unseen = everything[~new], everything[new]
    remark(f"training a detector on 70 % of {len(episodes)} journeys, calibrating it on 15 %; one elevator is kept out")
    detector = train_model(Diagnoser.from_settings(seed=seed, **settings), episodes, out / "model", progress=True)
    *_, test = episodes.split(seed)
    remark(f"diagnosing {len(test)} test journeys")
    diagnoses = list(detector.diagnose(test, trust=True))
    recording = recordings_of(detector, test, beside=episodes)
    commissioned = commission_unseen(detector, unseen, out / "model")
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
        committee=detector.committee_,
        commissioned=commissioned.lines,
    )
    for row in shown:
        remark(diagnoses[row].summary())
    return {
        "report": str(report),
        "diagnoses": str(pages / "index.html"),
        "model": str(out / "model"),
        "recordings": str(recordings),
        "metrics": detector.metrics_,
        "commissioned": commissioned._asdict(),
        "agreement": agreement(test, diagnoses),
        "causes": {str(test.ids[row]): [diagnoses[row].likely_cause, test.fault_kinds()[row]] for row in shown},
    }


class Commissioned(NamedTuple):
    """PR-AUC on the recordings of a machine that was not trained on, before and after it was commissioned.

    `gain` is the 95 % interval of the difference.
    """

    machine: str
    before: float | None
    after: float | None
    gain: tuple[float, float] | None
    lines: list[str]


def commission_unseen(detector: Diagnoser, unseen: Episodes, folder: Path) -> Commissioned:
    """Commission a machine with every fourth recording of it, without labels, and test the model on the others.

    The saved model in `folder` learns the baseline, too.
    """
    machine, chosen = str(unseen.require_groups()[0]), np.arange(len(unseen)) % COMMISSIONED_WITH == 0
    known, tested = replace(unseen[chosen], labels=None, faults=None), unseen[~chosen]
    before, without = detector.evaluate_members(tested), detector.predict_proba(tested)[:, 1]
    commissioned = detector.commission(known)[machine]
    save_again(detector, folder)
    after, with_baseline = detector.evaluate_members(tested), detector.predict_proba(tested)[:, 1]
    gain = interval_of_gain(tested.require_labels(), without, with_baseline)
    share = tested.n_anomalous / len(tested)
    lines = [
        f"elevator {machine}, never seen in training: {len(tested)} test journeys, PR-AUC by chance {share:.2f}",
        f"before commissioning: PR-AUC {_by_member(before)}",
        f"after commissioning:  PR-AUC {_by_member(after)}; {commissioned.suitability.note}",
    ]
    if gain is not None:
        low, high = gain
        which = "better" if low > 0 else "worse" if high < 0 else "too few journeys to tell whether that is chance"
        lines.append(f"gain of the committee, 95 % interval: {low:+.2f} to {high:+.2f}; {which}")
    return Commissioned(machine, before[COMMITTEE].pr_auc, after[COMMITTEE].pr_auc, gain, lines)


def interval_of_gain(labels: Labels, before: Scores, after: Scores, seed: int = 0) -> tuple[float, float] | None:
    """Return the 95 % interval of the gain in PR-AUC over samples of the episodes, drawn within each class.

    None without episodes of both classes.
    """
    rng, classes = np.random.default_rng(seed), [np.flatnonzero(labels == label) for label in (0, 1)]
    if not all(map(len, classes)):
        return None
    samples = [np.concatenate([rng.choice(rows, len(rows)) for rows in classes]) for _ in range(DRAWS)]
    gains = [
        average_precision(labels[rows], after[rows]) - average_precision(labels[rows], before[rows]) for rows in samples
    ]
    low, high = np.quantile(gains, [0.025, 0.975])
    return float(low), float(high)


def _by_member(found: Mapping[str, Evaluation]) -> str:
    """Return the PR-AUC of the committee, and in brackets that of each member."""
    whole, *alone = [f"{name} {one.pr_auc or 0:.2f}" for name, one in found.items()]
    return f"{whole.removeprefix(f'{COMMITTEE} ')} ({', '.join(alone)})"


def most_certain(diagnoses: list[Diagnosis]) -> list[int]:
    """The rows of the detections with the highest probability, some for each likely cause."""
    by_cause: dict[str, list[int]] = {}
    for row in sorted(range(len(diagnoses)), key=lambda row: -diagnoses[row].probability):
        if diagnoses[row].is_anomaly:
            by_cause.setdefault(diagnoses[row].likely_cause or "", []).append(row)
    return [row for cause in sorted(by_cause) for row in by_cause[cause][:SHOWN_PER_CAUSE]]
