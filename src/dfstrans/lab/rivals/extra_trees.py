"""What a user tries first: extra-trees on 14 statistics of each sensor over the whole episode."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.ensemble import ExtraTreesClassifier

from dfstrans.data.baselines import AT_REST, MIN_RECORDINGS, Baseline
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import cut_segments
from dfstrans.data.statistics import Statistics
from dfstrans.detectors.base import SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.model.forest import Features, Forest
from dfstrans.model.machine_trees import own_features
from dfstrans.settings import DetectorSettings
from dfstrans.training.calibration import positive_weight

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PARTS = 10  # of an episode
N_STATISTICS = 14
AT_LEAST = 1e-3  # the scale of a statistic that never changed, so that any change is large
OF_BASELINE = ("median", "spread", "deviation")
FLEET = ""  # the name of the baseline of all machines together


class ExtraTreesSettings(DetectorSettings):
    """Number of trees."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    trees: int = Field(default=300, ge=1, description="Number of trees.")


def whole_statistics(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the statistics of one episode without gaps: (sensor, point) → (sensor, 14)."""
    step = np.abs(np.diff(values, axis=1, append=values[:, -1:]))
    parts = np.array_split(values, min(PARTS, values.shape[1]), axis=1)
    means, deviations = (np.stack([getattr(part, of)(axis=1) for part in parts], axis=1) for of in ("mean", "std"))
    columns = [values.mean(1), values.std(1), values.min(1), values.max(1), step.mean(1), step.max(1)]
    columns += [*np.quantile(values, QUANTILES, axis=1), means.std(1), deviations.max(1), deviations.min(1)]
    return np.stack(columns, axis=1)


def statistics_of_all(episodes: Episodes, scaler: SensorScaler) -> Statistics:
    """Return the statistics of all episodes: (episode, sensor, 14)."""
    found = np.empty((len(episodes), episodes.n_sensors, N_STATISTICS))
    for row in range(len(episodes)):
        points = cut_segments(episodes[[row]], scaler, 1).values[0, :, :, 0]  # (point, sensor), without gaps
        found[row] = whole_statistics(points.T.astype(np.float64))
    return found


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class ExtraTreesRival(SingleStepClassifier):
    """Extra-trees on simple statistics, in ten lines of scikit-learn; see `ExtraTreesSettings` for the arguments."""

    estimator_name: ClassVar[str] = "extra-trees"
    network_kind = shape_kind = ExtraTreesSettings

    trees: int = ExtraTreesSettings(n_sensors=1).trees

    def _features(self, episodes: Episodes) -> Features:
        rows = statistics_of_all(episodes, self.scaler_).reshape(len(episodes), episodes.n_sensors * N_STATISTICS)
        return rows.astype(np.float32)

    def _grow(self, task: TrainingTask, *parts: Episodes) -> Forest:
        labels = np.concatenate([part.require_labels() for part in parts])
        weight = positive_weight(labels, task.training)
        threads = torch.get_num_threads()  # which a comparison limits; -1 would be all cores in each of its processes
        model = ExtraTreesClassifier(task.network.trees, random_state=task.training.seed, n_jobs=threads)
        features = np.concatenate([self._features(part) for part in parts])
        return Forest.from_votes(model.fit(features, labels, np.where(labels == 1, weight, 1.0)))

    def _train(self, task: TrainingTask) -> TrainingResult:
        self.forest_ = self._grow(task, task.train)
        return TrainingResult(odds=1.0)  # trees grow until leaves are pure, so the weight does not raise their votes

    def _learn_from_validation(self, task: TrainingTask) -> None:
        self.forest_ = self._grow(task, task.train, task.validation)  # as `trees` does

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        return self.forest_.vote_logits(self._features(episodes))

    def _weights(self) -> Weights:
        return {name: torch.from_numpy(np.array(array)) for name, array in self.forest_._asdict().items()}

    def _restore(self, stored: StoredModel) -> None:
        self.forest_ = Forest(**{name: stored.weights[name].numpy() for name in Forest._fields})


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class MachineExtraTreesRival(ExtraTreesRival):
    """The same with each machine against itself: every statistic also as arcsinh((x − median) / interquartile range).

    Median and range are those of the machine's recordings that `trees` knows; without a baseline, those of all
    machines of training.
    """

    estimator_name: ClassVar[str] = "extra-trees-machine"

    def _features(self, episodes: Episodes) -> Features:
        statistics = statistics_of_all(episodes, self.scaler_)
        deviations, groups = np.empty_like(statistics), _machines(episodes)
        for name in np.unique(groups):
            one, rows = self.baselines_.get(str(name), self.baselines_[FLEET]), groups == name
            scale = np.select([one.spread > AT_REST, one.deviation > AT_REST], [one.spread, one.deviation], AT_LEAST)
            deviations[rows] = np.arcsinh((statistics[rows] - one.median) / scale)
        return own_features(statistics, deviations)

    def _train(self, task: TrainingTask) -> TrainingResult:
        known = (task.train, task.validation)  # without a look at their labels, as in `trees`
        statistics = np.concatenate([statistics_of_all(part, self.scaler_) for part in known])
        groups = np.concatenate([_machines(part) for part in known])
        self.baselines_ = {**_baselines(statistics, groups), FLEET: Baseline.of(statistics)}
        return super()._train(task)

    def machines_without_baseline(self, X: Any) -> list[str]:  # noqa: N803
        """Return the machines of these recordings that are compared with the fleet only."""
        return sorted({*super().machines_without_baseline(X)} - {*self.baselines_})

    def with_own_baselines(self, X: Any) -> Self:  # noqa: N803
        """Return a copy that compares machines without a baseline with these recordings of theirs, without labels."""
        episodes, found = self.check_input(X), copy.copy(self)
        unknown = np.isin(_machines(episodes), self.machines_without_baseline(episodes))
        if unknown.any():
            known = episodes[unknown]
            found.baselines_ = self.baselines_ | _baselines(statistics_of_all(known, self.scaler_), _machines(known))
        return found

    def _stored(self) -> StoredModel:
        stored = super()._stored()
        machines = tuple((name, one.n_recordings) for name, one in self.baselines_.items())
        return stored._replace(record=stored.record.model_copy(update={"machines": machines}))

    def _weights(self) -> Weights:
        known = self.baselines_.values()
        arrays = {name: torch.from_numpy(np.stack([getattr(one, name) for one in known])) for name in OF_BASELINE}
        return super()._weights() | arrays

    def _restore(self, stored: StoredModel) -> None:
        super()._restore(stored)
        columns = [stored.weights[name].numpy() for name in OF_BASELINE]
        names = stored.record.machines
        self.baselines_ = {name: Baseline(n, *rest) for (name, n), *rest in zip(names, *columns, strict=True)}


def _machines(episodes: Episodes) -> npt.NDArray[np.str_]:
    return np.full(len(episodes), FLEET) if episodes.groups is None else episodes.groups


def _baselines(statistics: Statistics, groups: npt.NDArray[np.str_]) -> dict[str, Baseline]:
    names, counts = np.unique(groups, return_counts=True)
    return {str(name): Baseline.of(statistics[groups == name]) for name in names[counts >= MIN_RECORDINGS]}
