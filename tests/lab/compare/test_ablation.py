"""The ablation: one change taken away at a time, gains with their intervals, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.grid import Comparison, Grid
from dfstrans.lab.compare.runs import Cell
from dfstrans.lab.compare.variants import settings_of_model
from dfstrans.lab.paper import reproduce
from dfstrans.lab.paper.ablation import TAKEN_AWAY, ablation_table, models_of
from dfstrans.lab.paper.detection import finished_cells
from dfstrans.lab.paper.request import Request
from dfstrans.settings import PRESETS

# ---- what is taken away ---------------------------------------------------------------------------------------------


def test_every_row_of_the_ablation_differs_from_the_whole_in_what_it_says() -> None:
    whole = settings_of_model("dfstrans", {})
    changed = {
        model: {name for name, value in settings_of_model(model, {}).items() if value != whole[name]}
        for model in TAKEN_AWAY
    }
    assert changed["dfstrans+weight_averaging=0"] == {"weight_averaging"}
    assert changed["dfstrans-paper-size"] == {"filters", "heads", "feedforward", "head_width"}
    assert changed["dfstrans-paper"] == {name for name, value in PRESETS["paper"].items() if value != whole[name]}
    assert all(len(names) == 1 for model, names in changed.items() if "-paper" not in model)
    single = {name for model, names in changed.items() if "-paper" not in model for name in names}
    assert single == {
        "weight_averaging", "mixup", "sensor_dropout", "time_shift", "imbalance", "schedule", "encoding", "norm",
        "dropout", "pooling", "quantile_features",
    }  # fmt: skip


WITHOUT_A_ROW = {
    "batch_size": "goes with the learning rate",
    "learning_rate": "was chosen for its schedule and epochs",
    "weight_decay": "goes with the learning rate",
    "epochs": "how long to train, not what is trained",
    "patience": "goes with the epochs",
    "select_by": "goes with the patience",
    "gradient_clip": "goes with the learning rate",
}
"""What the presets differ in, and why it is taken away with everything only."""


def test_everything_in_which_the_presets_differ_has_a_row_or_is_excused_by_name() -> None:
    whole, paper = settings_of_model("dfstrans", {}), settings_of_model("dfstrans-paper", {})
    different = {name for name, value in whole.items() if paper[name] != value}
    alone = [settings_of_model(model, {}) for model in TAKEN_AWAY if model != "dfstrans-paper"]
    covered = {name for name in different for settings in alone if settings[name] == paper[name]}
    assert different - covered == set(WITHOUT_A_ROW)


# ---- gains ----------------------------------------------------------------------------------------------------------

MODELS = ("boosting", "boosting+trees=2")


def compute(comparison: Comparison) -> dict[str, str]:
    return Grid(comparison, planted_episodes(60, 30, n_sensors=2, n_timepoints=48)).work()


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    """Of two models on two splits."""
    folder = tmp_path_factory.mktemp("cells")
    compute(Comparison(Path("elevator_small.h5"), folder, MODELS, folds=2))
    return finished_cells(folder, MODELS, 2, {})


def with_f1(cell: Cell, f1: float, seed: int = 0) -> Cell:
    protocol = cell.protocol.model_copy(update={"seed": seed})
    return cell.model_copy(update={"test": {**cell.test, "f1": f1}, "protocol": protocol})


def test_what_a_change_brings_is_the_mean_difference_on_the_same_splits_of_all_seeds(cells: list[Cell]) -> None:
    whole, without = ([cell for cell in cells if cell.model == model] for model in MODELS)
    figures = {0: (0.9, 0.8), 1: (0.7, 0.5), 2: (0.6, 0.3)}  # by seed: of the whole, without
    made = [
        cell
        for seed, (high, low) in figures.items()
        for cell in (with_f1(whole[0], high, seed), with_f1(without[0], low, seed))
    ]
    result = ComparisonResult(MODELS, tuple(made), 3)
    first, second = ablation_table(result).rows
    columns = ablation_table(result).columns
    assert first[columns.index("F1 brings")] == ""
    assert second[columns.index("splits")] == "3 of 3"
    assert second[columns.index("F1 brings")] == "+0.200"  # the mean of 0.1, 0.2 and 0.3
    assert result.gains("f1", MODELS[1]) == pytest.approx([0.1, 0.2, 0.3])
    assert " to " in second[columns.index("95 % interval")]
    assert "seed 0, 1, 2" in result.title


def test_the_whole_model_is_always_the_first() -> None:
    assert models_of(None) == ("dfstrans", *TAKEN_AWAY)
    assert models_of(("dfstrans-vanilla", "dfstrans")) == ("dfstrans", "dfstrans-vanilla")


# ---- the command's work ---------------------------------------------------------------------------------------------


def quick_network(comparison: Comparison) -> dict[str, str]:
    """The grid with networks so small that a cell takes a second."""
    return Grid(comparison, planted_episodes(40, 20, n_sensors=2, n_timepoints=48)).work()


def test_a_quick_ablation_says_so_and_computes_each_cell_once(tmp_path: Path) -> None:
    asked: list[Comparison] = []

    def count(comparison: Comparison) -> dict[str, str]:
        asked.append(comparison)
        before = {path: path.stat().st_mtime_ns for path in comparison.out.rglob("fold_*.json")}
        failed = quick_network(comparison)
        assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # finished ones are left alone
        return failed

    request = Request("ablation", tmp_path, tmp_path, models=("dfstrans+mixup=0",), quick=True)
    for _ in range(2):
        outcome = reproduce(request, count)
    assert [one.models for one in asked] == [("dfstrans", "dfstrans+mixup=0")] * 2
    assert [one.overrides["epochs"] for one in asked] == [1, 1]
    (table,) = outcome.tables
    assert table.title.startswith("ablation: QUICK LOOK")
    assert [row[:3] for row in table.rows] == [
        ("nothing", "dfstrans", "1 of 1"),
        ("mixing of pairs", "dfstrans+mixup=0", "1 of 1"),
    ]
    assert (tmp_path / "quick" / "elevator_small_no-overlap" / "dfstrans+mixup=0" / "fold_0.json").exists()
    drawn = [path for path in outcome.written if path.suffix == ".svg"]  # none without matplotlib
    assert all(b"QUICK LOOK, NO RESULT" in path.read_bytes() for path in drawn)


def test_each_seed_has_a_folder_and_the_first_shares_the_cells_of_other_tables(tmp_path: Path) -> None:
    places: list[tuple[str, int]] = []

    def remember(comparison: Comparison) -> dict[str, str]:
        places.append((comparison.out.name, comparison.seed))
        return {}

    outcome = reproduce(Request("ablation", tmp_path, tmp_path, folds=3, seeds=2), remember)
    assert places == [("elevator_small_no-overlap", 0), ("elevator_small_no-overlap_seed_1", 1)]
    assert outcome.tables[0].rows[0][2] == "0 of 6"
