"""Figures of detection quality: against scikit-learn and against loops."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from dfstrans.training.evaluation import best_f1, check_against_chance, evaluate_probabilities, rank_sum_chance

cases = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20)), min_size=1, max_size=40)


def arrays(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([label for label, _ in rows], dtype=np.int8), np.array([score for _, score in rows]) / 20


@given(cases, st.integers(0, 21))
@settings(max_examples=40, deadline=None)
def test_metrics_equal_those_of_scikit_learn(rows: list[tuple[int, int]], step: int) -> None:
    labels, scores = arrays(rows)
    threshold = step / 20
    found = evaluate_probabilities(labels, scores, threshold)
    called = (scores >= threshold).astype(int)
    assert found.precision == pytest.approx(metrics.precision_score(labels, called, zero_division=0))
    if labels.any():
        assert found.recall == pytest.approx(metrics.recall_score(labels, called, zero_division=0))
        assert found.f1 == pytest.approx(metrics.f1_score(labels, called, zero_division=0))
    assert found.brier == pytest.approx(metrics.mean_squared_error(labels, scores))
    (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, called, labels=[0, 1]).tolist()
    assert (found.true_negatives, found.false_positives) == (tn, fp)
    assert (found.false_negatives, found.true_positives) == (fn, tp)
    assert (found.episodes, found.anomalous, found.threshold) == (len(labels), labels.sum(), threshold)
    if 0 < labels.sum() < len(labels):
        assert found.roc_auc == pytest.approx(metrics.roc_auc_score(labels, scores))
        assert found.pr_auc == pytest.approx(metrics.average_precision_score(labels, scores))
        assert found.false_alarms_per_100_normal == pytest.approx(100 * fp / (fp + tn))


def test_metrics_that_need_anomalous_episodes_are_none_without_them() -> None:
    found = evaluate_probabilities(np.int8([0, 0, 0]), np.array([0.1, 0.6, 0.2]), 0.5)
    assert (found.pr_auc, found.roc_auc, found.f1, found.recall, found.precision) == (None, None, None, None, 0)
    assert found.false_alarms_per_100_normal == pytest.approx(100 / 3)


def test_metrics_that_need_normal_episodes_are_none_without_them() -> None:
    found = evaluate_probabilities(np.int8([1, 1]), np.array([0.1, 0.6]), 0.5)
    assert (found.roc_auc, found.false_alarms_per_100_normal, found.pr_auc) == (None, None, 1)
    assert found.f1 == pytest.approx(2 / 3)


def test_metrics_are_plain_json() -> None:
    found = evaluate_probabilities(np.int8([1, 0]), np.float32([0.75, 0.25]), np.float64(0.5)).to_dict()
    assert json.loads(json.dumps(found)) == found


def slow_f1(labels: np.ndarray, scores: np.ndarray, threshold: float) -> float:
    called = scores >= threshold
    right = int((called & (labels == 1)).sum())
    return 2 * right / (int(called.sum()) + int(labels.sum())) if right else 0.0


@given(cases)
@settings(max_examples=60, deadline=None)
def test_best_f1_equals_a_loop_over_all_thresholds(rows: list[tuple[int, int]]) -> None:
    labels, scores = arrays(rows)
    f1, threshold = best_f1(labels, scores)
    assert f1 == pytest.approx(max(slow_f1(labels, scores, value) for value in [*scores, 2.0]))
    assert slow_f1(labels, scores, threshold) == pytest.approx(f1)


def test_best_f1_separates_adjacent_floats() -> None:
    low = 1 - 2.0**-52  # as a saturated sigmoid gives: there is no number between this one and the next
    labels, scores = np.int8([0, 0, 1]), np.array([0.2, low, np.nextafter(low, 2)])
    f1, threshold = best_f1(labels, scores)
    assert f1 == 1
    assert slow_f1(labels, scores, threshold) == 1


# ---- better than guessing ----------------------------------------------------------------------------------------


def figures(roc_auc: float | None, anomalous: int = 15, episodes: int = 100) -> dict[str, Any]:
    return {"roc_auc": roc_auc, "anomalous": anomalous, "episodes": episodes}


def test_rank_sum_chance_is_close_to_counting_all_orders() -> None:
    anomalous, normal = 5, 7
    places = range(anomalous + normal)
    orders = [set(chosen) for chosen in itertools.combinations(places, anomalous)]
    aucs = np.array([sum(a > n for a in o for n in set(places) - o) for o in orders]) / (anomalous * normal)
    for reached in (0.6, 0.8, 1.0):
        exact = float((aucs >= reached - 1e-9).mean())
        assert rank_sum_chance(reached, anomalous, normal) == pytest.approx(exact, abs=0.02)


def test_every_held_out_part_has_to_be_better_than_guessing() -> None:
    good, bad = figures(0.8), figures(0.55)
    assert check_against_chance({"validation": good, "test": good}).better_than_guessing is True
    assert "guessing on its validation part" in check_against_chance({"validation": bad, "test": good}).note
    flattered = check_against_chance({"validation": good, "test": bad})
    assert flattered.better_than_guessing is False
    assert "on its test part" in flattered.note
    assert "test: ROC-AUC 0.55, p = 0.27" in flattered.why


@pytest.mark.parametrize(
    "metrics", [{}, {"validation": figures(None)}, {"validation": figures(1.0, 1, 10), "test": {}}]
)
def test_small_parts_are_inconclusive(metrics: dict[str, Any]) -> None:
    assert check_against_chance(metrics).better_than_guessing is None


def test_a_small_test_part_does_not_overrule_a_good_validation_part() -> None:
    assert check_against_chance({"validation": figures(0.9), "test": figures(0.5, 1, 4)}).better_than_guessing is True
