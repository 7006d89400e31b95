"""Plant faults, train on them, and tell by kind and strength how well they are detected and diagnosed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dfstrans.data import load_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.diagnoser import Diagnoser
from dfstrans.diagnosis.assessment import SHOWN, Z_SCORE, assess
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.injection.kinds import KINDS
from dfstrans.injection.planting import Planting, plant_each
from dfstrans.injection.results import CellResult, Metric, StudyResult, share_interval
from dfstrans.injection.saving import MARK, TRIALS_FILE, VERSION, require_replaceable, save_planting
from dfstrans.injection.settings import InjectionSettings
from dfstrans.pipeline import train_model
from dfstrans.progress import Progress, no_progress
from dfstrans.training.evaluation import evaluate_probabilities

MOST_NORMAL = 400  # training episodes that the floor learns what is normal from
METRICS = {  # name in the results → level and name in the assessment
    "sensor_hit_rate": ("sensors", "hit_rate@100%"),
    "sensor_ac_at_3": ("sensors", "ac@3"),
    "segment_hit": ("segments", "rc_top_1"),
}


def run_study(
    planting: Planting,
    planted: Episodes,
    folder: Path,
    settings: InjectionSettings,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    **training: Any,
) -> StudyResult:
    """Train on the planted set in `folder`/model, then try every kind and strength in normal episodes it never saw.

    `planted` is the set of the planting. It is split by group, so that no episode and its twin are in two parts. The
    normal episodes of the test part are tried without a fault, and some with every kind and strength
    (`folder`/trials.h5). With `resume` an interrupted training goes on, and a finished one is not repeated.
    """
    require_replaceable(folder / TRIALS_FILE)
    show = no_progress if progress is None else progress
    place = folder / "model"
    detector = train_model(planted, place, split="grouped", resume=resume, progress=progress is not None, **training)
    seed = detector.training_settings_.seed
    train, _, test = planted.split(seed, by_group=True)
    test_ids = set(test.ids.tolist())
    unseen = planting.source[[name in test_ids for name in planting.source.ids.tolist()]]
    cells = [cell for cell in settings.cells if len(planting.normal.suited(cell[0]))]
    tried = unseen[np.random.default_rng(seed).permutation(len(unseen))[: settings.trials]]
    with show("planting trials", len(cells) * len(tried)) as advance:
        trials = plant_each(tried, cells, planting.normal, settings, advance)
        save_planting(trials, folder / TRIALS_FILE, {MARK: VERSION, "trials_of": planted.fingerprint()})
    episodes = load_episodes(folder / TRIALS_FILE)
    normal = detector.predict_proba(unseen)[:, 1]
    reference = train[train.require_labels() == 0][:MOST_NORMAL]
    cell_of = [(fault.kind, fault.strength) for fault in trials.faults if fault is not None]
    results = []
    with show("detecting and diagnosing", len(cell_of)) as advance:
        for cell in cells:
            rows = [row for row, other in enumerate(cell_of) if other == cell]
            results.append(_cell_result(cell, episodes[rows], detector, normal, reference, advance))
    return StudyResult(
        statements=planting.statements + trials.statements,
        training_episodes=detector.data_.train_episodes,
        training_planted=detector.data_.train_anomalous,
        epochs=len(detector.log_),
        normal_tested=len(unseen),
        false_alarms_per_100_normal=100 * float(np.mean(normal >= detector.threshold_.value)),
        threshold=detector.threshold_.value,
        threshold_note=detector.threshold_.note,
        standing=detector.standing,
        sensors=len(planted.sensors),
        split="by group" if planting.by_group else "by source episode",
        settings=settings.model_dump(mode="json"),
        cells=tuple(results),
    )


def _cell_result(
    cell: tuple[str, float],
    trials: Episodes,
    detector: Diagnoser,
    normal: np.ndarray[Any, np.dtype[np.float64]],
    reference: Episodes,
    advance: Callable[[int], None],
) -> CellResult:
    """How one kind of fault of one strength fares, beside the probabilities of normal episodes."""
    kind, strength = cell
    diagnoses = [] if len(trials) == 0 else list(_counted(detector.diagnose(trials, trust=True), advance))
    probabilities = np.array([diagnosis.probability for diagnosis in diagnoses])
    labels = np.repeat(np.array([0, 1], dtype=np.int8), [len(normal), len(probabilities)])
    figures = evaluate_probabilities(labels, np.concatenate([normal, probabilities]), detector.threshold_.value)
    detected = sum(diagnosis.is_anomaly for diagnosis in diagnoses)
    found: dict[str, Metric] = {}
    if detected and len(reference) >= 2:
        assessment = assess(detector, detector.require_reference(), diagnoses, trials, reference)
        found = {name: assessed_metric(assessment, *where) for name, where in METRICS.items()}
    return CellResult(
        kind=kind,
        strength=strength,
        unit=KINDS[kind].unit,
        episodes=len(diagnoses),
        detected=detected,
        recall=figures.recall,
        roc_auc=figures.roc_auc,
        pr_auc=figures.pr_auc,
        diagnosis=found,
    )


def assessed_metric(assessment: dict[str, Any], level: str, name: str) -> Metric:
    """A metric of what was shown, of all kinds in an assessment, with the floor beside it."""
    shown = assessment["rankings"][SHOWN][level]["all"][name]
    floor = assessment["rankings"][Z_SCORE][level]["all"][name]
    return Metric(shown["value"], shown["chance"], *_interval(shown), floor["value"])


def _interval(shown: dict[str, Any]) -> tuple[float | None, float | None]:
    """That of a share, since an episode has one faulty sensor and window; without width where chance cannot miss."""
    if shown["value"] is None or shown["chance"] == 1:
        return shown["low"], shown["high"]
    return share_interval(shown["value"], shown["n_episodes"])


def _counted(diagnoses: Iterator[Diagnosis], advance: Callable[[int], None]) -> Iterator[Diagnosis]:
    for diagnosis in diagnoses:
        advance(1)
        yield diagnosis
