"""Decision trees as plain arrays: trained by scikit-learn, stored and evaluated without it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Features = npt.NDArray[Any]


class Forest(NamedTuple):
    """Decision trees as arrays over all their nodes; a leaf points to itself.

    Shape:
        start is a scalar; first (tree,); the others (node,)
    """

    start: npt.NDArray[np.float64]  # the value before any tree
    first: npt.NDArray[np.int32]  # the root of each tree
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    missing_left: npt.NDArray[np.bool_]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]

    @classmethod
    def from_boosting(cls, model: Any) -> Forest:
        """Convert a fitted `HistGradientBoostingClassifier` of two classes; the sum of all values is the logit."""
        nodes = [predictor.nodes for (predictor,) in model._predictors]
        joined = np.concatenate(nodes)
        return cls._joined(
            [len(tree) for tree in nodes],
            leaf=joined["is_leaf"].astype(bool),
            left=joined["left"].astype(np.int32),
            right=joined["right"].astype(np.int32),
            start=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(()),
            feature=joined["feature_idx"].astype(np.int32),
            threshold=joined["num_threshold"].astype(np.float64),
            missing_left=joined["missing_go_to_left"].astype(bool),
            value=joined["value"].astype(np.float64),
        )

    @classmethod
    def from_votes(cls, model: Any) -> Forest:
        """Convert a fitted `ExtraTreesClassifier` of two classes; the sum of all values is the mean probability."""
        trees = [estimator.tree_ for estimator in model.estimators_]
        left, right, feature, threshold = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("children_left", "children_right", "feature", "threshold")
        )
        votes = np.concatenate([tree.value[:, 0, :] for tree in trees])
        return cls._joined(
            [tree.node_count for tree in trees],
            leaf=left < 0,
            left=left.astype(np.int32),
            right=right.astype(np.int32),
            start=np.zeros(()),
            feature=np.maximum(feature, 0).astype(np.int32),
            threshold=threshold,
            missing_left=np.zeros(len(left), dtype=bool),
            value=votes[:, 1] / votes.sum(axis=1) / len(trees),
        )

    @classmethod
    def _joined(
        cls,
        sizes: list[int],
        *,
        leaf: npt.NDArray[np.bool_],
        left: npt.NDArray[np.int32],
        right: npt.NDArray[np.int32],
        **nodes: Any,
    ) -> Forest:
        """Number the nodes of trees of these sizes consecutively."""
        first = np.cumsum([0, *sizes], dtype=np.int32)[:-1]
        itself, offset = np.arange(sum(sizes), dtype=np.int32), np.repeat(first, sizes)
        beside = {"left": np.where(leaf, itself, left + offset), "right": np.where(leaf, itself, right + offset)}
        return cls(first=first, **beside, **nodes)

    def stages(self, features: Features) -> npt.NDArray[np.float64]:
        """Return the sum of the values after each tree: (episode, feature) → (episode, tree)."""
        staged: npt.NDArray[np.float64] = self.start + self.value[self.leaves(features)].cumsum(axis=1)
        return staged

    def leaves(self, features: Features) -> npt.NDArray[np.int32]:
        """Return the number of the leaf that each episode reaches: (episode, feature) → (episode, tree)."""
        node = np.broadcast_to(self.first, (len(features), len(self.first)))
        while True:
            x = np.take_along_axis(features, self.feature[node], axis=1)
            left = np.where(np.isnan(x), self.missing_left[node], x <= self.threshold[node])
            below = np.where(left, self.left[node], self.right[node])
            if np.array_equal(below, node):  # all have reached a leaf
                return node
            node = below

    def vote_logits(self, features: Features) -> npt.NDArray[np.float64]:
        """Return the logit of the share of votes, as if half a tree more had voted for each class: (episode,)."""
        n_trees = len(self.first)
        votes = self.stages(features)[:, -1] * n_trees
        found: npt.NDArray[np.float64] = np.log((votes + 0.5) / (n_trees - votes + 0.5))
        return found

    def keep(self, n_trees: int) -> Forest:
        """Return the first `n_trees` trees."""
        end = self.first[n_trees] if n_trees < len(self.first) else len(self.feature)
        nodes: dict[str, Any] = {name: getattr(self, name)[:end] for name in self._fields[2:]}
        return Forest(start=self.start, first=self.first[:n_trees], **nodes)
