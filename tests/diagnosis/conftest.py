"""Two detectors, each trained once: a tiny one, and one that finds what is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.diagnosis import Diagnosis

SETTINGS = {"segment_length": 16, "width": 8, "heads": 2, "feedforward": 16, "head_width": 16, "batch_size": 8}


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> Diagnoser:
    return Diagnoser.load(tiny_model)


@pytest.fixture(scope="session")
def planted() -> Episodes:
    return planted_episodes(n_normal=60, n_anomalous=20, n_sensors=4, n_timepoints=96, seed=1)


@pytest.fixture(scope="session")
def detector(planted: Episodes) -> Diagnoser:
    return Diagnoser.from_settings(**SETTINGS, epochs=24, learning_rate=5e-3).fit(planted)


@pytest.fixture(scope="session")
def diagnoses(detector: Diagnoser, planted: Episodes) -> list[Diagnosis]:
    return list(detector.diagnose(planted))
