"""Boosted trees on a few statistics per sensor, which ignore time and order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.ensemble import HistGradientBoostingClassifier

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler, check_finite
from dfstrans.detectors.base import SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.model.forest import Features, Forest
from dfstrans.settings import DetectorSettings
from dfstrans.training.calibration import positive_weight
from dfstrans.training.evaluation import Labels, average_precision

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STATISTICS = ("present", "mean", "deviation", "lowest", "highest", *(f"quantile {q:g}" for q in QUANTILES), "movement")


class BoostingSettings(DetectorSettings):
    """Number and size of the trees; the validation part determines how many are kept."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    trees: int = Field(default=300, ge=1, description="Maximum number of trees.")
    shrinkage: float = Field(default=0.05, gt=0, description="Learning rate: the weight of each tree.")
    leaves: int = Field(default=15, ge=2, description="Maximum leaves of a tree.")
    fewest_in_leaf: int = Field(default=10, ge=1, description="Minimum episodes per leaf.")


def sensor_statistics(episodes: Episodes, scaler: SensorScaler) -> Features:
    """Return statistics of each sensor, NaN if it has no values; only one episode is in memory at a time.

    An episode with an implausibly large value gets infinite statistics.

    Shape:
        (n_episodes, n_sensors · statistics)
    """
    rows = np.empty((len(episodes), episodes.n_sensors * len(STATISTICS)))
    for row, episode in enumerate(episodes):
        check_finite(episode.values, episode.id, episodes.sensors)
        rows[row] = _statistics(scaler.transform(episode.values).astype(np.float64)).ravel()
    return rows


def _statistics(values: Features) -> Features:
    """Return the statistics of one episode: (n_sensors, n_timepoints) → (n_sensors, statistics)."""
    there = ~np.isnan(values)
    found = np.full((len(values), len(STATISTICS)), np.nan)
    found[:, 0] = there.mean(axis=1)
    found[there.all(axis=1), 1:] = _of_complete(values[there.all(axis=1)])
    for sensor in np.flatnonzero(there.any(axis=1) & ~there.all(axis=1)):
        found[sensor, 1:] = _of_complete(values[sensor, there[sensor]][None])[0]
    found[np.nanmax(np.abs(values), axis=1, initial=0) > LARGEST_SCALED_VALUE] = np.inf
    return found


def _of_complete(x: Features) -> Features:
    """Return all statistics but the first, for rows without a gap: (sensor, point) → (sensor, statistics - 1)."""
    movement = np.abs(np.diff(x)).mean(axis=1) if x.shape[1] > 1 else np.zeros(len(x))
    columns = [
        x.mean(axis=1),
        x.std(axis=1),
        x.min(axis=1),
        x.max(axis=1),
        *np.quantile(x, QUANTILES, axis=1),
        movement,
    ]
    return np.stack(columns, axis=1)


TREES = BoostingSettings(n_sensors=1)  # argument defaults


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class BoostingClassifier(SingleStepClassifier):
    """Boosted trees on per-sensor statistics: what a network must beat to justify its cost.

    See the fields of `BoostingSettings` and `DecisionSettings` for the arguments. Trees handle missing sensors
    natively.
    """

    estimator_name: ClassVar[str] = "boosting"
    network_kind = shape_kind = BoostingSettings

    trees: int = TREES.trees
    shrinkage: float = TREES.shrinkage
    leaves: int = TREES.leaves
    fewest_in_leaf: int = TREES.fewest_in_leaf

    def _train(self, task: TrainingTask) -> TrainingResult:
        settings, labels = task.network, task.train.require_labels()
        weight = positive_weight(labels, task.training)
        model = HistGradientBoostingClassifier(
            max_iter=settings.trees,
            learning_rate=settings.shrinkage,
            max_leaf_nodes=settings.leaves,
            min_samples_leaf=settings.fewest_in_leaf,
            early_stopping=False,
            random_state=task.training.seed,
        )
        model.fit(sensor_statistics(task.train, task.scaler), labels, sample_weight=np.where(labels, weight, 1.0))
        trees = Forest.from_boosting(model)
        staged = trees.stages(sensor_statistics(task.validation, task.scaler))
        best = _best_stage(staged, task.validation.require_labels(), weight)
        self.trees_ = trees.keep(best)
        return TrainingResult(weight, best)

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        features = sensor_statistics(episodes, self.scaler_)
        absurd = np.isinf(features).any(axis=1)
        return np.where(absurd, np.nan, self.trees_.stages(features)[:, -1])

    def _weights(self) -> Weights:
        return {name: torch.from_numpy(np.array(array)) for name, array in self.trees_._asdict().items()}

    def _restore(self, stored: StoredModel) -> None:
        self.trees_ = Forest(**{name: stored.weights[name].numpy() for name in Forest._fields})


def _best_stage(staged: Features, labels: Labels, weight: float) -> int:
    """Return the best number of trees in validation: by PR-AUC, then by loss, like the best epoch of a network."""
    both = 0 < labels.sum() < len(labels)
    weights = np.where(labels, weight, 1.0)
    losses = (weights * (np.logaddexp(0, staged.T) - labels * staged.T)).mean(axis=1)
    pr_auc = [average_precision(labels, logits) if both else 0.0 for logits in staged.T]
    return int(np.argmax(pr_auc - 1e-3 * losses)) + 1
