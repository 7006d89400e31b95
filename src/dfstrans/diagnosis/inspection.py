"""The internal values of the network for an episode: attention, embeddings and contributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.schema import BaselineUsed, Member
from dfstrans.diagnosis.scores import EpisodeScores
from dfstrans.model.detector import Batch
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.fast import episodes_at_once
from dfstrans.model.machine_trees import MachineTrees
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape
from dfstrans.training.evaluation import ChanceCheck


class Decision(NamedTuple):
    """The probability of an anomaly, its logit before calibration, and the probability by each member of a committee.

    Without a committee, there are no members. `baseline` is None if the detector compares no machine with itself.
    """

    probability: float
    raw_logit: float
    members: Mapping[str, float]
    baseline: BaselineUsed | None = None


class Detector(Protocol):
    """The part of a fitted detector that a diagnosis needs."""

    network_: DFSTrans  # absent if trees decide alone
    trees_: MachineTrees | None  # None if the network decides alone
    network_settings_: NetworkShape
    scaler_: SensorScaler
    sensors_: tuple[str, ...]
    units_: tuple[str, ...]

    def check_input(self, X: Any) -> Episodes:  # noqa: N803
        """Return the episodes with the sensors of training, in their order."""

    def batches(self, X: Any) -> Iterator[Batch]:  # noqa: N803
        """Yield the input of the network."""

    def probability(self, logit: float, member: Member = "network") -> float:
        """Return the calibrated probability of a logit of this member or, without a committee, of the detector."""

    def decisions(self, episodes: Episodes) -> Callable[[int, float], Decision]:
        """Return a function that decides from the row of an episode and the logit of its network."""

    def thresholds(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        """Return the lowest probability at which each of these episodes counts as anomalous: (n_episodes,)."""

    def novelty(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return how unlike training each recording is, above 1 if not seen before, NaN if unknown: (n_episodes,)."""

    def strangest_sensor(self, episode: Episodes) -> str | None:
        """Return the sensor that makes a recording unlike training most; None if no single one does."""

    @property
    def learned_little(self) -> bool:
        """Whether the network is hardly better than a constant on its training episodes."""

    @property
    def chance_check(self) -> ChanceCheck:
        """Whether the detector is better than guessing."""


def episode_scores(detector: Detector, episodes: Any) -> Iterator[EpisodeScores]:
    """Yield the scores of each episode, with one batch in memory at a time."""
    network, settings = detector.network_, detector.network_settings_
    for segments, valid, _, baseline in detector.batches(episodes):
        for part in torch.arange(len(valid)).split(episodes_at_once(settings, segments.shape[1])):
            with torch.inference_mode():
                x = network.embed(segments[part], valid[part], None if baseline is None else baseline[part])
                forward = network.attend(x, valid[part], return_attention=True)
            assert forward.attention is not None  # requested above
            assert forward.contribution is not None
            a, b = (weights[:, -1].mean(dim=2).numpy() for weights in forward.attention)
            encoding = positional_encoding(settings.encoding, segments.shape[1], settings.d_model)
            for row, n in enumerate(valid[part].sum(dim=1).tolist()):  # real segments, without padding
                yield EpisodeScores(
                    temporal_attention=a[row, :, :n, :n].astype(np.float64),
                    spatial_attention=b[row, :n].astype(np.float64),
                    logit=float(forward.logit[row]),
                    embedding=x[row, :n].double().numpy(),
                    encoding=encoding[:n],
                    contribution=forward.contribution[row, :n].double().numpy(),
                    features=forward.features[row].double().numpy(),
                )
