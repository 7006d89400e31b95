from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from dfstrans import DfstransError
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.lab.rivals import minirocket
from dfstrans.lab.rivals.minirocket import MiniRocketClassifier, whole_episodes
from tests.tiny import tiny_episodes


def test_without_aeon_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aeon", None)
    monkeypatch.setitem(sys.modules, "aeon.transformations.collection.convolution_based", None)
    with pytest.raises(DfstransError, match=r"expected the package aeon .* pip install 'dfstrans\[rivals\]'"):
        MiniRocketClassifier().fit(tiny_episodes())


def test_episodes_are_scaled_filled_and_padded_with_the_training_mean() -> None:
    train = Episodes.from_arrays([[[0.0, 1.0, 2.0, 4.0]]])
    episodes = Episodes.from_arrays([[[4.0, np.nan]], [[0.0, 1.0, 2.0]]])
    found = whole_episodes(episodes, SensorScaler.fit(train), 4)
    np.testing.assert_allclose(found[:, 0], [[1, 1, 0.4375, 0.4375], [0, 0.25, 0.5, 0.4375]])


def test_leave_one_out_scores_of_the_ridge_equal_refitting() -> None:
    """What the logit is made from, and nothing of scikit-learn's documentation promises with weights."""
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(15, 40)), rng.choice([-1.0, 1.0], 15), rng.uniform(1, 3, 15)
    ridge = RidgeCV([2.0], scoring="neg_mean_squared_error", store_cv_results=True).fit(x, y, sample_weight=weight)
    for row in range(15):
        rest = np.arange(15) != row
        alone = Ridge(2.0).fit(x[rest], y[rest], sample_weight=weight[rest])
        assert ridge.cv_results_[row, 0] == pytest.approx(alone.predict(x[[row]])[0], abs=1e-8)


def test_fit_restores_the_random_state_of_numpy() -> None:
    pytest.importorskip("aeon", reason="needs the extra rivals: pip install 'dfstrans[rivals]'")
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    MiniRocketClassifier(kernels=84).fit(tiny_episodes())
    assert np.random.random() == expected


def test_the_kernels_are_saved_as_arrays() -> None:
    pytest.importorskip("aeon", reason="needs the extra rivals: pip install 'dfstrans[rivals]'")
    fitted = MiniRocketClassifier(kernels=84).fit(tiny_episodes())
    assert set(fitted._weights()) == {*minirocket.KERNELS, "weight", "bias"}
    assert fitted._weights()["weight"].shape == (84,)
