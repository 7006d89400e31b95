"""What a study of planted faults comes to, in words."""

from __future__ import annotations

from dfstrans.injection.results import CellResult, StudyResult
from dfstrans.injection.verdict import verdict


def cell(kind: str, strength: float, recall: float, roc_auc: float | None = 0.95) -> CellResult:
    return CellResult(kind, strength, "", 20, round(20 * recall), recall, roc_auc, None, {})


def said(*cells: CellResult) -> list[str]:
    return verdict(StudyResult((), 100, 50, 30, 5.0, 0.5, 6, "random", {}, cells))


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


def test_a_kind_that_many_false_alarms_find_is_not_called_found() -> None:
    assert said(cell("spike", 1, 0.9, 0.5)) == ["not told from normal episodes at the strengths tried: spike"]


def test_without_an_order_nothing_is_told_apart() -> None:
    assert said(cell("spike", 1, 0.0, None)) == ["not told from normal episodes at the strengths tried: spike"]
