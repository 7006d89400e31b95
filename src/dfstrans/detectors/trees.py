"""The floor: boosted trees on a few statistics of each sensor, which see no moment and no order of moments.

TrainingResult by scikit-learn's `HistGradientBoostingClassifier`; kept as plain arrays, from which a few lines predict.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.ensemble import HistGradientBoostingClassifier

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler, check_finite
from dfstrans.detectors.arguments import arguments_from_settings
from dfstrans.detectors.base import EpisodeClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.settings import Settings
from dfstrans.training.calibration import positive_weight
from dfstrans.training.evaluation import Labels, average_precision

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STATISTICS = ("present", "mean", "deviation", "lowest", "highest", *(f"quantile {q:g}" for q in QUANTILES), "movement")
Features = npt.NDArray[np.float64]


class BoostingSettings(Settings):
    """How many trees of which size; how many of them are kept is chosen on the validation part."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    trees: int = Field(default=300, ge=1, description="Most trees.")
    shrinkage: float = Field(default=0.05, gt=0, description="How far each tree goes.")
    leaves: int = Field(default=15, ge=2, description="Most leaves of a tree.")
    fewest_in_leaf: int = Field(default=10, ge=1, description="Fewest episodes of a leaf.")


def sensor_statistics(episodes: Episodes, scaler: SensorScaler) -> Features:
    """Statistics of each sensor's values that are there, NaN where there are none; one episode at a time is in memory.

    An episode with a value beyond all measure gets an infinite one.

    Shape:
        (n_episodes, n_sensors · statistics)
    """
    rows = np.empty((len(episodes), episodes.n_sensors * len(STATISTICS)))
    for row, episode in enumerate(episodes):
        check_finite(episode.values, episode.id, episodes.sensors)
        rows[row] = _statistics(scaler.transform(episode.values).astype(np.float64)).ravel()
    return rows


def _statistics(values: Features) -> Features:
    """Of one episode: (n_sensors, n_timepoints) → (n_sensors, statistics)."""
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
    """Decision trees as arrays over the nodes of all of them; a leaf leads to itself.

    Shape:
        first (tree,); the others (node,), but for the start, which is a scalar
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
        """The trees of a fitted model of two classes."""
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
        """The logit after each tree: (episode, feature) → (episode, tree)."""
        node = np.broadcast_to(self.first, (len(features), len(self.first)))
        while True:
            x = np.take_along_axis(features, self.feature[node], axis=1)
            left = np.where(np.isnan(x), self.missing_left[node], x <= self.threshold[node])
            below = np.where(left, self.left[node], self.right[node])
            if np.array_equal(below, node):  # all have come to a leaf
                staged: Features = self.start + self.value[node].cumsum(axis=1)
                return staged
            node = below

    def keep(self, n_trees: int) -> Trees:
        """The first trees."""
        end = self.first[n_trees] if n_trees < len(self.first) else len(self.feature)
        nodes: dict[str, Any] = {name: getattr(self, name)[:end] for name in self._fields[2:]}
        return Trees(start=self.start, first=self.first[:n_trees], **nodes)


@arguments_from_settings(shrinkage=0.05)
class BoostingClassifier(EpisodeClassifier):
    """Boosted trees on per-sensor statistics: what a detector must beat to be worth its trouble.

    Its arguments are the fields of `BoostingSettings` and `DecisionSettings`. A sensor that is missing stays missing,
    which the trees know how to take. It learns in one go: there is nothing to resume.
    """

    estimator_name: ClassVar[str] = "boosting"
    network_kind: ClassVar[type[Settings]] = BoostingSettings

    def _learn(self, lesson: TrainingTask) -> TrainingResult:
        settings, labels = lesson.network, lesson.train.require_labels()
        weight = positive_weight(labels, lesson.training)
        model = HistGradientBoostingClassifier(
            max_iter=settings.trees,
            learning_rate=settings.shrinkage,
            max_leaf_nodes=settings.leaves,
            min_samples_leaf=settings.fewest_in_leaf,
            early_stopping=False,
            random_state=lesson.training.seed,
        )
        model.fit(sensor_statistics(lesson.train, lesson.scaler), labels, sample_weight=np.where(labels, weight, 1.0))
        trees = Trees.from_sklearn(model)
        staged = trees.stages(sensor_statistics(lesson.validation, lesson.scaler))
        best = _best_stage(staged, lesson.validation.require_labels(), weight)
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
    """How many trees do best on validation: by PR-AUC less a thousandth of the loss, as an epoch of a network."""
    both = 0 < labels.sum() < len(labels)
    weights = np.where(labels, weight, 1.0)
    losses = (weights * (np.logaddexp(0, staged.T) - labels * staged.T)).mean(axis=1)
    pr_auc = [average_precision(labels, logits) if both else 0.0 for logits in staged.T]
    return int(np.argmax(pr_auc - 1e-3 * losses)) + 1
