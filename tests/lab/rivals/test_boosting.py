from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from dfstrans import Episodes, load_episodes, save_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.lab.rivals.boosting import STATISTICS, BoostingClassifier, sensor_statistics
from dfstrans.model.forest import Forest
from tests.tiny import tiny_episodes


def test_statistics_are_those_of_the_present_values() -> None:
    values = np.array([[[0.0, 4.0, np.nan, 2.0], [np.nan] * 4], [[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]]])
    episodes = Episodes.from_arrays(values)
    scaler = SensorScaler(episodes.sensors, np.zeros(2), np.ones(2), np.zeros(2))
    found = sensor_statistics(episodes, scaler).reshape(2, 2, -1)
    named = dict(zip(STATISTICS, found[0, 0], strict=True))
    assert (named["present"], named["mean"], named["lowest"], named["highest"]) == (0.75, 2.0, 0.0, 4.0)
    assert (named["deviation"], named["quantile 0.5"], named["movement"]) == (pytest.approx(np.sqrt(8 / 3)), 2.0, 3.0)
    assert found[0, 1, 0] == 0
    assert np.isnan(found[0, 1, 1:]).all()
    assert dict(zip(STATISTICS, found[1, 1], strict=True))["movement"] == 1


def test_points_beyond_the_end_are_not_read() -> None:
    episodes = tiny_episodes()
    short = Episodes.from_arrays([x[:, :30] for x in np.asarray(episodes.values)])
    padded = Episodes.from_arrays(episodes.values, lengths=[30] * len(episodes))
    scaler = SensorScaler.fit(episodes)
    np.testing.assert_array_equal(sensor_statistics(short, scaler), sensor_statistics(padded, scaler))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_trees_predict_what_scikit_learn_predicts(missing: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    labels = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=300) > 0.5).astype(np.int8)
    x[rng.random(x.shape) < missing] = np.nan
    model = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=5, early_stopping=False).fit(x, labels)
    new = rng.normal(size=(200, 6))
    new[rng.random(new.shape) < 0.2] = np.nan
    staged = Forest.from_boosting(model).stages(new)
    for ours, theirs in zip(staged.T, model.staged_decision_function(new), strict=True):
        np.testing.assert_allclose(ours, theirs.ravel(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(Forest.from_boosting(model).keep(7).stages(new), staged[:, :7], rtol=0, atol=0)


def test_a_tree_that_could_not_split_is_a_leaf() -> None:
    detector = BoostingClassifier(trees=3, fewest_in_leaf=1000).fit(tiny_episodes())
    assert len(set(detector.decision_function(tiny_episodes()).tolist())) == 1


def test_a_fit_on_a_file_equals_a_fit_in_memory(tmp_path) -> None:  # type: ignore[no-untyped-def]
    save_episodes(tiny_episodes(), tmp_path / "episodes.h5")
    a, b = (
        BoostingClassifier(trees=5, fewest_in_leaf=3).fit(which)
        for which in (tiny_episodes(), load_episodes(tmp_path / "episodes.h5"))
    )
    np.testing.assert_array_equal(a.decision_function(tiny_episodes()), b.decision_function(tiny_episodes()))
