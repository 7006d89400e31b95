"""Means, tests and tables from runs."""

from __future__ import annotations

import json

import pytest

from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.runs import Run
from tests.lab.compare.made_up import made_up_run


def result_of(f1: dict[str, tuple[float, ...]], models: tuple[str, ...] | None = None) -> ComparisonResult:
    runs = [made_up_run(model, fold, f1=value) for model, row in f1.items() for fold, value in enumerate(row)]
    return ComparisonResult(models or tuple(f1), tuple(runs), folds=5)


def test_mean_and_spread_equal_a_hand_calculation() -> None:
    result = result_of({"boosting": (0.5, 0.9)}, ("boosting", "tapnet"))
    f1 = result.spreads("boosting")["f1"]
    assert f1 is not None
    assert f1.mean == pytest.approx(0.7)
    assert f1.std == pytest.approx(0.08**0.5)  # √((0.2² + 0.2²) / 1)
    row = dict(zip(result.table().columns, result.table().rows[0], strict=True))
    assert (row["F1"], row["splits"], row["parameters"]) == ("0.700 ± 0.283", "2 of 5", "41 000")
    assert result.table().rows[1][1:] == ("0 of 5", *"–––––––––––––")


def test_models_are_tested_on_the_splits_that_both_have() -> None:
    result = ComparisonResult(
        ("boosting", "tapnet"), (made_up_run(), made_up_run(fold=1), made_up_run("tapnet", 1, f1=0.25)), folds=2
    )
    test = result.tests("f1")["tapnet"]
    assert test.splits == 1
    assert test.difference == pytest.approx(0.8 - 0.25)
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert result.test_table().rows[0][4:] == ("too few splits", "–", "–")


def test_conclusions_and_warnings_are_in_tables_and_json() -> None:
    result = result_of({"dfstrans": (0.9, 0.92, 0.91), "boosting": (0.5, 0.5, 0.52)})
    notes = (
        "PR-AUC: dfstrans is not tested against boosting (no difference on any split).",
        "F1: dfstrans is better than boosting.",
    )
    assert result.test_table().notes[:2] == notes
    guessing = ComparisonResult(("tapnet",), (made_up_run("tapnet", roc_auc=0.5),), folds=1)
    (warning,) = guessing.warnings()
    assert warning.startswith("tapnet is not shown to be better than guessing on its split")
    assert warning in guessing.table().notes
    assert warning in guessing.to_dict()["conclusions"]
    assert set(notes) <= set(result.to_dict()["conclusions"])


def test_first_model_with_a_run_is_tested_against_the_others() -> None:
    result = result_of({"boosting": (0.8,), "tapnet": (0.8,)}, ("dfstrans", "boosting", "tapnet"))
    assert result.first == result.to_dict()["tests"]["first"] == "boosting"
    assert list(result.tests("f1")) == ["tapnet"]
    assert "dfstrans has no finished run, so boosting is compared with the others." in result.test_table().notes
    named_first = ComparisonResult(("boosting", "tapnet", "dfstrans"), result.runs, folds=1)
    assert not any("has no finished run" in said for said in named_first.conclusions())


def test_leakage_check_is_no_rival() -> None:
    f1 = {"dfstrans": (0.9, 0.8, 0.87), "boosting": (0.8, 0.75, 0.81), "leakage+seed=1": (0.7, 0.7, 0.71)}
    with_check = result_of(f1, ("leakage+seed=1", "dfstrans", "boosting"))
    without = result_of({name: f1[name] for name in ("dfstrans", "boosting")})
    assert with_check.first == "dfstrans"
    assert not any("no finished run" in said for said in with_check.conclusions())
    assert with_check.tests("f1")["boosting"] == without.tests("f1")["boosting"]
    check = with_check.tests("f1")["leakage+seed=1"]
    assert check.p_adjusted == check.p
    alone = result_of({"leakage+seed=1": (0.7,)}, ("leakage+seed=1", "dfstrans"))
    assert alone.first == "leakage+seed=1"


def test_models_of_the_same_settings_share_a_command() -> None:
    def given(model: str, folds: int, more: str = "") -> Run:
        command = f"dfstrans compare r.h5 --out RESULTS --models {model} --folds {folds} --split random{more}"
        return made_up_run(model, folds).model_copy(update={"command": command})

    runs = given("tapnet", 2, " --epochs 8"), given("boosting", 2), given("boosting", 3), given("dfstrans", 3)
    result = ComparisonResult(("dfstrans", "boosting", "tapnet"), runs, folds=3)
    commands = [
        "dfstrans compare r.h5 --out RESULTS --models dfstrans,boosting --folds 3 --split random",
        "dfstrans compare r.h5 --out RESULTS --models tapnet --folds 2 --split random --epochs 8",
    ]
    assert result.to_dict()["commands"] == commands
    assert result.table().notes[-2:] == tuple(f"Command: {command}" for command in commands)
