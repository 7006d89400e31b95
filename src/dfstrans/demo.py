"""The main job from end to end on recordings that the package makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dfstrans.data import load_episodes, save_episodes
from dfstrans.data.planted import planted_episodes
from dfstrans.diagnosis.diagnosis import diagnose
from dfstrans.pipeline import train_model
from dfstrans.report.html import agreement, write_report

SHOWN = 4
SETTINGS: dict[str, Any] = {"epochs": 25, "learning_rate": 1e-3}  # for some hundred short episodes


def run_demo(out: Path, *, seed: int = 0, remark: Callable[[str], None] = print) -> dict[str, Any]:
    """Make recordings, train, evaluate, diagnose and write a report; where everything is, and how good it was."""
    recordings = out / "recordings.h5"
    remark(f"making recordings with planted anomalies: {recordings}")
    save_episodes(planted_episodes(seed=seed), recordings)
    episodes = load_episodes(recordings)
    remark("training a detector on 70 % of them, settling it on 15 %")
    detector = train_model(episodes, out / "model", progress=True, seed=seed, **SETTINGS)
    train, _, test = episodes.split(seed)
    remark(f"diagnosing {len(test)} test episodes")
    diagnoses = diagnose(detector, test, normal=train[train.require_labels() == 0])
    by_probability = np.argsort([-diagnosis.probability for diagnosis in diagnoses], kind="stable")
    shown = [int(row) for row in by_probability if diagnoses[row].is_anomaly][:SHOWN]
    report = out / "report.html"
    write_report(report, "dfstrans demo: planted anomalies", detector, test, diagnoses, shown)
    for row in shown:
        remark(diagnoses[row].summary())
    return {
        "report": str(report),
        "model": str(out / "model"),
        "recordings": str(recordings),
        "metrics": detector.metrics_,
        "agreement": agreement(test, diagnoses),
    }
