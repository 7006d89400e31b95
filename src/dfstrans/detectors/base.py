"""`EpisodeClassifier`: what every detector has in common, as scikit-learn users know it.

A kind of detector says which settings it has, how it learns, how it scores and what numbers it keeps. The rest is the
same for all: what is set aside, calibration, the threshold, figures, what a saved model is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import (
    align_to_training,
    as_episodes,
    match_sensors,
    require_both_classes,
    require_finite_logits,
)
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.splits import validation_split
from dfstrans.detectors.saved_model import DataRecord, ModelRecord, StoredModel, load_model, save_model, settings_of
from dfstrans.errors import DfstransError, option_name
from dfstrans.settings import DecisionSettings, Precision, Settings
from dfstrans.training.calibration import calibrate, choose_threshold
from dfstrans.training.evaluation import ChanceCheck, Evaluation, check_against_chance, evaluate_probabilities
from dfstrans.training.run_folder import LogRows

Weights = dict[str, Tensor]


class TrainingTask(NamedTuple):
    """All that a detector learns from and by, and where it may keep its progress."""

    network: Any
    training: Any
    scaler: SensorScaler
    train: Episodes
    validation: Episodes
    run_folder: Path | None = None
    resume: bool = False
    progress: bool = False


class TrainingResult(NamedTuple):
    """What became of a lesson, besides what the detector keeps."""

    odds: float  # what those of an anomaly were raised by: its weight in the loss, and normal episodes left out
    best_epoch: int = 1
    log: LogRows = []  # noqa: RUF012 never changed


class EpisodeClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A detector of anomalous episodes: labelled recordings in, anomaly probabilities out."""

    estimator_name: ClassVar[str]  # in model.json and in `dfstrans.detectors.MODELS`
    network_kind: ClassVar[type[Settings]]  # the settings of the network, or of what stands in its place
    training_kind: ClassVar[type[DecisionSettings]] = DecisionSettings

    # ---- what a kind of detector says ---------------------------------------------------------------------------

    def network_settings(self, episodes: Episodes) -> Any:
        """The settings of what fit would build for these episodes."""
        return self._settings(self.network_kind, n_sensors=episodes.n_sensors)

    def training_settings(self, n_episodes: int, n_anomalous: int | None = None) -> Any:
        """The estimator's arguments that tell how to train on so many episodes, so many of them anomalous, checked."""
        return self._settings(self.training_kind)

    def check_lengths(self, episodes: Episodes, network: Any) -> None:
        """Refuse episodes that are too short or too long for these settings."""

    @abstractmethod
    def _learn(self, lesson: TrainingTask) -> TrainingResult:
        """Learn, and keep what was learned only at the end: an earlier fit outlives one that fails."""

    @abstractmethod
    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        """The logit of each episode, NaN where a value is beyond all measure: (n_episodes,)."""

    @abstractmethod
    def _weights(self) -> Weights:
        """All the numbers that were learned."""

    @abstractmethod
    def _restore(self, weights: Weights) -> None:
        """The inverse of `_weights`, with `network_settings_` and `scaler_` set."""

    @property
    def n_parameters_(self) -> int:
        """How many numbers were learned."""
        return sum(tensor.numel() for tensor in self._weights().values())

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
        episodes = as_episodes(X, y)
        labels = episodes.require_labels()
        training = self.training_settings(len(episodes), episodes.n_anomalous)
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
                f"{option_name('validation_fraction', training.validation_fraction)}; record more episodes or use a "
                "larger fraction"
            )
        network = self.network_settings(episodes)
        for part in (train, validation):
            self.check_lengths(part, network)
        scaler = SensorScaler.fit(train)
        learned = self._learn(TrainingTask(network, training, scaler, train, validation, run_folder, resume, progress))
        self.network_settings_, self.training_settings_, self.scaler_ = network, training, scaler
        self.sensors_, self.units_ = episodes.sensors, episodes.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_ = learned.best_epoch, learned.log
        self.data_ = DataRecord.of(train, validation)
        self._calibrate_and_reference(train, validation, learned.odds)
        return self

    def _calibrate_and_reference(self, train: Episodes, validation: Episodes, odds: float) -> None:
        """Calibrate, choose the threshold and record the figures, all on the validation part."""
        labels = validation.require_labels()
        logits = self.decision_function(validation)
        self.calibration_ = calibrate(labels, logits, odds)
        probabilities = self.calibration_.probabilities(logits)
        self.threshold_ = choose_threshold(labels, probabilities, self.training_settings_)
        evaluation = evaluate_probabilities(labels, probabilities, self.threshold_.value)
        self.metrics_ = {"validation": evaluation.to_dict()}

    def _settings(self, kind: Any, **values: Any) -> Any:
        """The estimator's arguments that belong to one group of settings."""
        given = self.get_params(deep=False)
        return kind(**{**{name: given[name] for name in kind.model_fields if name in given}, **values})

    # ---- predict ------------------------------------------------------------------------------------------------

    def predict_in(self, precision: Precision) -> Self:
        """Score in this precision from now on; only a network has a choice."""
        if precision == "bf16":
            raise DfstransError(
                f"expected a network, got {self.estimator_name}, which has no bf16; use "
                f"{option_name('precision', 'auto')}"
            )
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The logit of each episode, before calibration: (n_episodes,)."""
        episodes = self.check_input(X)
        logits = self._logits(episodes).astype(np.float64)
        require_finite_logits(episodes, logits)
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

    @property
    def chance_check(self) -> ChanceCheck:
        """Whether it told its own held-out episodes apart better than guessing would."""
        return check_against_chance(self.metrics_)

    def check_input(self, X: Any, y: npt.ArrayLike | None = None) -> Episodes:  # noqa: N803
        """Episodes with the sensors of training, in their order; an error where that cannot be."""
        self._require_fitted(f"call fit or {type(self).__name__}.load first")
        data, given = self.data_, as_episodes(X, y, check_axes=False)
        episodes = align_to_training(given, self.sensors_, self.units_, data.interval, data.time_unit)
        self.check_lengths(episodes, self.network_settings_)
        return episodes

    def _require_fitted(self, remedy: str) -> None:
        if not hasattr(self, "data_"):
            raise NotFittedError(f"expected a fitted {type(self).__name__}, got one that is not; {remedy}")

    # ---- save and load ------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder; an earlier model there is replaced in one step, or kept if writing fails."""
        self._require_fitted("call fit first")
        save_model(Path(folder), self._stored())

    def _stored(self) -> StoredModel:
        """All that a saved model holds."""
        record = ModelRecord(
            estimator=self.estimator_name,
            network=self.network_settings_.model_dump(mode="json"),
            training=self.training_settings_.model_dump(mode="json"),
            parameters=self.n_parameters_,
            sensors=self.sensors_,
            units=self.units_,
            threshold=self.threshold_,
            calibration=self.calibration_,
            data=self.data_,
            best_epoch=self.best_epoch_,
            metrics=self.metrics_,
        )
        return StoredModel(record, self._weights(), self.scaler_, self.log_, None)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` wrote."""
        return cls._from_stored(Path(folder), load_model(Path(folder)))

    @classmethod
    def _from_stored(cls, folder: Path, stored: StoredModel) -> Self:
        record = stored.record
        if record.estimator != cls.estimator_name:
            raise DfstransError(
                f"expected a model of the kind {cls.estimator_name!r} in {folder}, got one of the kind "
                f"{record.estimator!r}; evaluate it or predict with it (`dfstrans evaluate`, `dfstrans predict`, or "
                "`dfstrans.detectors.load_detector`, which take all kinds), or train one of the other kind"
            )
        network = settings_of(folder, cls.network_kind, record.network)
        training = settings_of(folder, cls.training_kind, record.training)
        settings = {**network.model_dump(), **training.model_dump()}
        self = cls(**{name: settings[name] for name in cls().get_params(deep=False)})
        self.network_settings_, self.training_settings_, self.scaler_ = network, training, stored.scaler
        try:
            self._restore(stored.weights)
        except (RuntimeError, KeyError) as error:
            raise DfstransError(
                f"expected weights that fit the settings of {folder}, got others; restore the model from a copy or "
                f"train again ({str(error).splitlines()[0]})"
            ) from error
        self.sensors_, self.units_ = record.sensors, record.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_ = record.best_epoch, stored.log
        self.metrics_, self.data_ = record.metrics, record.data
        self.calibration_, self.threshold_ = record.calibration, record.threshold
        return self
