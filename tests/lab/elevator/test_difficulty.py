"""The measure of difficulty holds whole installations out when it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import elevator_difficulty
from benchmarks.elevator_difficulty import best_single, boosting, measure


@pytest.fixture
def data() -> dict[str, Any]:
    """Eight installations, each with normal and faulty journeys; a feature that tells the installation only."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 30)
    labels = np.tile([0, 0, 1], 80)
    kind = np.where(labels == 1, "bump", "normal")
    features = np.stack([groups, rng.normal(size=240)], axis=1).astype(np.float32)
    return {"features": features, "labels": labels, "groups": groups, "kind": kind}


@pytest.mark.parametrize("classify", [best_single, boosting])
def test_grouped_folds_keep_installations_apart_for_every_classifier(data: dict[str, Any], classify: Any) -> None:
    seen = []

    def spy(features: Any, labels: Any, groups: Any, test: Any) -> Any:
        np.testing.assert_array_equal(groups, features[:, 0])
        seen.append((set(features[:, 0]), set(test[:, 0])))
        return classify(features, labels, groups, test)

    measure(data, "features", spy, grouped=True)
    assert len(seen) == 5
    assert all(not train & test for train, test in seen)
    assert set.union(*(test for _, test in seen)) == set(range(8))


def test_without_groups_journeys_are_mixed(data: dict[str, Any]) -> None:
    def spy(features: Any, labels: Any, groups: Any, test: Any) -> Any:
        assert groups is None
        assert set(features[:, 0]) == set(test[:, 0]) == set(range(8))
        return np.zeros(len(test), dtype=bool)

    measure(data, "features", spy, grouped=False)


def test_threshold_comes_from_grouped_inner_folds(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    predict, folds = elevator_difficulty.cross_val_predict, []

    def spy(model: Any, features: Any, labels: Any, *, groups: Any, cv: Any, method: str) -> Any:
        folds.extend(cv.split(features, labels, groups))
        return predict(model, features, labels, groups=groups, cv=cv, method=method)

    monkeypatch.setattr(elevator_difficulty, "cross_val_predict", spy)
    boosting(data["features"], data["labels"], data["groups"], data["features"])
    assert len(folds) == 3
    for train, test in folds:
        assert not set(data["groups"][train]) & set(data["groups"][test])
