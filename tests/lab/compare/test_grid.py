"""Cells are computed once, kept, and never overwritten."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.grid import Comparison, Grid
from dfstrans.lab.compare.protocols import splits_of
from dfstrans.lab.compare.runs import Cell, CellKey, cell_path, claimed, partial_folder, read_cell
from dfstrans.lab.compare.variants import settings_of_model

EPISODES = planted_episodes(40, 20, n_sensors=2, n_timepoints=48)


def comparison(out: Path, **changes: Any) -> Comparison:
    given: dict[str, Any] = {"models": ("boosting",), "folds": 2, **changes}
    return Comparison(Path("somewhere/recordings.h5"), out, **given)


def computed(grid: Grid) -> list[str]:
    found: list[str] = []
    assert grid.work(lambda _, key: found.append(key.label)) == {}
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished cells; not to be changed."""
    out = tmp_path_factory.mktemp("results")
    assert computed(Grid(comparison(out), EPISODES)) == ["boosting, split 0", "boosting, split 1"]
    return out


def test_a_cell_says_all_that_is_needed_to_repeat_it(results: Path) -> None:
    cell = read_cell(cell_path(results, "boosting", 1))
    assert cell.command == "dfstrans compare recordings.h5 --out RESULTS --models boosting --folds 2 --split random"
    assert cell.data.fingerprint == EPISODES.fingerprint()
    assert (cell.data.episodes, cell.data.anomalous, cell.data.sensors, cell.data.longest) == (60, 20, 2, 48)
    assert (cell.protocol.name, cell.protocol.seed) == ("no-overlap", 0)
    assert cell.settings["trees"] == 300
    assert {"python", "dfstrans", "torch"} <= set(cell.versions)
    assert cell.test["threshold"] != cell.test_at_half["threshold"] == 0.5
    assert cell.test["episodes"] == 9
    assert not list(results.rglob("*.partial"))


def test_the_folder_that_one_is_in_has_a_name_and_a_link_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "press").mkdir()
    (tmp_path / "machine").symlink_to(tmp_path / "press")
    monkeypatch.chdir(tmp_path / "press")
    for data, name in ((".", "press"), ("../machine", "machine")):
        given = Comparison(Path(data), tmp_path / "out", ("boosting",), folds=2)
        assert given.command("boosting").startswith(f"dfstrans compare {name} --out")
        assert Grid(given, EPISODES)._data_record().name == name


def test_no_path_of_the_machine_is_in_a_cell(results: Path) -> None:
    text = "".join(path.read_text() for path in results.rglob("*.json"))
    assert text
    assert str(results) not in text
    assert "somewhere" not in text


def test_the_figures_of_a_cell_are_those_of_the_model_on_its_split(results: Path) -> None:
    from dfstrans.detectors.registry import detector_kind

    train, validation, test = (EPISODES[rows] for rows in splits_of(EPISODES, "random", 2, 0)[1])
    detector = detector_kind("boosting")().fit(train, validation=validation)
    assert read_cell(cell_path(results, "boosting", 1)).test == detector.evaluate(test).to_dict()


def test_finished_cells_are_not_computed_again_and_a_comparison_can_grow(results: Path) -> None:
    before = {path: path.read_bytes() for path in results.rglob("*.json")}
    assert computed(Grid(comparison(results), EPISODES)) == []
    assert computed(Grid(comparison(results, folds=3), EPISODES)) == ["boosting, split 2"]
    assert {path: path.read_bytes() for path in before} == before


def test_what_a_killed_process_left_of_a_finished_cell_is_cleared(tmp_path: Path) -> None:
    grid = Grid(comparison(tmp_path, folds=1), EPISODES)
    assert computed(grid) == ["boosting, split 0"]
    left = partial_folder(cell_path(tmp_path, "boosting", 0))
    left.mkdir()
    assert computed(grid) == []
    assert not left.exists()


def test_a_damaged_checkpoint_of_a_cell_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = comparison(tmp_path, models=("mh1dcnn-lstm",), folds=1, overrides={"epochs": 1, "batch_size": 16})
    grid = Grid(given, EPISODES)
    (key,) = grid.keys
    partial = partial_folder(grid.path(key))
    grid.compute(key)
    (checkpoint,) = partial.rglob("last.ckpt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    assert computed(grid) == ["mh1dcnn-lstm, split 0"]


def test_a_setting_that_an_older_cell_does_not_know_was_as_it_is_by_default(results: Path, tmp_path: Path) -> None:
    path = cell_path(tmp_path, "boosting", 0)
    content = json.loads(cell_path(results, "boosting", 0).read_text())
    del content["settings"]["imbalance"]
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    assert len(Grid(comparison(tmp_path, folds=1), EPISODES).finished()) == 1
    with pytest.raises(DfstransError, match="imbalance='weighted' instead of 'none'"):
        Grid(comparison(tmp_path, folds=1, overrides={"imbalance": "none"}), EPISODES)


def test_the_learning_rate_of_networks_leaves_the_trees_alone() -> None:
    assert "learning_rate" not in settings_of_model("boosting", {"learning_rate": 1e-4})
    assert settings_of_model("dfstrans", {"learning_rate": 1e-4})["learning_rate"] == 1e-4


def test_the_first_splits_are_the_same_for_any_number_of_them() -> None:
    few, many = splits_of(EPISODES, "random", 3, 0), splits_of(EPISODES, "random", 5, 0)
    for parts, same in zip(few, many, strict=False):
        assert all(np.array_equal(rows, others) for rows, others in zip(parts, same, strict=True))


def test_a_cell_that_another_process_works_on_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(comparison(tmp_path), EPISODES)
    with claimed(grid.path(grid.keys[0])) as partial:
        assert partial is not None
        found: list[str] = []

        def wait(_: float) -> None:
            assert found == ["boosting, split 1"]  # all that was free
            raise TimeoutError

        monkeypatch.setattr("time.sleep", wait)
        with pytest.raises(TimeoutError):
            grid.work(lambda _, key: found.append(key.label))
    assert computed(grid) == ["boosting, split 0"]  # the other one ended without a result


def test_a_cell_that_was_finished_meanwhile_is_not_computed(tmp_path: Path, results: Path) -> None:
    grid = Grid(comparison(tmp_path), EPISODES)
    first, second = grid.keys

    def finish_the_other(cell: Cell | DfstransError, key: CellKey) -> None:
        assert key == first
        grid.path(second).write_bytes(cell_path(results, "boosting", 1).read_bytes())

    grid.work(finish_the_other)
    assert len(grid.finished()) == 2


def test_a_cell_that_cannot_be_computed_does_not_keep_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(comparison(tmp_path), EPISODES)
    compute = Grid.compute

    def fail_once(self: Grid, key: CellKey) -> Cell:
        if key.fold == 0:
            raise DfstransError("training diverged")
        return compute(self, key)

    monkeypatch.setattr(Grid, "compute", fail_once)
    assert grid.work() == {"boosting, split 0": "training diverged"}
    assert [cell.fold for cell in grid.finished()] == [1]


def test_a_cell_that_failed_is_not_tried_again_by_the_other_processes_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, given_up = [], [0, 0, 0]

    def fail(self: Grid, key: CellKey) -> Cell:
        tried.append(key.fold)
        given_up[1] = 1  # meanwhile, in another process
        raise DfstransError("training diverged")

    monkeypatch.setattr(Grid, "compute", fail)
    first, second = (Grid(comparison(tmp_path, folds=3), EPISODES) for _ in range(2))
    assert first.work(given_up=given_up).keys() == {"boosting, split 0", "boosting, split 2"}
    assert second.work(given_up=given_up) == {}
    assert tried == [0, 2]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"overrides": {"seed": 1}}, "splits by the seed 0"),
        ({"overrides": {"imbalance": "none"}}, "imbalance='weighted' instead of 'none'"),
    ],
)
def test_cells_of_another_comparison_are_refused_and_kept(results: Path, changes: dict[str, Any], what: str) -> None:
    before = {path: path.read_bytes() for path in results.rglob("*.json")}
    with pytest.raises(DfstransError, match=f"{what}.*choose another folder.*nothing was overwritten"):
        Grid(comparison(results, **changes), EPISODES)
    assert {path: path.read_bytes() for path in before} == before


def test_a_cell_of_parts_that_are_no_longer_cut_so_is_refused(tmp_path: Path) -> None:
    grid = Grid(comparison(tmp_path, folds=1), EPISODES)
    grid.work()
    path = grid.path(grid.keys[0])
    learned = len(grid.splits[0][0])
    path.write_text(path.read_text().replace(f'"train_episodes": {learned}', f'"train_episodes": {learned + 1}'))
    with pytest.raises(DfstransError, match=f"learned from {learned + 1} episodes instead of {learned}"):
        Grid(comparison(tmp_path, folds=1), EPISODES)


def test_cells_of_other_recordings_are_refused(results: Path) -> None:
    with pytest.raises(DfstransError, match="other recordings"):
        Grid(comparison(results), planted_episodes(40, 20, n_sensors=2, n_timepoints=48, seed=1))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "cannot be read"),
        ("[]", "of another kind"),
        ('{"format": "dfstrans-cell", "version": 99, "versions": {"dfstrans": "7.0"}}', r"version 99.*\(7.0\)"),
        ('{"format": "dfstrans-cell", "version": 3}', "damaged"),
    ],
)
def test_what_is_no_cell_of_this_version_is_refused_and_kept(tmp_path: Path, content: str, what: str) -> None:
    path = cell_path(tmp_path, "boosting", 0)
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(DfstransError, match=what):
        Grid(comparison(tmp_path), EPISODES)
    assert path.read_text() == content


@pytest.mark.parametrize("part", ["test", "test_at_half", "validation", "validation_at_half"])
@pytest.mark.parametrize(
    ("figures", "what"),
    [
        ({"f1": ...}, "got none for f1"),
        ({"anomalous": ..., "roc_auc": ...}, "got none for anomalous, roc_auc"),
        ({"f1": 1.5}, "expected f1 between 0 and 1, got 1.5"),
        ({"pr_auc": -0.1}, "expected pr_auc between 0 and 1, got -0.1"),
    ],
)
def test_a_cell_without_a_figure_or_with_an_impossible_one_is_damaged(
    results: Path, tmp_path: Path, part: str, figures: dict[str, Any], what: str
) -> None:
    content = json.loads(cell_path(results, "boosting", 0).read_text())
    changed = {**content[part], **figures}
    content[part] = {name: value for name, value in changed.items() if value is not ...}
    path = cell_path(tmp_path, "boosting", 0)
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    with pytest.raises(DfstransError, match=f"{re.escape(str(path))}, got a damaged one .{part}: .*{what}.*restore it"):
        read_cell(path)


def test_a_setting_that_is_newer_than_a_cell_does_not_make_it_invalid(results: Path, tmp_path: Path) -> None:
    content = json.loads(cell_path(results, "boosting", 0).read_text())
    del content["settings"]["fewest_in_leaf"]
    path = cell_path(tmp_path, "boosting", 0)
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    assert len(Grid(comparison(tmp_path), EPISODES).finished()) == 1


def test_an_interrupted_training_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfstrans.training.lightning_module import EpochLog

    given = comparison(tmp_path / "killed", models=("mh1dcnn-lstm",), folds=1, overrides={"epochs": 3})
    epochs: list[int] = []
    end = EpochLog.on_train_epoch_start

    def count(self: EpochLog, trainer: Any, module: Any) -> None:
        epochs.append(trainer.current_epoch)
        if len(epochs) == 3:
            raise KeyboardInterrupt
        end(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", count)
    with pytest.raises(KeyboardInterrupt):
        Grid(given, EPISODES).work()
    Grid(given, EPISODES).work()
    assert epochs == [0, 1, 2, 2]
    monkeypatch.undo()
    whole = comparison(tmp_path / "whole", models=("mh1dcnn-lstm",), folds=1, overrides={"epochs": 3})
    Grid(whole, EPISODES).work()
    killed, uninterrupted = (read_cell(cell_path(one.out, "mh1dcnn-lstm", 0)) for one in (given, whole))
    assert killed.test == uninterrupted.test
    assert killed.training.epochs == 3


def test_mean_and_spread_are_those_of_a_hand_calculation(results: Path) -> None:
    cells = [read_cell(cell_path(results, "boosting", fold)) for fold in (0, 1)]
    planted = [
        cell.model_copy(update={"test": {**cell.test, "f1": f1}}) for cell, f1 in zip(cells, (0.5, 0.9), strict=True)
    ]
    result = ComparisonResult(("boosting", "tapnet"), tuple(planted), folds=5)
    f1 = result.spreads("boosting")["f1"]
    assert f1 is not None
    assert f1.mean == pytest.approx(0.7)
    assert f1.std == pytest.approx(0.08**0.5)  # √((0.2² + 0.2²) / 1)
    row = dict(zip(result.table().columns, result.table().rows[0], strict=True))
    assert row["F1"] == "0.700 ± 0.283"
    assert row["splits"] == "2 of 5"
    assert result.table().rows[1][1:] == ("0 of 5", *"–––––––––––")


def test_models_are_tested_on_the_splits_that_both_have(results: Path) -> None:
    cells = [read_cell(cell_path(results, "boosting", fold)) for fold in (0, 1)]
    rival = cells[1].model_copy(update={"model": "tapnet", "test": {**cells[1].test, "f1": 0.25}})
    result = ComparisonResult(("boosting", "tapnet"), (*cells, rival), folds=2)
    test = result.tests("f1")["tapnet"]
    assert test.splits == 1
    assert test.difference == pytest.approx(float(cells[1].test["f1"] or 0) - 0.25)
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert result.test_table().rows[0][4:] == ("too few splits", "–", "–")


# ---- what is refused before hours are spent -----------------------------------------------------------------------


def test_an_unknown_model_gets_the_known_ones_and_a_guess(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"dfstrans-paper.*got tapnett; did you mean tapnet\?"):
        comparison(tmp_path, models=("tapnett",))
    with pytest.raises(DfstransError, match="each of models once, got boosting"):
        comparison(tmp_path, models=("boosting", "boosting"))


def test_an_absent_library_is_told_of_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfstrans.lab.compare.variants.find_spec", lambda _: None)
    with pytest.raises(DfstransError, match=r"package aeon for minirocket.*dfstrans\[rivals\]"):
        comparison(tmp_path, models=("boosting", "minirocket"))


def test_a_setting_that_no_model_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="one of boosting has, got epochs"):
        comparison(tmp_path, overrides={"epochs": 3})


def test_a_setting_that_no_data_could_make_right_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="epochs to be a whole number of at least 1, got 0"):
        Grid(comparison(tmp_path, models=("boosting", "mh1dcnn-lstm"), overrides={"epochs": 0}), EPISODES)
    assert list(tmp_path.iterdir()) == []


def test_too_few_anomalies_are_told_of_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"at least 5 episodes of each class for 5 folds, got 4.*use fewer folds"):
        Grid(comparison(tmp_path, folds=5), planted_episodes(20, 4, n_sensors=2, n_timepoints=48))
    assert len(Grid(comparison(tmp_path, folds=4), planted_episodes(20, 4, n_sensors=2, n_timepoints=48)).splits) == 4


@pytest.mark.parametrize("n_folds", [1, 5])
@pytest.mark.parametrize(("normal", "anomalous"), [(20, 0), (20, 3), (2, 20)])
def test_fewer_folds_are_not_advised_where_a_single_one_fails(
    normal: int, anomalous: int, n_folds: int, tmp_path: Path
) -> None:
    episodes = planted_episodes(normal, anomalous, n_sensors=2, n_timepoints=48)
    said = f"at least 4 normal and 4 anomalous episodes.*got {normal} and {anomalous}; .* rarer class"
    with pytest.raises(DfstransError, match=said) as caught:
        Grid(comparison(tmp_path, folds=n_folds), episodes)
    assert "fewer" not in str(caught.value)


def in_groups(groups: npt.NDArray[Any]) -> Episodes:
    values = np.stack([episode.values for episode in EPISODES])
    return Episodes.from_arrays(values, EPISODES.require_labels(), groups=groups.astype(str))


def test_groups_are_drawn_anew_where_a_part_lacks_a_class() -> None:
    numbers = np.arange(60)
    some_without = in_groups(np.where(EPISODES.require_labels() == 1, numbers % 4, numbers % 6))
    for n_folds in (5, 12):
        splits = splits_of(some_without, "grouped", n_folds, 0)  # split 2 was one without anomalies at first
        assert len(splits) == n_folds


def test_a_part_without_anomalies_is_told_of(tmp_path: Path) -> None:
    groups = np.where(EPISODES.require_labels() == 1, "broken", np.where(np.arange(60) % 2, "good", "fine"))
    with pytest.raises(DfstransError, match=r"part of every split, got .* in split 0.*more groups") as caught:
        Grid(comparison(tmp_path, split="grouped"), in_groups(groups))
    assert "folds" not in str(caught.value)
    with pytest.raises(DfstransError, match="with a group"):
        Grid(comparison(tmp_path, split="grouped"), EPISODES)
