"""A check for data leakage: a model that uses the labels of neighbouring pieces and groups, and no sensor value.

Neighbouring pieces of one long recording mostly have the same label. A random split puts some of them into training and
others into the test part, so a model that only recognises where a piece comes from scores well. This detector measures
that effect; a model shows skill only by what it scores above it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.cutting import recording_and_start
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler, check_finite
from dfstrans.detectors.base import SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.lab.compare import LEAKAGE
from dfstrans.settings import DetectorSettings

SUREST = 0.99  # largest share, before calibration: a logit has to be finite
NOT_CUT = -1  # start of an episode that was not cut from a recording


class LeakageSettings(DetectorSettings):
    """The check has no settings except those of calibration."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")


class Places(NamedTuple):
    """Where episodes come from: the hashed names of recording and group, and the first point.

    Shape:
        (n_episodes,) each
    """

    recording: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, episodes: Episodes) -> Places:
        """The places that ids and groups name."""
        cut = [recording_and_start(str(name)) or (str(name), NOT_CUT) for name in episodes.ids]
        groups = [""] * len(episodes) if episodes.groups is None else episodes.groups.tolist()
        return cls(
            recording=np.array([_number(recording) for recording, _ in cut], dtype=np.int64),
            group=np.array([_number(group) for group in groups], dtype=np.int64),
            start=np.array([start for _, start in cut], dtype=np.int64),
        )


class LeakageCheck(SingleStepClassifier):
    """Interpolate the labels of the nearest training pieces of the same recording.

    An episode of a recording without training pieces gets the share of anomalies in its group, or else in all training
    episodes. Values are only checked for being valid.
    """

    estimator_name: ClassVar[str] = LEAKAGE
    network_kind = shape_kind = LeakageSettings

    def _train(self, task: TrainingTask) -> TrainingResult:
        self.places_ = Places.of(task.train)
        self.labels_ = task.train.require_labels().astype(np.int8)
        return TrainingResult(1.0)

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        places = Places.of(episodes)
        share = np.array([self._share(*place) for place in zip(*places, strict=True)]).clip(1 - SUREST, SUREST)
        return np.where(_absurd(episodes, self.scaler_), np.nan, np.log(share / (1 - share)))

    def _share(self, recording: np.int64, group: np.int64, start: np.int64) -> float:
        """The probability of an anomaly at a place."""
        cut = (self.places_.recording == recording) & (self.places_.start != NOT_CUT) & (start != NOT_CUT)
        if cut.any():
            starts, order = np.unique(self.places_.start[cut], return_index=True)
            return float(np.interp(start, starts, self.labels_[cut][order]))
        same = self.places_.group == group
        return float(self.labels_[same].mean() if same.any() else self.labels_.mean())

    def _weights(self) -> Weights:
        arrays = {**self.places_._asdict(), "label": self.labels_}
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def _restore(self, stored: StoredModel) -> None:
        self.places_ = Places(**{name: stored.weights[name].numpy() for name in Places._fields})
        self.labels_ = stored.weights["label"].numpy()


def is_leakage_check(model: str) -> bool:
    """Whether a model, with any settings, is the leakage check and thus no rival.

    >>> is_leakage_check("leakage"), is_leakage_check("leakage+seed=1"), is_leakage_check("boosting")
    (True, True, False)
    """
    return model.split("+")[0] == LEAKAGE


def _absurd(episodes: Episodes, scaler: SensorScaler) -> list[bool]:
    """Which episodes have an implausibly large value; infinite values are refused."""
    found = []
    for episode in episodes:
        check_finite(episode.values, episode.id, episodes.sensors)
        found.append(bool((np.abs(scaler.transform(episode.values)) > LARGEST_SCALED_VALUE).any()))
    return found


def _number(name: str) -> int:
    """A 64-bit hash of a name, the same on every machine."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
