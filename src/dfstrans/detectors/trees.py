"""The baseline: boosted trees on a few statistics per sensor, which ignore time and order.

scikit-learn's `HistGradientBoostingClassifier` trains the trees; they are stored as plain arrays for prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.ensemble import HistGradientBoostingClassifier

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler, check_finite
from dfstrans.detectors.base import DECISION, EpisodeClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.settings import DetectorSettings, Imbalance, ThresholdRule
from dfstrans.training.calibration import positive_weight
from dfstrans.training.evaluation import Labels, average_precision

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STATISTICS = ("present", "mean", "deviation", "lowest", "highest", *(f"quantile {q:g}" for q in QUANTILES), "movement")
Features = npt.NDArray[np.float64]


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
    for sensor, present in enumerate(there):
        x = values[sensor][present]
        if len(x):
            movement = np.abs(np.diff(x)).mean() if len(x) > 1 else 0.0
            found[sensor, 1:] = [x.mean(), x.std(), x.min(), x.max(), *np.quantile(x, QUANTILES), movement]
            if np.abs(x).max() > LARGEST_SCALED_VALUE:
                found[sensor] = np.inf
    return found


class Trees(NamedTuple):
    """Decision trees as arrays over all their nodes; a leaf points to itself.

    Shape:
        start is a scalar; first (tree,); the others (node,)
    """

    start: npt.NDArray[np.float64]  # the logit before any tree
    first: npt.NDArray[np.int64]  # the root of each tree
    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float64]
    missing_left: npt.NDArray[np.bool_]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]

    @classmethod
    def from_sklearn(cls, model: HistGradientBoostingClassifier) -> Trees:
        """Convert the trees of a fitted binary classifier."""
        nodes = [predictor.nodes for (predictor,) in model._predictors]
        first = np.cumsum([0, *(len(tree) for tree in nodes)])[:-1]
        joined = np.concatenate(nodes)
        offset = np.repeat(first, [len(tree) for tree in nodes])
        itself, leaf = np.arange(len(joined)), joined["is_leaf"].astype(bool)
        return cls(
            start=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(()),
            first=first,
            feature=joined["feature_idx"].astype(np.int64),
            threshold=joined["num_threshold"].astype(np.float64),
            missing_left=joined["missing_go_to_left"].astype(bool),
            left=np.where(leaf, itself, joined["left"] + offset),
            right=np.where(leaf, itself, joined["right"] + offset),
            value=joined["value"].astype(np.float64),
        )

    def stages(self, features: Features) -> Features:
        """Return the logit after each tree: (episode, feature) → (episode, tree)."""
        node = np.broadcast_to(self.first, (len(features), len(self.first)))
        while True:
            x = np.take_along_axis(features, self.feature[node], axis=1)
            left = np.where(np.isnan(x), self.missing_left[node], x <= self.threshold[node])
            below = np.where(left, self.left[node], self.right[node])
            if np.array_equal(below, node):  # all have reached a leaf
                staged: Features = self.start + self.value[node].cumsum(axis=1)
                return staged
            node = below

    def keep(self, n_trees: int) -> Trees:
        """Return the first `n_trees` trees."""
        end = self.first[n_trees] if n_trees < len(self.first) else len(self.feature)
        nodes: dict[str, Any] = {name: getattr(self, name)[:end] for name in self._fields[2:]}
        return Trees(start=self.start, first=self.first[:n_trees], **nodes)


TREES = BoostingSettings(n_sensors=1)  # argument defaults


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class BoostingClassifier(EpisodeClassifier):
    """Boosted trees on per-sensor statistics: the baseline that a network must beat to justify its cost.

    See the fields of `BoostingSettings` and `DecisionSettings` for the arguments. Trees handle missing sensors
    natively. Training is a single step, so there is nothing to resume.
    """

    estimator_name: ClassVar[str] = "boosting"
    network_kind = shape_kind = BoostingSettings

    trees: int = TREES.trees
    shrinkage: float = TREES.shrinkage
    leaves: int = TREES.leaves
    fewest_in_leaf: int = TREES.fewest_in_leaf
    imbalance: Imbalance = DECISION.imbalance
    validation_fraction: float = DECISION.validation_fraction
    threshold_rule: ThresholdRule = DECISION.threshold_rule
    threshold_value: float | None = None
    seed: int = DECISION.seed

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
        trees = Trees.from_sklearn(model)
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

    def _restore(self, weights: Weights) -> None:
        self.trees_ = Trees(**{name: weights[name].numpy() for name in Trees._fields})


def _best_stage(staged: Features, labels: Labels, weight: float) -> int:
    """Return the best number of trees in validation: by PR-AUC, then by loss, like the best epoch of a network."""
    both = 0 < labels.sum() < len(labels)
    weights = np.where(labels, weight, 1.0)
    losses = (weights * (np.logaddexp(0, staged.T) - labels * staged.T)).mean(axis=1)
    pr_auc = [average_precision(labels, logits) if both else 0.0 for logits in staged.T]
    return int(np.argmax(pr_auc - 1e-3 * losses)) + 1
