"""What a network may learn before it is shown labels: faults planted into the normal episodes of its parts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from dfstrans.config import TrainingSettings, episodes_of_an_epoch
from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError, spelled
from dfstrans.injection.planting import normal_episodes, plant
from dfstrans.injection.settings import InjectionSettings
from dfstrans.training.run_folder import PLANTED, has_checkpoint

if TYPE_CHECKING:
    from dfstrans.estimator import Lesson

SPREADS = (0.3, 1.0, 3.0)
FAULTS = InjectionSettings(
    kinds=("spike", "level-shift", "drift", "gain", "noise-burst", "coupling-loss"),
    strengths={
        "spike": (3, 10),
        "level-shift": SPREADS,
        "drift": SPREADS,
        "gain": (0.3, 1),
        "noise-burst": SPREADS,
        "coupling-loss": (60, 100),
    },
    duration=0.4,
)
"""Weak as well as strong, and long: to tell them, a network has to know what normal work looks like."""


def planted_lesson(lesson: Lesson) -> Lesson:
    """The same network and scale, to be taught by planted faults in the normal episodes of either part.

    Sensors do not go missing and pairs are not mixed, since both would hide weak faults. Where an epoch of the labels
    has only some of the normal episodes, the lesson has as many, always the same.
    """
    wanted = lesson.training
    training = wanted.model_copy(
        update={
            "epochs": wanted.planted_epochs,
            "planted_epochs": 0,
            "normals_per_anomaly": None,
            "sensor_dropout": 0.0,
            "mixup": 0.0,
        }
    )
    n_train, n_anomalous = len(lesson.train), lesson.train.n_anomalous
    most = episodes_of_an_epoch(n_train, n_anomalous, wanted.normals_per_anomaly) - n_anomalous
    folder = None if lesson.run_folder is None else lesson.run_folder / PLANTED
    return lesson._replace(
        training=training,
        train=_planted(lesson.train, "training", wanted, wanted.seed, most),
        validation=_planted(lesson.validation, "validation", wanted, wanted.seed + 1),  # faults at other places
        run_folder=folder,
        resume=lesson.resume and folder is not None and has_checkpoint(folder),
    )


def _planted(part: Episodes, name: str, training: TrainingSettings, seed: int, most: int | None = None) -> Episodes:
    """The normal episodes of a part, at most so many of them, and a twin of each with a fault."""
    wanted = f"the {name} part, for {spelled('planted_epochs', training.planted_epochs)}"
    remedy = f"add normal recordings to it, or leave {spelled('planted_epochs')} out"
    try:
        normal, _ = normal_episodes(part)
        if most is not None and most < len(normal):
            normal = normal[np.sort(np.random.default_rng(seed).permutation(len(normal))[:most])]
        planting = plant(normal, FAULTS.model_copy(update={"seed": seed}))
    except DfstransError as error:
        raise DfstransError(f"no faults can be planted into {wanted}: {error}; {remedy}") from error
    planted = planting.on_demand()
    if planted.n_anomalous == 0:
        raise DfstransError(
            f"expected normal episodes that a fault changes in {wanted}, got {len(normal)} in which none does; {remedy}"
        )
    if name == "training" and planting.statements:
        warnings.warn(f"planted faults before the labels: {'; '.join(planting.statements)}", stacklevel=2)
    return planted
