"""`NetworkClassifier`: a detector based on a torch network, trained by `dfstrans.training`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt
import torch

from dfstrans.data.baselines import Baselines
from dfstrans.data.coupling import Coupling
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.detectors.base import EpisodeClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.parameters import GivenSettings
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.errors import DfstransError
from dfstrans.model.detector import Batch, DetectorNetwork, computing_in
from dfstrans.settings import (
    DecisionSettings,
    Imbalance,
    Precision,
    ThresholdRule,
    TrainingPlan,
    TrainingSettings,
    episodes_of_an_epoch,
)
from dfstrans.training.batches import batch_loader
from dfstrans.training.calibration import guessing_loss, positive_weight
from dfstrans.training.evaluation import learned_little

PREDICTION_BATCH = 32
TRAINING = TrainingSettings()  # argument defaults


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor; the rest is scikit-learn's
class NetworkClassifier(EpisodeClassifier):
    """Base class of detectors that are networks; a subclass builds the network.

    `network` and `training` hold all settings that are not arguments; see the fields of the network's settings and of
    `TrainingSettings`. Arguments that are None take the default of the subclass, or are chosen from the data.
    """

    training_kind: ClassVar[type[DecisionSettings]] = TrainingSettings
    plan_kind: ClassVar[type[DecisionSettings]] = TrainingPlan

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    imbalance: Imbalance | None = None
    normals_per_anomaly: float | None = None
    validation_fraction: float = TRAINING.validation_fraction
    threshold_rule: ThresholdRule = TRAINING.threshold_rule
    threshold_value: float | None = None
    precision: Precision = TRAINING.precision
    seed: int = TRAINING.seed
    network: GivenSettings = None
    training: GivenSettings = None

    # depends on the machine: neither a setting nor part of a saved model
    _prediction_precision: Precision = field(default="32", init=False)

    @staticmethod
    @abstractmethod
    def build(network: Any, scaler: SensorScaler) -> DetectorNetwork:
        """Build a network with these settings and weights from torch's random generator."""

    def training_settings(self, n_episodes: int, n_anomalous: int | None = None) -> TrainingPlan:
        """Return the complete settings for training on `n_episodes` episodes, `n_anomalous` of them anomalous."""
        settings: TrainingSettings = self._settings(TrainingSettings)
        return settings.plan(n_episodes, n_anomalous)

    def _train(self, task: TrainingTask) -> TrainingResult:
        from dfstrans.training.fit import train_network  # importing lightning takes seconds

        trained = train_network(
            partial(self.build, task.network, task.scaler),
            task.network,
            task.training,
            task.train,
            task.validation,
            task.scaler,
            self._baselines(),
            self._coupling(task),
            run_folder=task.run_folder,
            resume=task.resume,
            progress=task.progress,
        )
        self.network_ = trained.network
        self._prediction_precision = "32"
        return TrainingResult(trained.odds, trained.best_epoch, trained.log)

    @property
    def learned_little(self) -> bool:
        """Whether the training loss ended near that of guessing."""
        return learned_little(self.loss_beside_guessing)

    @property
    def loss_beside_guessing(self) -> float | None:
        """The last training loss as a share of the loss of guessing: near 1, little was learned. None without a log."""
        if not self.log_:
            return None
        settings, n_anomalous = self.training_settings_, self.data_.train_anomalous
        drawn = episodes_of_an_epoch(self.data_.train_episodes, n_anomalous, settings.normals_per_anomaly)
        labels = np.repeat(np.array([1, 0], dtype=np.int8), [n_anomalous, drawn - n_anomalous])
        return float(self.log_[-1]["loss"]) / guessing_loss(labels, positive_weight(labels, settings))

    def predict_in(self, precision: Precision) -> Self:
        """Set the precision of prediction until the next fit; `auto` is bf16 if the processor supports it.

        bf16 is faster for wide networks and changes scores slightly. Diagnoses and exports always use 32 bits.
        """
        if precision not in get_args(Precision):
            known = ", ".join(get_args(Precision))
            raise DfstransError(f"expected one of {known}, got precision {precision!r}; choose one of them")
        self._prediction_precision = precision
        return self

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        found = []
        with torch.inference_mode(), computing_in(self._prediction_precision):
            for batch in self.batches(episodes):
                found.append(self.network_.logits(batch).float().numpy())
        return np.concatenate(found) if found else np.empty(0)

    def batches(self, X: Episodes) -> Iterator[Batch]:  # noqa: N803
        """Yield checked episodes in batches as the network takes them: scaled and cut into segments."""
        length, baselines = self.network_settings_.segment_length, self._baselines()
        yield from batch_loader(X, self.scaler_, length, PREDICTION_BATCH, baselines=baselines)

    def _baselines(self) -> Baselines | None:
        """Return the baselines of the machines, which some networks compare episodes with."""
        return None

    def _coupling(self, task: TrainingTask) -> Coupling | None:
        """Return how sensors move together in training, which some networks compare episodes with."""
        return None

    # ---- save and load ------------------------------------------------------------------------------------------

    @property
    def n_parameters_(self) -> int:
        """Number of trainable parameters of the network; without one, that of all learned values."""
        if not hasattr(self, "network_"):
            return super().n_parameters_
        return sum(p.numel() for p in self.network_.parameters())

    def _stored(self) -> StoredModel:
        stored = super()._stored()
        record = stored.record.model_copy(update={"loss_beside_guessing": self.loss_beside_guessing})
        return stored._replace(record=record)

    def _weights(self) -> Weights:
        weights: Weights = self.network_.state_dict()
        return weights

    def _restore(self, stored: StoredModel) -> None:
        network = self.build(self.network_settings_, self.scaler_)
        network.load_state_dict(stored.weights)
        self.network_ = network.eval()
