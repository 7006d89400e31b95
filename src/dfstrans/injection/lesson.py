"""What a network may learn before it is shown labels: faults planted into the normal episodes of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfstrans.data.episodes import Episodes
from dfstrans.injection.planting import normal_episodes, plant
from dfstrans.injection.settings import InjectionSettings
from dfstrans.training.run_folder import PLANTED

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
"""Weaker and longer than what a study tries: what has to be learned is what normal work looks like."""


def planted_lesson(lesson: Lesson) -> Lesson:
    """The same network and scale, to be taught by planted faults in the normal episodes of either part.

    Nothing else is changed at random, since most of it would hide weak faults.
    """
    training = lesson.training.model_copy(
        update={
            "epochs": lesson.training.planted_epochs,
            "planted_epochs": 0,
            "normals_per_anomaly": None,
            "sensor_dropout": 0.0,
            "mixup": 0.0,
        }
    )
    seed = lesson.training.seed
    return lesson._replace(
        training=training,
        train=_planted(lesson.train, seed),
        validation=_planted(lesson.validation, seed + 1),  # other places than in training
        run_folder=None if lesson.run_folder is None else lesson.run_folder / PLANTED,
    )


def _planted(part: Episodes, seed: int) -> Episodes:
    normal, _ = normal_episodes(part)
    return plant(normal, FAULTS.model_copy(update={"seed": seed})).on_demand()
