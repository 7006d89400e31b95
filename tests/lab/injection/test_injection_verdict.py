"""What a study of planted faults comes to, in words."""

from __future__ import annotations

from dfstrans.lab.injection.page import verdict
from dfstrans.lab.injection.study import ConditionResult, StudyResult
from dfstrans.training.evaluation import ChanceCheck


def condition(
    kind: str, strength: float, recall: float, roc_auc: float | None = 0.95, trials: int = 20
) -> ConditionResult:
    return ConditionResult(kind, strength, "", trials, round(trials * recall), recall, roc_auc, None, {})


def said(*conditions: ConditionResult, normal: int = 30) -> list[str]:
    return verdict(
        StudyResult((), 100, 50, 9, normal, 5.0, 0.5, "given", ChanceCheck(True, "good"), 6, "random", {}, conditions)
    )


def test_kind_is_found_only_if_all_greater_strengths_are() -> None:
    conditions = [
        condition("drift", 1, 0.9),
        condition("drift", 3, 0.5),
        condition("drift", 10, 0.85),
        condition("drift", 30, 1.0),
    ]
    assert said(*conditions) == ["found in at least 80% of the trials: drift from 10 spreads on"]


def test_kinds_are_grouped_by_detection_rate() -> None:
    conditions = [
        condition("stuck", 30, 0.8),
        condition("gain", 1, 0.1, 0.5),
        condition("gain", 3, 0.6),
        condition("lag", 3, 0.05, 0.52),
    ]
    assert said(*conditions) == [
        "found in at least 80% of the trials: stuck from 30 % of the episode on",
        "found sometimes, but not reliably at the strengths tested: gain (at most 60%)",
        "not distinguished from normal episodes at the strengths tested: lag",
    ]


def test_kind_ranked_high_but_never_detected_is_not_found_sometimes() -> None:
    conditions = [
        condition("noise-burst", 1, 0.05, 0.5),
        condition("noise-burst", 3, 0.0, 0.8),
        condition("noise-burst", 10, 0.0, 0.9),
    ]
    words = "ranked above normal episodes, but never above the threshold"
    assert said(*conditions) == [f"{words}: noise-burst (at 3, 10 spreads)"]
    assert said(condition("stuck", 30, 0.0)) == [f"{words}: stuck (at 30 % of the episode)"]


def test_kind_found_only_by_false_alarms_is_not_called_found() -> None:
    assert said(condition("spike", 1, 0.9, 0.5)) == [
        "not distinguished from normal episodes at the strengths tested: spike"
    ]


def test_strength_that_looks_normal_is_never_called_found() -> None:
    conditions = [condition("drift", 1, 0.9, 0.5), condition("drift", 3, 0.85), condition("drift", 10, 1.0)]
    assert said(*conditions) == ["found in at least 80% of the trials: drift from 3 spreads on"]
    upside_down = [condition("drift", 1, 0.85), condition("drift", 3, 0.9, 0.5)]
    assert said(*upside_down) == ["found sometimes, but not reliably at the strengths tested: drift (at most 85%)"]


def test_too_few_trials_do_not_count_as_a_missed_fault() -> None:
    said_of_one = said(condition("spike", 1, 1.0, 1.0, trials=1), condition("lag", 3, 0.0, 0.5))
    assert said_of_one == [
        "not distinguished from normal episodes at the strengths tested: lag",
        "too few trials to tell: spike",
    ]
    assert said(condition("spike", 1, 1.0, 1.0), normal=1) == ["too few trials to tell: spike"]
    assert said(condition("spike", 1, 1.0, None), normal=0) == ["too few trials to tell: spike"]
