"""`NetworkClassifier`: a detector that is a network of torch, trained by the engine of `dfstrans.training`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt
import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.detectors.base import EpisodeClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.errors import DfstransError
from dfstrans.model.detector import DetectorNetwork, computing_in
from dfstrans.settings import (
    DecisionSettings,
    Precision,
    TrainingSettings,
    default_batch_size,
    default_epochs,
    episodes_of_an_epoch,
)
from dfstrans.training.calibration import guessing_loss, positive_weight

if TYPE_CHECKING:
    from dfstrans.training.batches import Batch


PREDICTION_BATCH = 32


class NetworkClassifier(EpisodeClassifier):
    """A detector that is a network. A kind of it names the network; `batch_size` and `epochs` may be chosen for it."""

    training_kind: ClassVar[type[DecisionSettings]] = TrainingSettings
    _prediction_precision: Precision = "32"  # chosen for a machine: neither a setting nor part of a saved model

    @staticmethod
    @abstractmethod
    def build(network: Any, scaler: SensorScaler) -> DetectorNetwork:
        """The network of these settings, with weights that torch's random generator gives."""

    def training_settings(self, n_episodes: int, n_anomalous: int | None = None) -> TrainingSettings:
        """The estimator's arguments that tell how to train on so many episodes, checked.

        Batch size and epochs go by the episodes of an epoch: all, where the number of anomalous ones is not told.
        """
        shift = {} if "time_shift" in self.get_params() else {"time_shift": 0.0}  # of a point's segment there is none
        left_open = [name for name in ("batch_size", "epochs") if getattr(self, name) is None]
        stand_ins = dict.fromkeys(left_open, 1)  # until the other settings are known to be right
        checked: TrainingSettings = self._settings(TrainingSettings, **stand_ins, **shift)
        most = checked.normals_per_anomaly
        drawn = n_episodes if n_anomalous is None else episodes_of_an_epoch(n_episodes, n_anomalous, most)
        batch_size = default_batch_size(drawn) if self.batch_size is None else checked.batch_size
        epochs = default_epochs(drawn, batch_size) if self.epochs is None else checked.epochs
        return checked.model_copy(update={"batch_size": batch_size, "epochs": epochs})

    def _learn(self, lesson: TrainingTask) -> TrainingResult:
        from dfstrans.training.fit import train_network

        trained = train_network(
            partial(self.build, lesson.network, lesson.scaler),
            lesson.network,
            lesson.training,
            lesson.train,
            lesson.validation,
            lesson.scaler,
            run_folder=lesson.run_folder,
            resume=lesson.resume,
            progress=lesson.progress,
        )
        self.network_ = trained.network
        self._prediction_precision = "32"
        return TrainingResult(trained.odds, trained.best_epoch, trained.log)

    @property
    def loss_beside_guessing(self) -> float:
        """The last training loss, as a share of what guessing costs: near 1 where nothing was learned."""
        settings, n_anomalous = self.training_settings_, self.data_.train_anomalous
        drawn = episodes_of_an_epoch(self.data_.train_episodes, n_anomalous, settings.normals_per_anomaly)
        labels = np.repeat(np.array([1, 0], dtype=np.int8), [n_anomalous, drawn - n_anomalous])
        return float(self.log_[-1]["loss"]) / guessing_loss(labels, positive_weight(labels, settings))

    def predict_in(self, precision: Precision) -> Self:
        """Score in this precision until it is fitted again: `auto` is bf16 where the processor has it.

        Faster with wide networks, and scores differ slightly. Diagnoses and exports stay in 32 bits.
        """
        if precision not in get_args(Precision):
            known = ", ".join(get_args(Precision))
            raise DfstransError(f"expected one of {known}, got precision {precision!r}; name one of them")
        self._prediction_precision = precision
        return self

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        found = []
        with torch.inference_mode(), computing_in(self._prediction_precision):
            for batch in self.batches(episodes):
                found.append(self.network_(batch.segments, batch.valid).logit.float().numpy())
        return np.concatenate(found) if found else np.empty(0)

    def batches(self, X: Any) -> Iterator[Batch]:  # noqa: N803
        """The episodes as the network takes them: scaled, cut, a batch at a time."""
        from dfstrans.training.batches import batch_loader

        episodes = self.check_input(X)
        yield from batch_loader(episodes, self.scaler_, self.network_settings_.segment_length, PREDICTION_BATCH)

    @property
    def n_parameters_(self) -> int:
        """Trainable parameters of the network."""
        return sum(p.numel() for p in self.network_.parameters())

    def _weights(self) -> Weights:
        weights: Weights = self.network_.state_dict()
        return weights

    def _restore(self, weights: Weights) -> None:
        network = self.build(self.network_settings_, self.scaler_)
        network.load_state_dict(weights)
        self.network_ = network.eval()
