"""What every estimator of the package promises, in the spirit of `check_estimator`, which skips 3-D input.

A new estimator joins by adding its smallest settings to `SETTINGS`.
"""

from __future__ import annotations

import dataclasses
import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from dfstrans import DfstransError, Diagnoser, Episodes
from dfstrans.lab.compare.variants import kind_of
from tests.tiny import TINY, tiny_episodes

QUICK = {"epochs": 1, "batch_size": 8, "precision": "32"}
SETTINGS: dict[str, dict[str, Any]] = {
    "dfstrans": TINY,
    "inceptiontime": {**QUICK, "kernels": (3, 5, 7)},
    "tapnet": {**QUICK, "n_timepoints": 48},
    "mlstm-fcn": QUICK,
    "mh1dcnn-lstm": {**QUICK, "segment_length": 16, "filters": 4},
    "minirocket": {"kernels": 84, "n_timepoints": 48},
    "trees": {"trees": 10, "segment_length": 16},
    "boosting": {"trees": 10, "fewest_in_leaf": 3},
    "extra-trees": {"trees": 10},
    "extra-trees-machine": {"trees": 10},
    "leakage": {},
}
# a setting of each that cannot be, and its value
IMPOSSIBLE = {
    "minirocket": ("kernels", 3),
    "trees": ("trees", 0),
    "extra-trees": ("trees", 0),
    "extra-trees-machine": ("trees", 0),
    "boosting": ("leaves", 1),
    "inceptiontime": ("kernels", (2, 4, 6)),
    "leakage": ("seed", -1),
}
EPISODES = tiny_episodes()
X, Y = np.asarray(EPISODES.values), EPISODES.require_labels()


@pytest.fixture(scope="module", params=list(SETTINGS))
def make(request: pytest.FixtureRequest) -> Any:
    if request.param == "minirocket":
        pytest.importorskip("aeon", reason="needs the extra rivals: pip install 'dfstrans[rivals]'")
    return partial(kind_of(request.param).from_settings, **SETTINGS[request.param])


def quick(estimator: Any) -> Any:
    """With the fewest epochs, where there are epochs."""
    return estimator.set_params(epochs=1) if "epochs" in estimator.get_params() else estimator


@pytest.fixture(scope="module")
def fitted(make: Any) -> Any:
    return make().fit(EPISODES)


def test_the_constructor_only_stores_its_arguments(make: Any) -> None:
    estimator = make()
    for name in inspect.signature(type(estimator)).parameters:
        assert hasattr(estimator, name)
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_bad_settings_are_refused_by_fit_and_not_by_the_constructor(make: Any) -> None:
    estimator = make()
    name, value = IMPOSSIBLE.get(estimator.estimator_name, ("learning_rate", -1.0))
    estimator.set_params(**{estimator.parameter_name(name): value})
    with pytest.raises(DfstransError, match=name):
        estimator.fit(EPISODES)


def test_clone_gives_an_unfitted_estimator_with_the_same_settings(fitted: Any) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError, match="call fit"):
        copy.predict(EPISODES)


def test_fit_returns_self_and_forgets_the_earlier_fit(make: Any) -> None:
    estimator = make()
    assert estimator.fit(tiny_episodes(seed=5)) is estimator
    again = estimator.fit(EPISODES)
    np.testing.assert_array_equal(again.decision_function(EPISODES), make().fit(EPISODES).decision_function(EPISODES))


def test_arrays_lists_and_episodes_are_the_same_input(fitted: Any, make: Any) -> None:
    expected = fitted.decision_function(EPISODES)
    np.testing.assert_array_equal(make().fit(X, Y).decision_function(X), expected)
    np.testing.assert_array_equal(make().fit(list(X), Y.tolist()).decision_function(list(X)), expected)


def test_a_sensor_that_was_constant_in_training_is_ignored(make: Any) -> None:
    still, moving = X.copy(), X.copy()
    still[:, 1] = 7
    moving[:, 1] = 1e6 * X[:, 1]
    estimator = make().fit(still, Y)
    np.testing.assert_array_equal(estimator.decision_function(moving), estimator.decision_function(still))


def test_outputs_have_the_promised_shapes_and_agree_with_each_other(fitted: Any) -> None:
    n = len(EPISODES)
    probabilities = fitted.predict_proba(EPISODES)
    assert probabilities.shape == (n, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert fitted.decision_function(EPISODES).shape == (n,)
    by_logit = probabilities[np.argsort(fitted.decision_function(EPISODES)), 1]
    assert (np.diff(by_logit) >= 0).all()
    np.testing.assert_array_equal(fitted.predict(EPISODES), probabilities[:, 1] >= fitted.threshold_.value)
    assert fitted.score(X, Y) == fitted.score(EPISODES) == np.mean(fitted.predict(X) == Y)
    assert is_classifier(fitted)
    assert fitted.classes_.tolist() == [0, 1]


def test_a_score_does_not_depend_on_batch_mates_order_or_padding(fitted: Any) -> None:
    short = Episodes.from_arrays([x[:, : 30 + i] for i, x in enumerate(X[:10])])
    together = fitted.decision_function(short)
    alone = np.concatenate([fitted.decision_function(short[i]) for i in range(len(short))])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    order = np.random.default_rng(0).permutation(10)
    np.testing.assert_allclose(fitted.decision_function(short[order]), together[order], atol=1e-5)
    padded = np.concatenate([np.asarray(short.values), np.full((10, 3, 70), 1e6)], axis=2)
    garbage = Episodes.from_arrays(padded, lengths=short.lengths)
    np.testing.assert_allclose(fitted.decision_function(garbage), together, atol=1e-5)


def test_no_episodes_give_no_scores(fitted: Any) -> None:
    assert fitted.decision_function(EPISODES[np.array([], dtype=int)]).shape == (0,)


def test_missing_values_are_allowed(make: Any) -> None:
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    holes[3, 1] = np.nan  # a whole sensor of one episode
    assert np.isfinite(make().fit(holes, Y).decision_function(holes)).all()


def test_episodes_may_have_different_lengths(make: Any) -> None:
    lengths = np.random.default_rng(0).integers(20, 49, len(X))
    series = [x[:, :length] for x, length in zip(X, lengths, strict=True)]
    assert np.isfinite(make().fit(series, Y).decision_function(series)).all()


def test_it_works_in_cross_validation_and_grid_search(make: Any) -> None:
    assert cross_val_score(quick(make()), X, Y, cv=2, scoring="average_precision").shape == (2,)
    assert cross_val_score(quick(make()), EPISODES, Y, cv=2).shape == (2,)
    search = GridSearchCV(quick(make()), {"seed": [0, 1]}, cv=2, scoring="f1").fit(X, Y)
    assert search.best_params_["seed"] in (0, 1)


def test_a_saved_estimator_loads_with_the_same_settings_and_scores(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(EPISODES), fitted.decision_function(EPISODES))
    np.testing.assert_array_equal(loaded.predict(EPISODES), fitted.predict(EPISODES))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.metrics_ == fitted.metrics_


def test_an_unfitted_estimator_cannot_be_saved(make: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        make().save(tmp_path / "model")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[0], Y, "expected values of shape"),
        (X, Y[:5], "expected 36 labels, got 5"),
        (X, np.zeros(len(X)), "at least two normal and two anomalous"),
        (X, np.where(Y, 2, 0), "expected labels 0 .*, got 2"),
        (X, None, "expected labelled episodes"),
        (np.full(X.shape, "text"), Y, "expected numbers"),
        (np.swapaxes(X, 1, 2), Y, "looks transposed"),
        (np.where(np.arange(3)[:, None] == 1, np.nan, X), Y, "got none of: sensor_2"),
        (np.where(X.max() == X, np.inf, X), Y, "infinite values in episode"),
    ],
)
def test_bad_input_to_fit_is_refused(make: Any, x: Any, y: Any, message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        make().fit(x, y)


def test_episodes_too_long_for_the_encoding_are_refused() -> None:
    with pytest.raises(DfstransError, match="no longer faithful"):
        Diagnoser.from_settings(**TINY).fit(np.tile(X, (1, 1, 4)), Y)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mlstm-fcn", "expected episodes of at least 14 points for mlstm-fcn, got 10"),
        ("tapnet", "n_timepoints to be a whole number of at least 14"),
        ("mh1dcnn-lstm", "at least 16 points, the length of a segment, got 10"),
    ],
)
def test_episodes_too_short_for_a_rival_are_refused(name: str, message: str) -> None:
    settings = {**SETTINGS[name], **({"n_timepoints": None} if name == "tapnet" else {})}
    with pytest.raises(DfstransError, match=message):
        kind_of(name).from_settings(**settings).fit(X[:, :, :10], Y)


def test_sensors_are_matched_by_name(fitted: Any) -> None:
    shuffled = EPISODES.select_sensors(["S3", "S1", "S2"])
    np.testing.assert_array_equal(fitted.decision_function(shuffled), fitted.decision_function(EPISODES))


def test_implausibly_large_values_are_refused(fitted: Any) -> None:
    absurd = X.copy()
    absurd[2, 0, 5] = 3e38
    with pytest.raises(DfstransError, match="far outside any range in: episode_2"):
        fitted.predict(absurd)


def test_another_sampling_rate_gets_a_warning(fitted: Any) -> None:
    slower = dataclasses.replace(EPISODES, interval=0.1)
    with pytest.warns(UserWarning, match=r"0\.1 s, in training it was 0\.01 s"):
        fitted.predict(slower)


def test_sampling_rates_are_compared_across_units(make: Any) -> None:
    fitted = quick(make()).fit(dataclasses.replace(EPISODES, interval=0.5, time_unit="s"))
    fitted.predict(dataclasses.replace(EPISODES, interval=500, time_unit="ms"))
    with pytest.warns(UserWarning, match=r"0\.5 ms, in training it was 0\.5 s"):
        fitted.predict(dataclasses.replace(EPISODES, interval=0.5, time_unit="ms"))


def test_other_units_than_in_training_get_a_warning(make: Any) -> None:
    fitted = quick(make()).fit(dataclasses.replace(EPISODES, units=("V", "", "A")))
    fitted.predict(dataclasses.replace(EPISODES, units=("V", "bar", "")))  # nothing that is known differs
    with pytest.warns(UserWarning, match=r"units differ.*: S1 in mV \(training: V\)"):
        fitted.predict(dataclasses.replace(EPISODES, units=("mV", "", "A")))


def test_a_group_is_not_on_both_sides_of_the_validation_split(make: Any) -> None:
    groups = np.arange(len(EPISODES)) % 6
    grouped = Episodes.from_arrays(X, Y, groups=groups)
    detector = quick(make()).fit(grouped)
    assert detector.data_.validation_episodes % 6 == 0  # whole groups of six


def test_one_episode_beyond_full_batches_of_one_segment_trains() -> None:
    Diagnoser.from_settings(**{**TINY, "segment_length": 12, "epochs": 1}).fit(X[:33, :, :12], Y[:33])


def test_a_missing_sensor_is_named(fitted: Any) -> None:
    with pytest.raises(DfstransError, match=r"expected 3 sensors, as in fit, got 2 \(S1, S3\); missing: S2; rename"):
        fitted.predict(EPISODES.select_sensors(["S1", "S3"]))


def test_unknown_sensors_are_ignored_with_a_warning(fitted: Any) -> None:
    more = Episodes.from_arrays(np.concatenate([X, X[:, :1]], axis=1), sensors=["S1", "S2", "S3", "extra"])
    with pytest.warns(UserWarning, match="unknown to the model: extra"):
        scores = fitted.decision_function(more)
    np.testing.assert_array_equal(scores, fitted.decision_function(EPISODES))


def test_a_wrong_number_of_unnamed_sensors_is_refused(fitted: Any) -> None:
    with pytest.raises(DfstransError, match="expected 3 sensors, as in fit, got 2"):
        fitted.predict(X[:, :2])
    with pytest.raises(DfstransError, match="is the array transposed"):
        fitted.predict(np.swapaxes(X, 1, 2))


@pytest.mark.filterwarnings("always:no values of")
def test_sensor_without_any_value_is_warned_of_once_per_call(tiny_model: Path) -> None:
    detector = Diagnoser.load(tiny_model)
    values = X.copy()
    values[:, 1] = np.nan
    silent = dataclasses.replace(EPISODES, values=values)
    calls = (detector.predict_proba, detector.predict, detector.evaluate, lambda x: list(detector.diagnose(x)))
    for call in calls:
        with pytest.warns(UserWarning, match="no values of S2 in these recordings") as found:
            call(silent)
        assert len([one for one in found if "no values of" in str(one.message)]) == 1
