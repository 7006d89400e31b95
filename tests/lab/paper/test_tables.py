"""Tables of detection with the printed figures, the ablation, and times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.runs import add_run, read_runs
from dfstrans.lab.compare.variants import settings_of_model
from dfstrans.lab.paper.request import Request
from dfstrans.lab.paper.tables import WITHOUT, ablation_table, finished_runs
from dfstrans.lab.paper.targets import reproduce
from dfstrans.settings import PRESETS
from tests.cli.command_line import run
from tests.lab.compare.made_up import made_up_run

STORED = Path(__file__).parents[3] / "results"


def nothing(comparison: Comparison) -> dict[str, str]:
    raise AssertionError(f"expected no computation, got {comparison}")


def compute(comparison: Comparison) -> dict[str, str]:
    return compute_runs(Grid(comparison, planted_episodes(40, 20, n_sensors=2, n_timepoints=48)))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder as of `reproduce`, with one run of boosting on journeys."""
    add_run(tmp_path / "out" / "elevator_small_no-overlap.jsonl", made_up_run(f1=0.625))
    return tmp_path / "out"


def store_in(out: Path) -> Path:
    return out / "elevator_small_no-overlap.jsonl"


def finished(target: str, out: Path, **options: Any) -> Request:
    chosen = {"data_sets": ("elevator",), "protocols": ("no-overlap",), **options}
    return Request(target, out, finished=True, compute=nothing, **chosen)


# ---- detection ------------------------------------------------------------------------------------------------------


def test_stored_table_is_that_of_the_stored_runs() -> None:
    outcome = reproduce(Request("tab:qresults", STORED, finished=True, compute=nothing))
    assert json.dumps(outcome.content, allow_nan=False)
    written = (STORED / "tab_qresults.md").read_text(encoding="utf-8")
    remedy = "dfstrans reproduce tab:qresults --finished --out results writes it again"
    assert "\n".join(table.to_markdown() for table in outcome.tables) == written, remedy


def test_part_of_the_finished_runs_is_shown_and_not_written(out: Path) -> None:
    command = ["reproduce", "tab:qresults", "--finished", "--out", out]
    code, _, err = run(*command)
    assert (code, err) == (0, "")
    whole = (out / "tab_qresults.md").read_text()
    for part in (["--data-sets", "elevator"], ["--protocol", "no-overlap"], ["--models", "boosting"], ["--folds", "1"]):
        code, shown, err = run(*command, *part)
        assert code == 0, err
        assert f"shown but not written: a part of tab:qresults, selected by {part[0]};" in err
        assert "boosting" in shown
        assert "written   " not in shown
        assert (out / "tab_qresults.md").read_text() == whole


@pytest.mark.parametrize("target", ["tab:qresults", "tab:timeparams", "ablation"])
def test_without_finished_runs_nothing_is_shown_or_written(target: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    code, shown, err = run("reproduce", target, "--finished", "--out", place)
    assert (code, shown) == (2, "")
    assert f"expected finished runs in {place}, got none; omit --finished to compute them" in err
    assert not place.exists()


def test_only_requested_splits_and_settings_are_shown(out: Path) -> None:
    store = store_in(out)
    add_run(store, made_up_run(fold=1))
    assert len(finished_runs(store, ["boosting"], 1, {})) == 1
    assert len(finished_runs(store, ["boosting"], 2, {})) == 2
    with pytest.raises(DfstransError, match="trees=300 instead of 2"):
        finished_runs(store, ["boosting"], 1, {"trees": 2})
    add_run(store, made_up_run("tapnet", seed=1))
    with pytest.raises(DfstransError, match=r"same recordings and splits.*got 2 kinds"):
        finished_runs(store, ["boosting", "tapnet"], 2, {})
    add_run(store, made_up_run("trees").model_copy(update={"parts": "other"}))
    with pytest.raises(DfstransError, match=r"on the same parts.*by another version"):
        finished_runs(store, ["boosting", "trees"], 1, {})


@pytest.mark.parametrize(
    ("target", "last"),
    [
        ("tab:qresults", ["boosting", "leakage", "minirocket", "tapnet+epochs=3", "tapnet-plain"]),
        ("tab:qresults_pe", ["dfstrans", "dfstrans-vanilla", "dfstrans-vanilla+epochs=3"]),
        ("tab:linear_comp", ["dfstrans", "dfstrans-cnn", "dfstrans-linear", "dfstrans-tanh"]),
    ],
)
def test_finished_variants_appear_in_the_tables_that_they_belong_to(target: str, last: list[str], out: Path) -> None:
    for name in ("dfstrans-vanilla+epochs=3", "dfstrans-linear", "minirocket", "tapnet-plain", "tapnet+epochs=3"):
        add_run(store_in(out), made_up_run(name))
    tables = reproduce(finished(target, out)).tables
    assert [row[1] for row in tables[0].rows][-len(last) :] == last
    if target == "tab:qresults":
        assert tables[1].title.startswith("boosting against each rival")


def test_finished_runs_are_used_and_the_others_computed_once(tmp_path: Path) -> None:
    asked: list[Comparison] = []

    def count(comparison: Comparison) -> dict[str, str]:
        before = read_runs(comparison.store)
        failed = compute(comparison)
        asked.append(comparison)
        assert all(run in read_runs(comparison.store) for run in before)
        return failed

    chosen: dict[str, Any] = {"data_sets": ("elevator",), "protocols": ("no-overlap",), "models": ("boosting",)}
    for folds in (1, 2, 2):
        outcome = reproduce(Request("tab:qresults", tmp_path, tmp_path, **chosen, folds=folds, compute=count))
    assert outcome.tables[0].rows[0][2] == "2 of 2"
    assert [one.data for one in asked] == [tmp_path / "elevator_small.h5"] * 3


@pytest.mark.parametrize("target", ["tab:qresults", "tab:timeparams", "ablation"])
def test_absent_recordings_are_reported_before_anything_is_computed(target: str, tmp_path: Path) -> None:
    request = Request(target, tmp_path / "out", tmp_path, ("elevator", "smd"), compute=nothing)
    with pytest.raises(DfstransError, match=r"expected ServerMachineDataset/ in .* got no such folder"):
        reproduce(request)


def test_quick_look_is_marked_and_kept_apart(tmp_path: Path) -> None:
    def few(comparison: Comparison) -> dict[str, str]:
        assert comparison.at_most == 60
        return compute_runs(Grid(comparison, planted_episodes(80, 40, n_sensors=2, n_timepoints=48)))

    request = Request("tab:qresults", tmp_path, tmp_path, ("elevator",), models=("boosting",), quick=True, compute=few)
    assert reproduce(request).tables[0].title == "QUICK LOOK, NO RESULT: tab:qresults, protocol paper-like"
    (quick,) = read_runs(store_in(tmp_path / "quick"))
    assert (quick.data.episodes, quick.data.anomalous) == (60, 30)
    assert not store_in(tmp_path).exists()


def test_times_are_shown_next_to_the_counts(tmp_path: Path) -> None:
    models = ("mh1dcnn-lstm",)
    outcome = reproduce(
        Request(
            "tab:timeparams",
            tmp_path,
            tmp_path,
            ("elevator",),
            models=models,
            overrides={"epochs": 1},
            compute=compute,
        )
    )
    (table,) = outcome.tables
    rows = {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert float(rows["mh1dcnn-lstm", "elevator"]["s / epoch"]) >= 0
    assert rows["mh1dcnn-lstm", "elevator"]["s / epoch printed"] == "73.48"
    assert rows["dfstrans", "elevator"]["s / epoch"] == "–"
    assert {data for _, data in rows} == {count["data"] for count in outcome.content["counts"]} == {"elevator"}
    assert (tmp_path / "timing_elevator_small_no-overlap.jsonl").exists()


# ---- ablation -------------------------------------------------------------------------------------------------------

CHOSEN_TOGETHER = {
    "batch_size": "goes with the learning rate",
    "learning_rate": "was chosen for its schedule and epochs",
    "weight_decay": "goes with the learning rate",
    "epochs": "the length of the training",
    "patience": "goes with the epochs",
    "select_by": "goes with the patience",
    "gradient_clip": "goes with the learning rate",
    "norm": "matters only to a CNN",
}
"""Settings in which the presets differ that have no row of their own, and why."""


def test_every_row_of_the_ablation_changes_what_it_names() -> None:
    whole = settings_of_model("dfstrans", {})
    changed = {
        model: {name for name, value in settings_of_model(model, {}).items() if value != whole[name]}
        for model in WITHOUT
    }
    assert changed["dfstrans-paper-size"] == {"embedding", "filters", "heads", "feedforward", "head_width"}
    assert changed["dfstrans-paper"] == {name for name, value in PRESETS["paper"].items() if value != whole[name]}
    assert changed["dfstrans-cnn"] == {"embedding", "quantile_features"}
    single = {model: names for model, names in changed.items() if "-paper" not in model and model != "dfstrans-cnn"}
    assert all(len(names) == 1 for names in single.values())
    assert {model.split("+")[1].split("=")[0] for model in single if "+" in model} | {"encoding"} == set().union(
        *single.values()
    )


def test_ablation_covers_every_difference_of_the_presets() -> None:
    whole, paper = settings_of_model("dfstrans", {}), settings_of_model("dfstrans-paper", {})
    different = {name for name, value in whole.items() if paper[name] != value}
    alone = [settings_of_model(model, {}) for model in WITHOUT if model != "dfstrans-paper"]
    covered = {name for name in different for settings in alone if settings[name] == paper[name]}
    assert different - covered == set(CHOSEN_TOGETHER)


def test_gain_is_the_mean_difference_on_the_same_splits_of_all_seeds() -> None:
    models = ("dfstrans", "dfstrans+mixup=0")
    f1 = {0: (0.9, 0.8), 1: (0.7, 0.5), 2: (0.6, 0.3)}  # by seed: the whole model, the model without
    runs = [made_up_run(models[which], seed=seed, f1=f1[seed][which]) for seed in f1 for which in (0, 1)]
    result = ComparisonResult(models, tuple(runs), 3)
    table = ablation_table(result)
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert first["F1 gain"] == ""
    assert (second["removed"], second["splits"], second["F1 gain"]) == ("mixup", "3 of 3", "+0.200")
    assert result.gains("f1", models[1]) == pytest.approx([0.1, 0.2, 0.3])
    assert " to " in table.rows[1][table.columns.index("F1 gain") + 1]
    assert "seed 0, 1, 2" in result.title


def test_quick_ablation_is_marked_and_computes_each_run_once(tmp_path: Path) -> None:
    asked: list[Comparison] = []

    def count(comparison: Comparison) -> dict[str, str]:
        asked.append(comparison)
        before = comparison.store.read_text() if comparison.store.exists() else ""
        failed = compute(comparison)
        assert before in ("", comparison.store.read_text())  # finished runs stay as they are
        return failed

    models = ("dfstrans+mixup=0", "dfstrans")
    for _ in range(2):
        outcome = reproduce(Request("ablation", tmp_path, tmp_path, models=models, quick=True, compute=count))
    assert [one.models for one in asked] == [("dfstrans", "dfstrans+mixup=0")] * 2
    assert [one.overrides["epochs"] for one in asked] == [1, 1]
    (table,) = outcome.tables
    assert table.title.startswith("ablation: QUICK LOOK")
    assert [row[:3] for row in table.rows] == [
        ("nothing", "dfstrans", "1 of 1"),
        ("mixup", "dfstrans+mixup=0", "1 of 1"),
    ]
    drawn = [path for path in outcome.written if path.suffix == ".svg"]  # none without matplotlib
    assert all(b"QUICK LOOK, NO RESULT" in path.read_bytes() for path in drawn)


def test_each_seed_has_its_own_store_except_the_first(tmp_path: Path) -> None:
    places: list[tuple[str, int]] = []

    def remember(comparison: Comparison) -> dict[str, str]:
        places.append((comparison.store.name, comparison.seed))
        return {}

    outcome = reproduce(Request("ablation", tmp_path, tmp_path, folds=3, seeds=2, compute=remember))
    assert places == [("elevator_small_no-overlap.jsonl", 0), ("elevator_small_no-overlap_seed_1.jsonl", 1)]
    assert outcome.tables[0].rows[0][1:3] == ("dfstrans", "0 of 6")


def test_part_of_an_ablation_is_not_drawn(out: Path) -> None:
    for model in ("dfstrans", "dfstrans+mixup=0"):
        add_run(store_in(out), made_up_run(model))
    part = finished("ablation", out, models=("dfstrans+mixup=0",), overrides={"seed": 0})
    assert [row[2] for row in reproduce(part).tables[0].rows] == ["1 of 5", "1 of 5"]
    assert [path.name for path in out.iterdir()] == [store_in(out).name]
