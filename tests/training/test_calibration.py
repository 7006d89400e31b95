"""Threshold and calibration: by hand, by property, and sane when the validation part is poor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.metrics import f1_score

from dfstrans.settings import TrainingSettings
from dfstrans.training.calibration import (
    Calibration,
    Threshold,
    calibrate,
    choose_threshold,
    expected_f1_threshold,
    guessing_loss,
    positive_weight,
)
from dfstrans.training.evaluation import best_f1

F1 = TrainingSettings(threshold_rule="f1")


def false_alarms(rate: float) -> TrainingSettings:
    return TrainingSettings(threshold_rule="false-alarm-rate", threshold_value=rate)


# ---- threshold ----------------------------------------------------------------------------------------------------


def test_f1_threshold_worked_by_hand() -> None:
    # called are the three of 0.8: 2.4 of them are anomalous, of 3 in all, so F1 is 2 · 2.4 / (3 + 3) = 0.8
    labels, probabilities = np.int8([0, 0, 0, 1, 1, 1]), np.array([0.2, 0.2, 0.2, 0.8, 0.8, 0.8])
    threshold = choose_threshold(labels, probabilities, F1)
    assert threshold.value == pytest.approx(0.4)
    assert threshold.rule == "f1"
    assert threshold.note == "F1 1.000 on 6 validation episodes"


@pytest.mark.parametrize("score", [0.1, 0.3, 0.7, 0.9, 1 / 3])
def test_equal_scores_are_all_called_anomalous(score: float) -> None:
    labels = np.int8([0, 0, 0, 1, 1, 1])
    assert choose_threshold(labels, np.full(6, score), F1).value == pytest.approx(score / (1 + score))


@given(st.lists(st.floats(0.001, 0.999), min_size=6, max_size=40))
@settings(max_examples=100, deadline=None)
def test_no_other_threshold_has_a_higher_expected_f1(probabilities: list[float]) -> None:
    scores = np.array(probabilities)

    def expected(threshold: float) -> float:
        called = scores >= threshold
        return float(2 * scores[called].sum() / (called.sum() + scores.sum()))

    value = expected_f1_threshold(scores)
    assert expected(value) == pytest.approx(max(expected(one) for one in scores))
    assert value == pytest.approx(expected(value) / 2)


def test_labels_decide_where_probabilities_are_nearly_equal() -> None:
    labels = np.int8([0] * 6 + [1] * 5)
    alike = np.linspace(0.44, 0.46, 11)
    assert expected_f1_threshold(alike) < alike.min()  # it would call them all
    assert alike[5] < choose_threshold(labels, alike, F1).value <= alike[6]


def test_chosen_threshold_beats_the_single_best_one() -> None:
    rng = np.random.default_rng(1)

    def sample(n_anomalous: int, n_normal: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.int8([1] * n_anomalous + [0] * n_normal)
        logits = 2 * (rng.normal(size=len(labels)) + 2 * labels - 1)  # of classes that weigh the same
        return labels, calibrate(labels, logits, n_normal / n_anomalous).probabilities(logits)

    unseen_labels, unseen = sample(6000, 14000)
    parts = [sample(15, 35) for _ in range(20)]
    steady = np.array([choose_threshold(labels, scores, F1).value for labels, scores in parts])
    single = np.array([best_f1(labels, scores)[1] for labels, scores in parts])
    assert steady.std() < 0.8 * single.std()

    def mean_f1(thresholds: np.ndarray) -> float:
        return float(np.mean([f1_score(unseen_labels, unseen >= value) for value in thresholds]))

    assert mean_f1(steady) > mean_f1(single) + 0.005


@pytest.mark.parametrize(
    ("n_anomalous", "n_normal", "rule"),
    [(0, 9, F1), (1, 9, F1), (2, 9, F1), (9, 2, F1), (9, 0, F1), (5, 2, false_alarms(0.1))],
)
def test_a_rule_falls_back_to_one_half_with_too_few_episodes_of_a_class(
    n_anomalous: int, n_normal: int, rule: TrainingSettings
) -> None:
    labels = np.int8([1] * n_anomalous + [0] * n_normal)
    threshold = choose_threshold(labels, np.linspace(0.9, 0.99, len(labels)), rule)
    assert (threshold.value, threshold.rule) == (0.5, rule.threshold_rule)
    assert f"there are {n_anomalous} anomalous and {n_normal} normal" in threshold.note


def test_false_alarm_threshold_worked_by_hand() -> None:
    # 10 normal episodes: 0.2 allows two of them, 0.9 and 0.8, and must refuse 0.7
    normal = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    labels = np.zeros(10, dtype=np.int8)
    threshold = choose_threshold(labels, normal, false_alarms(0.2))
    assert threshold.value == pytest.approx(0.75)
    assert "0.2000 on 10 normal" in threshold.note
    assert choose_threshold(labels, normal, false_alarms(0.29)).value == pytest.approx(0.75)
    assert choose_threshold(labels, normal, false_alarms(0.0)).value == pytest.approx(0.95)
    assert choose_threshold(labels, normal, false_alarms(1.0)).value == 0


def test_a_rate_too_low_for_the_validation_part_allows_no_false_alarm() -> None:
    threshold = choose_threshold(np.zeros(10, dtype=np.int8), np.linspace(0, 0.9, 10), false_alarms(0.01))
    assert threshold.value == pytest.approx(0.95)
    assert "measuring that rate takes at least 100 of them" in threshold.note
    assert choose_threshold(np.zeros(10, dtype=np.int8), np.linspace(0, 0.9, 10), false_alarms(5e-324)).value == 0.95


probability = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0, 1 - 2.0**-53, 1 - 2.0**-52, 0.5 + 2.0**-53])
)


@given(
    st.lists(probability, min_size=3, max_size=30),
    st.lists(probability, max_size=10),
    st.one_of(st.integers(0, 1000).map(lambda n: n / 1000), st.sampled_from([1e-9, 1 / 3, 2 / 3, 0.1 + 0.2])),
)
@settings(max_examples=100, deadline=None)
def test_false_alarm_threshold_is_the_lowest_that_keeps_the_rate(
    normal: list[float], anomalous: list[float], rate: float
) -> None:
    probabilities = np.array(normal + anomalous)
    labels = np.int8([0] * len(normal) + [1] * len(anomalous))
    value = choose_threshold(labels, probabilities, false_alarms(rate)).value
    scores = probabilities[labels == 0]
    assert np.mean(scores >= value) <= rate + 1e-9
    quiet = scores[scores < value]
    if len(quiet):  # calling the next normal episode anomalous too would be one too many
        assert np.mean(scores >= quiet.max()) > rate


def test_anomalous_episodes_do_not_move_the_false_alarm_threshold() -> None:
    normal = np.linspace(0, 0.9, 10)
    alone = choose_threshold(np.zeros(10, dtype=np.int8), normal, false_alarms(0.1))
    labels = np.int8([0] * 10 + [1] * 4)
    with_others = choose_threshold(labels, np.concatenate([normal, [0.01, 0.85, 0.86, 1.0]]), false_alarms(0.1))
    assert with_others == alone


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_a_fixed_threshold_is_taken_as_given_whatever_the_validation_part(value: float) -> None:
    rule = TrainingSettings(threshold_rule="fixed", threshold_value=value)
    for labels in (np.int8([]), np.int8([0, 0]), np.int8([0, 1, 0, 1, 0, 1])):
        chosen = choose_threshold(labels, np.linspace(0, 1, len(labels)), rule)
        assert chosen == Threshold(value=value, rule="fixed", note="given")


# ---- calibration --------------------------------------------------------------------------------------------------


def drawn(n: int = 20_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """True logits, and labels drawn with exactly the probability they say."""
    rng = np.random.default_rng(seed)
    true = rng.normal(-0.5, 2, n)
    return (rng.random(n) < expit(true)).astype(np.int8), true


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("weight", [1.0, 8.0])
def test_a_known_temperature_and_weight_are_undone(temperature: float, weight: float) -> None:
    labels, true = drawn()
    calibration = calibrate(labels, temperature * true + math.log(weight), weight)
    assert calibration.temperature == pytest.approx(temperature, rel=0.05)
    assert calibration.shift == pytest.approx(math.log(weight))
    probabilities = calibration.probabilities(temperature * true + math.log(weight))
    assert_allclose(probabilities, expit(true), atol=0.02)
    assert probabilities.mean() == pytest.approx(labels.mean(), abs=0.01)


def test_the_temperature_found_is_the_likeliest_on_a_grid() -> None:
    labels, true = drawn(300, seed=1)
    logits = 2 * true

    def likelihood(temperature: float) -> float:
        p = expit(logits / temperature)
        return float(np.sum(np.log(np.where(labels == 1, p, 1 - p))))

    found = calibrate(labels, logits, 1.0).temperature
    assert likelihood(found) >= max(likelihood(t) for t in np.geomspace(0.25, 10, 200)) - 1e-3


def test_probabilities_worked_by_hand_and_in_the_order_of_the_logits() -> None:
    calibration = Calibration(temperature=2.0, shift=1.0)
    assert_allclose(calibration.probabilities(np.array([1.0, 1 + 2 * math.log(3), -1e4, 1e4])), [0.5, 0.75, 0, 1])
    assert calibration.probabilities(np.float32([0.5])).dtype == np.float64


@pytest.mark.parametrize(("n", "size"), [(5, 4.0), (50, 4.0), (500, 4.0), (5, 300.0)])
def test_separable_classes_are_calibrated_to_platt_s_targets(n: int, size: float) -> None:
    labels = np.repeat(np.int8([0, 1]), n)
    calibration = calibrate(labels, np.where(labels == 1, size, -size), 1.0)
    expected = [(n + 1) / (n + 2), 1 / (n + 2)]
    assert calibration.probabilities(np.array([size, -size])) == pytest.approx(expected, abs=1e-3)
    assert "allow for unseen errors" in calibration.note


def test_one_error_is_enough_for_maximum_likelihood() -> None:
    labels = np.int8([0] * 5 + [1] * 5)
    logits = np.where(labels == 1, 4.0, -4.0)
    logits[0] = 5.0
    calibration = calibrate(labels, logits, 1.0)
    assert "allow for unseen errors" not in calibration.note
    assert 0.25 < calibration.temperature < 10


@pytest.mark.parametrize(("n_anomalous", "n_normal"), [(0, 9), (2, 9), (9, 2)])
def test_too_few_episodes_fit_no_temperature_but_keep_the_shift(n_anomalous: int, n_normal: int) -> None:
    labels = np.int8([1] * n_anomalous + [0] * n_normal)
    calibration = calibrate(labels, np.linspace(-2, 2, len(labels)), 4.0)
    assert calibration.temperature == 1
    assert calibration.shift == pytest.approx(math.log(4))
    assert calibration.note.startswith(
        "logits lowered by 1.39, since training raised the odds of an anomaly by a factor of 4; no temperature fitted: "
        f"the validation part has {n_anomalous} anomalous and {n_normal}"
    )
    unweighted = calibrate(labels, np.linspace(-2, 2, len(labels)), 1.0)
    assert unweighted.note.startswith("no temperature fitted")


def test_the_note_of_a_calibration_has_the_likelihood_before_and_after() -> None:
    labels, true = drawn(500)
    note = calibrate(labels, 4 * true, 1.0).note
    assert note.startswith(f"temperature fitted on 500 validation episodes ({labels.sum()} anomalous)")
    before, after = (float(part.split()[-1]) for part in note.replace(" before", "").replace(" after", "").split(","))
    assert after < before
    assert Calibration().note == "not calibrated"


@pytest.mark.parametrize(("n_anomalous", "weight"), [(5, 1.0), (2, 4.0), (1, 20.0)])
def test_guessing_loss_is_that_of_the_best_constant_probability(n_anomalous: int, weight: float) -> None:
    labels = np.repeat(np.array([1, 0], dtype=np.int8), [n_anomalous, 10 - n_anomalous])
    p = np.linspace(0.001, 0.999, 999)[:, None]
    costs = -(labels * weight * np.log(p) + (1 - labels) * np.log(1 - p)).mean(axis=1)
    assert guessing_loss(labels, weight) == pytest.approx(costs.min(), abs=1e-4)


@pytest.mark.parametrize(
    ("normal", "anomalous", "weight"), [(30, 10, 3.0), (10, 30, 1.0), (1000, 2, 20.0), (5, 5, 1.0)]
)
def test_the_positive_weight_balances_the_classes_within_bounds(normal: int, anomalous: int, weight: float) -> None:
    labels = np.repeat(np.array([0, 1], dtype=np.int8), [normal, anomalous])
    assert positive_weight(labels, TrainingSettings()) == weight
    assert positive_weight(labels, TrainingSettings(imbalance="none")) == 1
