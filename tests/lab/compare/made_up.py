"""Runs without any training."""

from __future__ import annotations

from typing import Any

from dfstrans.lab.compare.runs import AT_HALF, EpisodesRecord, ProtocolRecord, Run, TrainingRecord
from dfstrans.lab.compare.variants import recorded_settings
from dfstrans.training.evaluation import Evaluation

GOOD = Evaluation(20, 10, 0.4, 0.8, 0.8, 0.8, 0.9, 0.95, 20.0, 0.1, 8, 2, 2, 8).to_dict()


def made_up_run(
    model: str = "boosting",
    fold: int = 0,
    seed: int = 0,
    validation_anomalies: int = 9,
    rule: str = "f1",
    at_most: int | None = None,
    **test: Any,
) -> Run:
    """A run of a model with good metrics, unless others are given for the test part."""
    settings = recorded_settings(model, {"threshold_rule": rule})
    command = f"dfstrans compare planted.h5 --out RESULTS --models {model} --folds 5 --split random"
    return Run(
        model=model,
        fold=fold,
        data=EpisodesRecord(
            name="planted.h5", read={}, fingerprint="f", episodes=133, anomalous=60, sensors=2, longest=48
        ),
        protocol=ProtocolRecord(name="no-overlap", split="random", seed=seed, at_most=at_most, baseline="none"),
        settings=settings,
        parts="digest",
        machines=None,
        training=TrainingRecord(
            train_episodes=93,
            parameters=41_000,
            epochs=None,
            best_epoch=1,
            seconds_per_epoch=None,
            seconds=20.0,
            threads=1,
            precision=None,
        ),
        test={**GOOD, **test},
        test_at_half={name: GOOD[name] for name in AT_HALF},
        validation={"episodes": 20, "anomalous": validation_anomalies, "f1": 0.8, "pr_auc": 0.9},
        command=command,
        commit=None,
        versions={"dfstrans": "0.1.0"},
    )
