"""What a comparison comes to, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.grid import Comparison, Grid
from dfstrans.lab.compare.runs import Cell
from dfstrans.lab.compare.significance import PairedTest, doubt, leak, too_small, verdict


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """What boosting does on one split."""
    out = tmp_path_factory.mktemp("out")
    grid = Grid(Comparison(Path("planted.h5"), out, ("boosting",), folds=1), planted_episodes(60, 40, n_sensors=2))
    assert not grid.work()
    (found,) = grid.finished()
    return found


def as_if(cell: Cell, model: str = "boosting", fold: int = 0, **test: float) -> Cell:
    return cell.model_copy(update={"model": model, "fold": fold, "test": {**cell.test, **test}})


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), "F1: a is above b."),
        (PairedTest(5, -0.1, -0.15, -0.05, 0.01, 0.02), "F1: a is below b."),
        (PairedTest(5, 0.1, -0.05, 0.25, 0.04, 0.08), "F1: a is within luck of b."),
        (PairedTest(2, 0.4, None, None, None), "F1: a is not tested against b (fewer than 3 splits of both)."),
        (PairedTest(1, 0.0, None, None, None), "F1: a is not tested against b (fewer than 3 splits of both)."),
        (PairedTest(3, -1, None, None, None), "F1: a is not tested against b (a difference of -1.000 on each split)."),
        (PairedTest(3, 0.0, None, None, None), "F1: a is not tested against b (no difference on any split)."),
    ],
)
def test_only_a_difference_that_is_more_than_luck_is_called_one(test: PairedTest, said: str) -> None:
    assert verdict("F1", "a", {"b": test}) == said


def test_rivals_are_named_by_where_they_stand() -> None:
    ahead, level = PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), PairedTest(5, 0.0, -0.1, 0.1, 1.0, 1.0)
    said = verdict("PR-AUC", "a", {"b": level, "c": ahead, "d": level})
    assert said == "PR-AUC: a is above c, within luck of b and d."


def test_a_model_that_ranks_at_random_is_warned_of(cell: Cell) -> None:
    result = ComparisonResult(("boosting", "tapnet"), (cell, as_if(cell, "tapnet", roc_auc=0.5)), folds=1)
    (warning,) = result.doubts()
    assert warning.startswith("tapnet is not shown to be better than guessing on its split")
    assert warning in result.table().notes
    assert warning in result.to_dict()["conclusions"]


def test_the_splits_on_which_a_model_guessed_are_counted(cell: Cell) -> None:
    cells = [as_if(cell, fold=fold, roc_auc=auc) for fold, auc in enumerate((0.5, 1.0, 0.45))]
    said = "boosting is not shown to be better than guessing on {} splits (rank-sum test on the test part){}"
    assert doubt(cells) == said.format("2 of 3", ": try other settings or larger test parts before you judge it.")
    assert doubt(cells[:2]) == said.format("1 of 2", ".")
    assert doubt(cells[1:2]) is None


def with_anomalies(cell: Cell, fold: int, validation: int, test: int, rule: str = "f1") -> Cell:
    return cell.model_copy(
        update={
            "fold": fold,
            "settings": {**cell.settings, "threshold_rule": rule},
            "validation": {**cell.validation, "anomalous": validation},
            "test": {**cell.test, "anomalous": test, "roc_auc": 1.0},
        }
    )


def test_splits_on_which_no_threshold_could_be_chosen_are_named(cell: Cell) -> None:
    cells = [with_anomalies(cell, fold, anomalous, 9) for fold, anomalous in enumerate((2, 3, 1))]
    result = ComparisonResult(("boosting",), tuple(cells), folds=3)
    (warning,) = result.doubts()
    assert warning == (
        "The validation parts of splits 0 and 2 hold fewer than 3 anomalous episodes: the threshold stays at 0.5 "
        "there, and P, R and F1 say little."
    )
    assert warning in result.table().notes
    assert warning in result.to_dict()["conclusions"]


def test_a_threshold_that_needs_no_anomalies_is_not_called_unsettled(cell: Cell) -> None:
    for rule in ("fixed", "false-alarm-rate"):
        assert too_small([with_anomalies(cell, 0, 1, 9, rule)]) == []
    none_normal = with_anomalies(cell, 0, int(cell.validation["episodes"] or 0), 9, "false-alarm-rate")
    (warning,) = too_small([none_normal])
    assert warning.startswith("The validation part of split 0 holds fewer than 3 normal episodes")


def test_few_anomalies_in_test_parts_are_counted(cell: Cell) -> None:
    cells = [with_anomalies(cell, fold, 9, anomalous) for fold, anomalous in enumerate((4, 5, 2))]
    assert too_small([*cells, as_if(cells[0], "tapnet")]) == [
        "The test parts of splits 0 and 2 hold few anomalous episodes (4 and 2): so few show large differences only."
    ]


def test_splits_of_several_seeds_are_told_apart(cell: Cell) -> None:
    few = with_anomalies(cell, 0, 9, 2)
    other = few.model_copy(update={"protocol": few.protocol.model_copy(update={"seed": 1})})
    (note,) = too_small([other, few])
    assert note.startswith("The test parts of splits 0 of seed 0 and 0 of seed 1 hold")


def test_the_command_is_told_once_for_models_of_the_same_settings(cell: Cell) -> None:
    def given(model: str, folds: int, more: str = "") -> Cell:
        command = f"dfstrans compare r.h5 --out RESULTS --models {model} --folds {folds} --split random{more}"
        return cell.model_copy(update={"model": model, "fold": folds, "command": command})

    cells = given("tapnet", 2, " --epochs 8"), given("boosting", 2), given("boosting", 3), given("dfstrans", 3)
    result = ComparisonResult(("dfstrans", "boosting", "tapnet"), cells, folds=3)
    commands = [
        "dfstrans compare r.h5 --out RESULTS --models dfstrans,boosting --folds 3 --split random",
        "dfstrans compare r.h5 --out RESULTS --models tapnet --folds 2 --split random --epochs 8",
    ]
    assert result.to_dict()["commands"] == commands
    assert result.table().notes[-2:] == tuple(f"Command: {command}" for command in commands)


def test_the_conclusions_stand_below_the_table_of_tests(cell: Cell) -> None:
    good, bad = (0.9, 0.92, 0.91), (0.5, 0.5, 0.52)
    cells = [as_if(cell, model, fold, f1=f1, pr_auc=0.9) for model, row in (("dfstrans", good), ("boosting", bad))
             for fold, f1 in enumerate(row)]  # fmt: skip
    result = ComparisonResult(("dfstrans", "boosting"), tuple(cells), folds=3)
    assert result.test_table().notes[:2] == (
        "F1: dfstrans is above boosting.",
        "PR-AUC: dfstrans is not tested against boosting (no difference on any split).",
    )


def test_a_model_without_cells_does_not_keep_the_others_from_being_tested(cell: Cell) -> None:
    result = ComparisonResult(("dfstrans", "boosting", "tapnet"), (cell, as_if(cell, "tapnet")), folds=1)
    assert result.first == "boosting"
    assert list(result.tests("f1")) == ["tapnet"]
    assert result.to_dict()["tests"]["first"] == "boosting"
    note = "dfstrans has no finished cell: boosting stands in its place."
    assert note in result.test_table().notes
    assert note in result.to_dict()["conclusions"]
    named_first = ComparisonResult(("boosting", "tapnet", "dfstrans"), result.cells, folds=1)
    assert not any("in its place" in said for said in named_first.conclusions())


def test_a_model_that_is_not_above_its_neighbours_labels_is_named(cell: Cell) -> None:
    cells = [
        as_if(cell, "neighbours", f1=0.9, roc_auc=0.8),
        as_if(cell, "tapnet", f1=0.8),
        as_if(cell, "boosting", f1=0.95),
        as_if(cell, "boosting", fold=1, f1=0.1),  # a split that neighbours have not
    ]
    result = ComparisonResult(("tapnet", "boosting", "neighbours"), tuple(cells), folds=2)
    (said,) = [one for one in result.doubts() if "neighbours" in one]
    assert said == (
        "neighbours looks at no value: its F1 of 0.900 is what knowing where an episode comes from gives. "
        "By mean F1 not above it, on the splits that they share: tapnet (0.800)."
    )


def test_where_a_place_tells_nothing_no_figure_is_called_leak(cell: Cell) -> None:
    constant = as_if(cell, "neighbours", f1=0.5, roc_auc=0.5)
    assert leak({"tapnet": [as_if(cell, "tapnet", f1=0.4)], "neighbours": [constant]}) == []
    assert leak({"tapnet": [cell]}) == leak({"neighbours": []}) == []


def test_the_gauge_of_leak_is_no_rival_of_the_others(cell: Cell) -> None:
    f1 = {"a": (0.9, 0.8, 0.87), "b": (0.8, 0.75, 0.81), "neighbours+seed=1": (0.7, 0.7, 0.71)}
    cells = {name: [as_if(cell, name, fold, f1=value) for fold, value in enumerate(f1[name])] for name in f1}
    names = ("neighbours+seed=1", "a", "b")
    with_gauge = ComparisonResult(names, tuple(one for own in cells.values() for one in own), folds=3)
    without = ComparisonResult(("a", "b"), (*cells["a"], *cells["b"]), folds=3)
    assert with_gauge.first == "a"
    assert not any("no finished cell" in said for said in with_gauge.conclusions())
    assert with_gauge.tests("f1")["b"] == without.tests("f1")["b"]
    gauge = with_gauge.tests("f1")["neighbours+seed=1"]
    assert gauge.p_adjusted == gauge.p
    assert ComparisonResult(names, tuple(cells["neighbours+seed=1"]), folds=3).first == "neighbours+seed=1"
