"""`EpisodeClassifier`: the common scikit-learn interface of all detectors.

Each kind of detector defines its settings, its training, its scores and its weights. This class does the rest:
validation part, calibration, threshold, metrics, saving and loading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import (
    align_to_training,
    as_episodes,
    match_sensors,
    require_both_classes,
    require_finite_logits,
    require_interval,
    warn_of_silent_sensors,
)
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.splits import validation_split
from dfstrans.detectors.parameters import Configurable
from dfstrans.detectors.recipe import Recipe, load_with_recipe
from dfstrans.detectors.saved_model import (
    DataRecord,
    ModelRecord,
    StoredModel,
    load_model,
    other_version,
    save_model,
    settings_of,
)
from dfstrans.errors import DfstransError, option_name
from dfstrans.settings import DecisionSettings, Imbalance, Precision, ThresholdRule, setting_name
from dfstrans.training import processes
from dfstrans.training.calibration import calibrate, choose_threshold
from dfstrans.training.evaluation import ChanceCheck, Evaluation, check_against_chance, evaluate_probabilities
from dfstrans.training.run_folder import LogRows

Weights = dict[str, Tensor]
DECISION = DecisionSettings()  # argument defaults


class TrainingTask(NamedTuple):
    """The data and settings of one training run, and where to keep its progress."""

    network: Any
    training: Any
    scaler: SensorScaler
    train: Episodes
    validation: Episodes
    run_folder: Path | None = None
    resume: bool = False
    progress: bool = False
    on_first: Callable[[Any], None] | None = None  # called with a detector that is ready before training ends


class TrainingResult(NamedTuple):
    """The outcome of training, apart from what the detector itself stores."""

    odds: float  # factor by which training raised the odds of an anomaly: class weight times undersampling
    best_epoch: int = 1
    log: LogRows = []  # noqa: RUF012 never mutated


class EpisodeClassifier(ClassifierMixin, Configurable, ABC):  # type: ignore[misc]
    """A detector that learns from labelled episodes and predicts anomaly probabilities."""

    # ---- what a kind of detector defines ------------------------------------------------------------------------

    @abstractmethod
    def _train(self, task: TrainingTask) -> TrainingResult:
        """Train this detector, whose `scaler_` and complete settings are already set."""

    @abstractmethod
    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        """Return the logit of each checked episode, NaN if a value is implausibly large: (n_episodes,)."""

    @abstractmethod
    def _weights(self) -> Weights:
        """Return all learned weights."""

    @abstractmethod
    def _restore(self, stored: StoredModel) -> None:
        """Restore what was learned from a saved model; `network_settings_` and `scaler_` are already set."""

    def network_settings(self, episodes: Episodes) -> Any:
        """Return the complete settings of the model that fit would build for these episodes."""
        return self._settings(self.shape_kind, n_sensors=episodes.n_sensors)

    def training_settings(self, n_episodes: int, n_anomalous: int | None = None) -> Any:
        """Return the complete settings for training on `n_episodes` episodes, `n_anomalous` of them anomalous."""
        return self._settings(self.plan_kind)

    def check_lengths(self, episodes: Episodes, network: Any) -> None:
        """Reject episodes that are too short or too long for these settings."""

    def _machine_ranges(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """Return the range of each sensor that is normal for a machine, on the scale of training, by machine."""
        return {}

    def machines_without_baseline(self, X: Any) -> list[str]:  # noqa: N803
        """Return the machines of these recordings that are not compared with themselves; by default all of them."""
        groups = self.check_input(X).groups
        return [] if groups is None else sorted(set(groups.tolist()))

    def with_own_baselines(self, X: Any) -> Self:  # noqa: N803
        """Return a copy that compares machines without a baseline with these recordings of theirs, without labels.

        By default the detector itself, since few kinds compare machines with themselves.
        """
        return self

    def _learn_reference(self, train: Episodes, validation: Episodes) -> None:
        """Learn the reference for diagnoses; only detectors that diagnose need one."""

    def _learn_from_validation(self, task: TrainingTask) -> None:
        """Learn from the validation part as well, once calibration and threshold are chosen; only trees do."""

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
        on_first: Callable[[Self], None] | None = None,
    ) -> Self:
        """Train on labelled episodes; without a `validation` part, hold out a stratified share of them.

        `X` is `Episodes`, a 3-D array (episode, sensor, timepoint) or a list of 2-D arrays (sensor, timepoint); `y` has
        the labels, unless the episodes have them. `run_folder` keeps a checkpoint after each epoch, from which
        `resume` continues; the result has the same weights as an uninterrupted run. An earlier fit survives a failure.
        A committee calls `on_first` with its trees, a complete detector, before it trains the network.
        """
        task = self._task(as_episodes(X, y), validation)
        fitted = type(self)(**self.get_params(deep=False))
        fitted._learn(task._replace(run_folder=run_folder, resume=resume, progress=progress, on_first=on_first))
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | vars(fitted)  # only now, so that an earlier fit survives a failure
        return self

    def _task(self, episodes: Episodes, validation: Episodes | None) -> TrainingTask:
        """Return the parts and the complete settings of a training run."""
        labels = episodes.require_labels()
        training = self.training_settings(len(episodes), episodes.n_anomalous)
        require_both_classes(labels)
        if validation is None:
            groups = episodes.groups if episodes.groups is not None and len(set(episodes.groups)) > 1 else None
            fraction, seed = training.validation_fraction, training.seed
            rows = validation_split(labels, groups, copies=episodes.copies(), fraction=fraction, seed=seed)
            train, validation = episodes[rows[0]], episodes[rows[1]]
        else:
            train, validation = episodes, match_sensors(validation, episodes.sensors)
        if len(validation) == 0:
            fraction = setting_name("validation_fraction", training.validation_fraction)
            raise DfstransError(
                f"expected at least one episode for validation, got {len(episodes)} episodes and {fraction}; record "
                "more episodes or use a larger fraction"
            )
        network = self.network_settings(episodes)
        for part in (train, validation):
            self.check_lengths(part, network)
        scaler = processes.on_first(lambda: SensorScaler.fit(train))
        return TrainingTask(network, training, scaler, train, validation)

    def _learn(self, task: TrainingTask) -> None:
        """Train this unfitted detector, and choose its calibration and threshold."""
        self.network_settings_, self.training_settings_, self.scaler_ = task.network, task.training, task.scaler
        self._conclude(task, self._train(task))

    def _conclude(self, task: TrainingTask, result: TrainingResult) -> None:
        """Store what is known after training, and choose calibration and threshold on the validation part."""
        train, validation = task.train, task.validation
        self.sensors_, self.units_ = train.sensors, train.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_ = result.best_epoch, result.log
        self.data_ = DataRecord.of(train, validation)
        self.parts_ = {"train": train.ids.tolist(), "validation": validation.ids.tolist()}
        self.reading_: Recipe = {}  # `train_model` remembers the options of reading

        labels, logits = validation.require_labels(), self._checked_logits(validation)
        self.calibration_ = calibrate(labels, logits, result.odds)
        probabilities = self.calibration_.probabilities(logits)
        self.threshold_ = choose_threshold(labels, probabilities, task.training)
        self.metrics_ = {"validation": evaluate_probabilities(labels, probabilities, self.threshold_.value).to_dict()}
        self._learn_reference(train, validation)
        self._learn_from_validation(task)

    # ---- read ---------------------------------------------------------------------------------------------------

    def load_episodes(self, path: str | Path, *, need_labels: bool = True, **overrides: Any) -> Episodes:
        """Read recordings as those of training were read; `overrides` are fields of `ReadOptions` to use instead.

        Recordings that lack a sensor of training or have another sampling interval are refused. Without `need_labels`,
        recordings without the label column of training are read as unlabelled ones.
        """
        self._require_fitted(f"call fit or {type(self).__name__}.load first")
        episodes = load_with_recipe(self.reading_, path, overrides, need_labels=need_labels)
        match_sensors(episodes, self.sensors_)
        require_interval(episodes, self.data_.interval, self.data_.time_unit)
        return episodes

    # ---- predict ------------------------------------------------------------------------------------------------

    def check_input(self, X: Any, y: npt.ArrayLike | None = None) -> Episodes:  # noqa: N803
        """Return the episodes with the sensors of training, in their order; raise an error if that is impossible."""
        self._require_fitted(f"call fit or {type(self).__name__}.load first")
        data, given = self.data_, as_episodes(X, y, check_axes=False)
        episodes = align_to_training(given, self.sensors_, self.units_, data.interval, data.time_unit)
        self.check_lengths(episodes, self.network_settings_)
        return episodes

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the logit of each episode, before calibration: (n_episodes,)."""
        episodes = self.check_input(X)
        warn_of_silent_sensors(episodes)
        return self._checked_logits(episodes)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the calibrated probabilities of normal and anomalous: (n_episodes, 2)."""
        logits = self.decision_function(X)
        anomalous = self.calibration_.probabilities(logits)
        return np.stack([1 - anomalous, anomalous], axis=1)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803
        """Return 1 for each episode whose anomaly probability reaches the stored threshold, else 0: (n_episodes,)."""
        episodes = self.check_input(X)
        return (self.predict_proba(episodes)[:, 1] >= self.thresholds(episodes)).astype(np.int64)

    def thresholds(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        """Return the lowest probability at which each of these episodes counts as anomalous: (n_episodes,)."""
        return np.full(len(episodes), self.threshold_.value)

    def novelty(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return how unlike training each recording is, NaN if that is unknown, as here: (n_episodes,)."""
        return np.full(len(self.check_input(X)), np.nan)

    def score(self, X: Any, y: npt.ArrayLike | None = None, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy; the labels are `y`, or those of the episodes."""
        labels = as_episodes(X, y, check_axes=False).require_labels()
        return float(super().score(X, labels, sample_weight))

    def evaluate(self, X: Any, y: npt.ArrayLike | None = None) -> Evaluation:  # noqa: N803
        """Return the detection metrics on labelled episodes."""
        episodes = self.check_input(X, y)
        warn_of_silent_sensors(episodes)
        probabilities = self.calibration_.probabilities(self._checked_logits(episodes))
        own = self.thresholds(episodes)
        return evaluate_probabilities(episodes.require_labels(), probabilities, self.threshold_.value, own)

    def evaluate_test(self, test: Episodes) -> None:
        """Add the metrics of the test part to those of the detector."""
        self.metrics_["test"] = self.evaluate(test).to_dict()

    def out_of_range(self, X: Any) -> dict[str, float]:  # noqa: N803
        """Return the share of values outside the training range by sensor, largest first; shares of 0 are omitted.

        Values that are normal for their machine do not count.
        """
        episodes = self.check_input(X)
        shares = self.count_out_of_range(episodes) / max(int(episodes.lengths.sum()), 1)
        order = np.argsort(-shares, kind="stable")
        return {episodes.sensors[i]: float(shares[i]) for i in order if shares[i] > 0}

    def count_out_of_range(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803
        """Return how many values of each sensor are outside the range of training and machine: (n_sensors,)."""
        return self.scaler_.count_out_of_range(self.check_input(X), self._machine_ranges())

    def predict_in(self, precision: Precision) -> Self:
        """Set the precision of prediction; only networks have a choice."""
        if precision == "bf16":
            raise DfstransError(
                f"expected a network, got {self.estimator_name}, which does not support bf16; use "
                f"{option_name('precision', 'auto')}"
            )
        return self

    def probability(self, logit: float) -> float:
        """Return the calibrated probability of a logit."""
        return float(self.calibration_.probabilities(np.array([logit]))[0])

    @property
    def decision_threshold(self) -> float:
        """The lowest probability at which an episode counts as anomalous."""
        return self.threshold_.value

    @property
    def chance_check(self) -> ChanceCheck:
        """Whether the detector is better than guessing on its held-out episodes."""
        return check_against_chance(self.metrics_)

    @property
    def n_parameters_(self) -> int:
        """Number of learned parameters."""
        return sum(tensor.numel() for tensor in self._weights().values())

    def _checked_logits(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        logits = self._logits(episodes).astype(np.float64)
        require_finite_logits(episodes, logits)
        return logits

    def _require_fitted(self, remedy: str) -> None:
        if not hasattr(self, "data_"):
            raise NotFittedError(f"expected a fitted {type(self).__name__}, got an unfitted one; {remedy}")

    # ---- save and load ------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder; an earlier model there is replaced atomically, or kept if writing fails."""
        self._require_fitted("call fit first")
        save_model(Path(folder), self._stored())

    def _stored(self) -> StoredModel:
        """Return the content of a saved model."""
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
            reading=self.reading_,
            best_epoch=self.best_epoch_,
            metrics=self.metrics_,
        )
        return StoredModel(record, self._weights(), self.scaler_, self.log_, {}, self.parts_)

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
                "`dfstrans.detectors.registry.load_detector`, which take all kinds), or train one of the kind "
                f"{cls.estimator_name!r} (trees that diagnose, too: {option_name('members', 'trees')})"
            )
        network = settings_of(folder, cls.shape_kind, record.network)
        training = settings_of(folder, cls.plan_kind, record.training)
        settings, defaults = {**network.model_dump(), **training.model_dump()}, cls.default_settings()
        changed = {name: settings[name] for name, default in defaults.items() if settings[name] != default}
        self = cls.from_settings(**changed)
        self.network_settings_, self.training_settings_, self.scaler_ = network, training, stored.scaler
        try:
            self._restore(stored)
        except (RuntimeError, KeyError) as error:
            reason = f"its content does not fit its settings: {str(error.args[0]).splitlines()[0]}"
            raise other_version(folder, record.model_dump(), reason) from error
        self.sensors_, self.units_ = record.sensors, record.units
        self.classes_ = np.array([0, 1])
        self.best_epoch_, self.log_ = record.best_epoch, stored.log
        self.metrics_, self.data_ = record.metrics, record.data
        self.parts_, self.reading_ = stored.parts, record.reading
        self.calibration_, self.threshold_ = record.calibration, record.threshold
        return self


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor; the rest is scikit-learn's
class SingleStepClassifier(EpisodeClassifier):
    """Base class of detectors that train in a single step, so that there is nothing to resume.

    Its arguments are the fields of `DecisionSettings`.
    """

    imbalance: Imbalance = DECISION.imbalance
    validation_fraction: float = DECISION.validation_fraction
    threshold_rule: ThresholdRule = DECISION.threshold_rule
    threshold_value: float | None = None
    seed: int = DECISION.seed
