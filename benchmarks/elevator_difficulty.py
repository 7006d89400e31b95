"""Difficulty of the simulated elevator: three simple classifiers, from naive to informed.

    python -m benchmarks.elevator_difficulty --preset small --results elevator_difficulty_small.json
    python -m benchmarks.elevator_difficulty --preset paper --results elevator_difficulty_paper.json

Five folds over journeys, or with --grouped over installations; each threshold is chosen within the training part, if
necessary on folds of the same kind. Only the features of a journey are kept in memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict

from dfstrans.files import atomic_write
from dfstrans.lab.compare.runs import circumstances
from dfstrans.lab.elevator.journey import PHASES
from dfstrans.lab.elevator.settings import PRESETS, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.training.evaluation import best_f1

Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=tuple(PRESETS), default="small")
    parser.add_argument("--settings", type=json.loads, default={}, help="simulation settings as JSON")
    parser.add_argument("--grouped", action="store_true", help="hold whole installations out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    settings = SimulationSettings(**{**PRESETS[given.preset], **given.settings})
    data = gather(Fleet(settings), given.jobs)
    figures = {
        "one sensor's largest value": measure(data, "largest", best_single, given.grouped),
        "boosting on statistics": measure(data, "statistics", boosting, given.grouped),
        "boosting on statistics of phases": measure(data, "phases", boosting, given.grouped),
    }
    for name, found in figures.items():
        print(
            f"{name:<36} P {found['precision']:.3f}  R {found['recall']:.3f}  F1 {found['f1']:.3f} ± {found['std']:.3f}"
        )
    if given.results:
        content = {"settings": settings.model_dump(), "grouped": given.grouped, "figures": figures, **circumstances()}
        with atomic_write(given.results) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n")


def gather(fleet: Fleet, jobs: int) -> dict[str, Any]:
    """Features of every journey, each (n_journeys, n_features)."""
    rows = range(fleet.settings.n_journeys)
    found: dict[str, list[Any]] = {"largest": [], "statistics": [], "phases": [], "kind": []}
    journeys = fleet.journeys(rows, jobs)
    for _, journey in track(journeys, "simulating", total=len(rows), console=Console(stderr=True)):
        values = journey.values
        found["largest"].append(np.abs(values).max(axis=1))
        found["statistics"].append(statistics(values))
        found["phases"].append(phase_statistics(values, journey.phases))
        found["kind"].append(journey.recipe["fault"]["kind"] if journey.recipe["fault"] else "normal")
    data: dict[str, Any] = {name: np.array(column) for name, column in found.items()}
    data["labels"] = (data["kind"] != "normal").astype(int)
    data["groups"] = np.array([fleet.trip(row).installation for row in rows])
    return data


def statistics(values: npt.NDArray[np.float32]) -> Features:
    """Six statistics per sensor: (n_sensors, n) → (6 · n_sensors,)."""
    step = np.abs(np.diff(values, axis=1))
    return np.concatenate(
        [values.mean(1), values.std(1), values.min(1), values.max(1), step.mean(1), step.max(1)], dtype=np.float32
    )


def phase_statistics(values: npt.NDArray[np.float32], phases: npt.NDArray[np.int8]) -> Features:
    """The same statistics per phase, and the variability of the most variable segment relative to the others."""
    segments = values.reshape(len(values), len(phases), -1)
    of_phases = [
        statistics(segments[:, phases == number].reshape(len(values), -1))
        if (phases == number).any()
        else np.full(6 * len(values), np.nan, dtype=np.float32)
        for number in range(len(PHASES))
    ]
    restless = segments.std(axis=2)
    moving = restless[:, phases == PHASES.index("cruising")]
    ratio = moving.max(axis=1) / np.median(moving, axis=1)
    return np.concatenate([*of_phases, ratio, np.sort(moving, axis=1)[:, -3:].reshape(-1)], dtype=np.float32)


def boosting(features: Features, labels: Labels, groups: Groups | None, test: Features) -> npt.NDArray[np.bool_]:
    """Gradient boosting; its threshold comes from inner folds, which keep groups together if there are any."""
    model = HistGradientBoostingClassifier(max_iter=150, random_state=0)
    folds = StratifiedKFold(3) if groups is None else StratifiedGroupKFold(3)
    inner = cross_val_predict(model, features, labels, groups=groups, cv=folds, method="predict_proba")[:, 1]
    _, threshold = best_f1(labels, inner)
    return model.fit(features, labels).predict_proba(test)[:, 1] >= threshold


def best_single(features: Features, labels: Labels, groups: Groups | None, test: Features) -> npt.NDArray[np.bool_]:
    """One sensor with one threshold, both chosen on the training part, ignoring groups."""
    found = [best_f1(labels, column.astype(np.float64)) for column in features.T]
    sensor = int(np.argmax([f1 for f1, _ in found]))
    return test[:, sensor] >= found[sensor][1]


def measure(
    data: dict[str, Any],
    name: str,
    classify: Callable[[Features, Labels, Groups | None, Features], npt.NDArray[np.bool_]],
    grouped: bool,
) -> dict[str, Any]:
    """Precision, recall and F1 over five folds, and recall by kind of fault."""
    features, labels = data[name], data["labels"]
    kind, groups = (StratifiedGroupKFold, data["groups"]) if grouped else (StratifiedKFold, None)
    folds = kind(5, shuffle=True, random_state=0).split(features, labels, groups)
    called = np.zeros(len(labels), dtype=bool)
    scores = []
    for train, test in folds:
        known = None if groups is None else groups[train]
        called[test] = classify(features[train], labels[train], known, features[test])
        truth = labels[test]
        scores.append(
            [score(truth, called[test], zero_division=0) for score in (precision_score, recall_score, f1_score)]
        )
    precision, recall, f1 = np.mean(scores, axis=0)
    by_kind = {str(k): float(called[data["kind"] == k].mean()) for k in np.unique(data["kind"][labels == 1])}
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "std": float(np.std([score[2] for score in scores], ddof=1)),
        "recall_by_kind": by_kind,
    }


if __name__ == "__main__":
    main()
