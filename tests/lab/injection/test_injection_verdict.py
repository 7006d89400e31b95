"""What a study of planted faults comes to, in words."""

from __future__ import annotations

from dfstrans.lab.injection.page import verdict
from dfstrans.lab.injection.study import CellResult, StudyResult
from dfstrans.training.evaluation import ChanceCheck


def cell(kind: str, strength: float, recall: float, roc_auc: float | None = 0.95, trials: int = 20) -> CellResult:
    return CellResult(kind, strength, "", trials, round(trials * recall), recall, roc_auc, None, {})


def said(*cells: CellResult, normal: int = 30) -> list[str]:
    return verdict(
        StudyResult((), 100, 50, 9, normal, 5.0, 0.5, "given", ChanceCheck(True, "good"), 6, "random", {}, cells)
    )


def test_a_kind_is_found_from_the_strength_on_that_all_greater_ones_share() -> None:
    cells = [cell("drift", 1, 0.9), cell("drift", 3, 0.5), cell("drift", 10, 0.85), cell("drift", 30, 1.0)]
    assert said(*cells) == ["found in at least 80% of the trials: drift from 10 spreads on"]


def test_kinds_stand_by_how_well_they_are_found() -> None:
    cells = [cell("stuck", 30, 0.8), cell("gain", 1, 0.1, 0.5), cell("gain", 3, 0.6), cell("lag", 3, 0.05, 0.52)]
    assert said(*cells) == [
        "found in at least 80% of the trials: stuck from 30 % of the episode on",
        "found at times, not reliably at the strengths tried: gain (at most 60%)",
        "not told from normal episodes at the strengths tried: lag",
    ]


def test_a_kind_that_is_ranked_high_but_never_detected_is_not_called_found_at_times() -> None:
    cells = [cell("noise-burst", 1, 0.05, 0.5), cell("noise-burst", 3, 0.0, 0.8), cell("noise-burst", 10, 0.0, 0.9)]
    words = "ranked above normal episodes, but never over the threshold"
    assert said(*cells) == [f"{words}: noise-burst (at 3, 10 spreads)"]
    assert said(cell("stuck", 30, 0.0)) == [f"{words}: stuck (at 30 % of the episode)"]


def test_a_kind_that_many_false_alarms_find_is_not_called_found() -> None:
    assert said(cell("spike", 1, 0.9, 0.5)) == ["not told from normal episodes at the strengths tried: spike"]


def test_a_strength_that_looks_normal_is_not_called_found_for_the_sake_of_another() -> None:
    cells = [cell("drift", 1, 0.9, 0.5), cell("drift", 3, 0.85), cell("drift", 10, 1.0)]
    assert said(*cells) == ["found in at least 80% of the trials: drift from 3 spreads on"]
    upside_down = [cell("drift", 1, 0.85), cell("drift", 3, 0.9, 0.5)]
    assert said(*upside_down) == ["found at times, not reliably at the strengths tried: drift (at most 85%)"]


def test_too_few_trials_are_not_taken_for_a_fault_that_is_missed() -> None:
    said_of_one = said(cell("spike", 1, 1.0, 1.0, trials=1), cell("lag", 3, 0.0, 0.5))
    assert said_of_one == [
        "not told from normal episodes at the strengths tried: lag",
        "too few trials to tell: spike",
    ]
    assert said(cell("spike", 1, 1.0, 1.0), normal=1) == ["too few trials to tell: spike"]
    assert said(cell("spike", 1, 1.0, None), normal=0) == ["too few trials to tell: spike"]
