"""`Diagnoser`: fit, predict, save and load, as scikit-learn users know it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from dfstrans.artifact import DataRecord, ModelRecord, StoredModel, load_model, save_model
from dfstrans.config import (
    Embedding,
    Encoding,
    Imbalance,
    NetworkSettings,
    Precision,
    Schedule,
    ThresholdRule,
    TrainingSettings,
    default_batch_size,
)
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import FEWEST_FILTERS, default_filters, default_segment_length
from dfstrans.data.splits import validation_split
from dfstrans.errors import DfstransError, spelled
from dfstrans.inputs import as_episodes, as_in_training, check_fits, check_scored, match_sensors
from dfstrans.model.network import DFSTrans, ForwardPass
from dfstrans.training.evaluation import Evaluation, evaluate_probabilities
from dfstrans.training.threshold import calibrate, choose_threshold

if TYPE_CHECKING:
    from dfstrans.diagnosis.diagnosis import Diagnosis
    from dfstrans.training.batches import Batch

PREDICTION_BATCH = 32


class Diagnoser(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A detector of anomalous episodes: labelled recordings in, anomaly probabilities out.

    The arguments are the fields of `NetworkSettings` and `TrainingSettings`, where they are explained. Without a
    `segment_length` or a number of `filters` it is chosen from the lengths of the training episodes, without a
    `batch_size` from their number.
    `Diagnoser(**PRESETS["paper"])` is the paper's network, trained as the paper did.

    >>> from dfstrans.data.planted import planted_episodes
    >>> episodes = planted_episodes(n_normal=12, n_anomalous=6, n_sensors=3, n_timepoints=48, seed=0)
    >>> detector = Diagnoser(segment_length=16, filters=4, heads=2, feedforward=16, epochs=1).fit(episodes)
    >>> detector.predict_proba(episodes).shape
    (18, 2)
    """

    def __init__(
        self,
        *,
        segment_length: int | None = None,
        blocks: int = 3,
        filters: int | None = None,
        kernel: int = 5,
        heads: int = 8,
        feedforward: int = 128,
        head_width: int = 128,
        layers: int = 1,
        dropout: float = 0.3,
        encoding: Encoding = "faithful",
        embedding: Embedding = "cnn",
        epochs: int = 40,
        batch_size: int | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.05,
        patience: int = 20,
        gradient_clip: float = 1.0,
        schedule: Schedule = "one-cycle",
        imbalance: Imbalance = "weighted",
        sensor_dropout: float = 0.15,
        noise: float = 0.0,
        time_shift: float = 0.5,
        mixup: float = 0.3,
        weight_averaging: float = 0.99,
        validation_fraction: float = 0.15,
        threshold_rule: ThresholdRule = "f1",
        threshold_value: float | None = None,
        precision: Precision = "auto",
        seed: int = 0,
    ) -> None:
        self.segment_length = segment_length
        self.blocks = blocks
        self.filters = filters
        self.kernel = kernel
        self.heads = heads
        self.feedforward = feedforward
        self.head_width = head_width
        self.layers = layers
        self.dropout = dropout
        self.encoding = encoding
        self.embedding = embedding
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.gradient_clip = gradient_clip
        self.schedule = schedule
        self.imbalance = imbalance
        self.sensor_dropout = sensor_dropout
        self.noise = noise
        self.time_shift = time_shift
        self.mixup = mixup
        self.weight_averaging = weight_averaging
        self.validation_fraction = validation_fraction
        self.threshold_rule = threshold_rule
        self.threshold_value = threshold_value
        self.precision = precision
        self.seed = seed

    # ---- fit ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,  # noqa: N803
        y: npt.ArrayLike | None = None,
        *,
        validation: Episodes | None = None,
        run_folder: Path | None = None,
        resume: bool = False,
        progress: bool = False,
    ) -> Self:
        """Train on labelled episodes; without a `validation` part a stratified share of them is set aside for it.

        `X` is `Episodes`, a 3-D array (episode, sensor, timepoint) or a list of 2-D arrays (sensor, timepoint); `y` the
        labels, unless the episodes carry them. `run_folder` keeps a checkpoint after each epoch, from which `resume`
        goes on to the same weights that an uninterrupted run gives.
        """
        from dfstrans.training.fit import train_network  # the engine takes seconds to import

        episodes = as_episodes(X, y)
        training = self.training_settings(len(episodes))
        labels = episodes.require_labels()
        require_both_classes(labels)
        if validation is None:
            groups = episodes.groups if episodes.groups is not None and len(set(episodes.groups)) > 1 else None
            rows = validation_split(labels, groups, fraction=training.validation_fraction, seed=training.seed)
            train, validation = episodes[rows[0]], episodes[rows[1]]
        else:
            train, validation = episodes, match_sensors(validation, episodes.sensors)
        if len(validation) == 0:
            raise DfstransError(
                f"expected at least one episode for validation, got {len(episodes)} episodes and "
                f"{spelled('validation_fraction', training.validation_fraction)}; record more episodes or use a "
                "larger fraction"
            )
        network = self.network_settings(episodes)
        for part in (train, validation):
            check_fits(part, network)
        scaler = SensorScaler.fit(train)
        trained = train_network(
            network, training, train, validation, scaler, run_folder=run_folder, resume=resume, progress=progress
        )
        self.network_, self.scaler_ = trained.network, scaler
        self.network_settings_, self.training_settings_ = network, training
        self.sensors_, self.units_ = episodes.sensors, episodes.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_ = trained.best_epoch, trained.log
        self._settle(train, validation, trained.positive_weight)
        return self

    def _settle(self, train: Episodes, validation: Episodes, weight: float) -> None:
        """Calibrate, choose the threshold and record the figures, all on the validation part; keep what is normal."""
        from dfstrans.diagnosis.reference import NormalReference

        labels = validation.require_labels()
        logits = self.decision_function(validation)
        self.calibration_ = calibrate(labels, logits, weight)
        probabilities = self.calibration_.probabilities(logits)
        self.threshold_ = choose_threshold(labels, probabilities, self.training_settings_)
        evaluation = evaluate_probabilities(labels, probabilities, self.threshold_.value)
        self.metrics_ = {"validation": evaluation.to_dict()}
        normal = train[train.require_labels() == 0]
        self.reference_: NormalReference | None = NormalReference.fit(self, normal, seed=self.training_settings_.seed)
        self.data_ = DataRecord(
            train_episodes=len(train),
            train_anomalous=train.n_anomalous,
            validation_episodes=len(validation),
            validation_anomalous=validation.n_anomalous,
            train_fingerprint=train.fingerprint(),
            validation_fingerprint=validation.fingerprint(),
            shortest=int(train.lengths.min()),
            longest=int(train.lengths.max()),
            interval=train.interval,
        )

    def network_settings(self, episodes: Episodes) -> NetworkSettings:
        """The network that fit would build for these episodes."""
        filters = FEWEST_FILTERS if self.filters is None else self.filters
        known: dict[str, Any] = {"n_sensors": episodes.n_sensors, "filters": filters}
        if self.segment_length is None:
            any_length = self._settings(NetworkSettings, **known, segment_length=1 << 20, heads=1)
            known["segment_length"] = default_segment_length(episodes, any_length)
        if self.filters is None:
            any_filters = self._settings(NetworkSettings, **known, heads=1)
            known["filters"] = default_filters(episodes, any_filters, self.heads)
        return self._settings(NetworkSettings, **known)  # type: ignore[no-any-return]

    def training_settings(self, n_episodes: int) -> TrainingSettings:
        """The estimator's arguments that tell how to train on so many episodes, checked."""
        batch_size = default_batch_size(n_episodes) if self.batch_size is None else self.batch_size
        return self._settings(TrainingSettings, batch_size=batch_size)  # type: ignore[no-any-return]

    def _settings(self, kind: Any, **values: Any) -> Any:
        """The estimator's arguments that belong to one group of settings."""
        given = self.get_params(deep=False)
        return kind(**{**{name: given[name] for name in kind.model_fields if name in given}, **values})

    # ---- predict ------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The logit of each episode, before calibration: (n_episodes,)."""
        episodes = self.check_input(X)
        batches = [forward.logit.numpy() for forward in self.forward(episodes)]
        logits = np.concatenate(batches).astype(np.float64) if batches else np.empty(0)
        check_scored(episodes, logits)
        return logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Calibrated probabilities of normal and anomalous: (n_episodes, 2)."""
        logits = self.decision_function(X)
        anomalous = self.calibration_.probabilities(logits)
        return np.stack([1 - anomalous, anomalous], axis=1)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803
        """1 for each episode whose anomaly probability reaches the stored threshold, else 0: (n_episodes,)."""
        return (self.predict_proba(X)[:, 1] >= self.threshold_.value).astype(np.int64)

    def score(self, X: Any, y: npt.ArrayLike | None = None, sample_weight: Any = None) -> float:  # noqa: N803
        """The share of right decisions; the labels are `y`, or those of the episodes."""
        labels = as_episodes(X, y, check_axes=False).require_labels()
        return float(super().score(X, labels, sample_weight))

    def evaluate(self, X: Any, y: npt.ArrayLike | None = None) -> Evaluation:  # noqa: N803
        """How well labelled episodes are told apart."""
        episodes = self.check_input(X, y)
        return evaluate_probabilities(
            episodes.require_labels(), self.predict_proba(episodes)[:, 1], self.threshold_.value
        )

    def probability(self, logit: float) -> float:
        """The calibrated probability of a logit."""
        return float(self.calibration_.probabilities(np.array([logit]))[0])

    @property
    def decision_threshold(self) -> float:
        """The probability from which on an episode is called anomalous."""
        return self.threshold_.value

    def diagnose(self, X: Any, *, known: Episodes | None = None, trust: bool = False) -> Iterator[Diagnosis]:  # noqa: N803
        """One `Diagnosis` per episode, one after the other: which sensors, which moments, unlike what is normal.

        `known` are anomalies whose kind of fault is known; the diagnosis tells which of them an episode resembles. With
        `trust`, anomalous episodes get a verdict on their attention, which takes some twenty passes each.
        """
        from dfstrans.diagnosis.diagnose import diagnose

        episodes = self.check_input(X)
        if self.reference_ is None:
            raise DfstransError(
                "expected a model that knows what is normal, got one that was saved before models kept that; train it "
                "again"
            )
        return diagnose(self, episodes, self.reference_, known, trust=trust)

    def forward(self, X: Any, *, return_attention: bool = False) -> Iterator[ForwardPass]:  # noqa: N803
        """The network's output, batch by batch; only one batch is ever in memory."""
        for batch in self.batches(X):
            with torch.inference_mode():
                yield self.network_(batch.segments, batch.valid, return_attention=return_attention)

    def batches(self, X: Any) -> Iterator[Batch]:  # noqa: N803
        """The episodes as the network takes them: scaled, cut, a batch at a time."""
        from dfstrans.training.batches import batch_loader

        episodes = self.check_input(X)
        yield from batch_loader(episodes, self.scaler_, self.network_settings_.segment_length, PREDICTION_BATCH)

    def check_input(self, X: Any, y: npt.ArrayLike | None = None) -> Episodes:  # noqa: N803
        """Episodes with the sensors of training, in their order; an error where that cannot be."""
        if not hasattr(self, "network_"):
            raise NotFittedError("expected a fitted Diagnoser, got one that is not; call fit or Diagnoser.load first")
        interval = self.data_.interval if hasattr(self, "data_") else None
        return as_in_training(as_episodes(X, y, check_axes=False), self.sensors_, self.network_settings_, interval)

    @property
    def n_parameters_(self) -> int:
        """Trainable parameters of the network."""
        return sum(p.numel() for p in self.network_.parameters())

    # ---- save and load ------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder; an earlier model there is replaced in one step, or kept if writing fails."""
        if not hasattr(self, "network_"):
            raise NotFittedError("expected a fitted Diagnoser, got one that is not; call fit first")
        record = ModelRecord(
            network=self.network_settings_,
            training=self.training_settings_,
            parameters=self.n_parameters_,
            sensors=self.sensors_,
            units=self.units_,
            threshold=self.threshold_,
            calibration=self.calibration_,
            data=self.data_,
            best_epoch=self.best_epoch_,
            metrics=self.metrics_,
        )
        reference = None if self.reference_ is None else self.reference_.to_arrays()
        save_model(Path(folder), StoredModel(record, self.network_.state_dict(), self.scaler_, self.log_, reference))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` wrote."""
        from dfstrans.diagnosis.reference import NormalReference

        record, weights, scaler, log, reference = load_model(Path(folder))
        names = cls().get_params(deep=False)
        settings = {**record.network.model_dump(), **record.training.model_dump()}
        self = cls(**{name: settings[name] for name in names})
        network = DFSTrans(record.network)
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise DfstransError(
                f"expected weights that fit the settings of {folder}, got others; restore the model from a copy or "
                f"train again ({str(error).splitlines()[0]})"
            ) from error
        self.network_, self.scaler_ = network.eval(), scaler
        self.network_settings_, self.training_settings_ = record.network, record.training
        self.sensors_, self.units_ = record.sensors, record.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_, self.metrics_, self.data_ = record.best_epoch, log, record.metrics, record.data
        self.calibration_, self.threshold_ = record.calibration, record.threshold
        self.reference_ = None if reference is None else NormalReference.from_arrays(reference)
        return self


def require_both_classes(labels: npt.NDArray[np.int8]) -> None:
    """Refuse labels from which nothing can be learnt."""
    n_anomalous = int(labels.sum())
    if min(n_anomalous, len(labels) - n_anomalous) < 2:
        raise DfstransError(
            f"expected at least two normal and two anomalous episodes, got {len(labels) - n_anomalous} normal and "
            f"{n_anomalous} anomalous; a detector learns from both, so add labelled episodes of the rarer class"
        )
