"""Runs are computed once, kept, and never overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import detector_kind
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.protocols import splits_of
from dfstrans.lab.compare.runs import Run, RunKey, add_run, claimed, read_runs
from dfstrans.lab.compare.variants import settings_of_model
from tests.tiny import interrupt_after

EPISODES = planted_episodes(40, 20, n_sensors=2, n_timepoints=48)
NETWORK: dict[str, Any] = {"models": ("mh1dcnn-lstm",), "folds": 1, "overrides": {"epochs": 3}}


def comparison(store: Path, **changes: Any) -> Comparison:
    return Comparison(Path("somewhere/recordings.h5"), store, **{"models": ("boosting",), "folds": 2, **changes})


def computed(grid: Grid) -> list[str]:
    found: list[str] = []
    assert compute_runs(grid, end=lambda _, key: found.append(key.label)) == {}
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs; not to be changed."""
    store = tmp_path_factory.mktemp("results") / "runs.jsonl"
    assert computed(Grid(comparison(store), EPISODES)) == ["boosting, split 0", "boosting, split 1"]
    return store


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    (tmp_path / "runs.jsonl").write_bytes(finished.read_bytes())
    return tmp_path / "runs.jsonl"


# ---- what a run holds -----------------------------------------------------------------------------------------------


def test_run_records_everything_to_repeat_it_and_no_path(finished: Path) -> None:
    run = read_runs(finished)[1]
    assert run.command == "dfstrans compare recordings.h5 --out RESULTS --models boosting --folds 2 --split random"
    assert run.data.fingerprint == EPISODES.fingerprint()
    assert (run.data.episodes, run.data.anomalous, run.data.sensors, run.data.longest) == (60, 20, 2, 48)
    assert (run.protocol.name, run.protocol.seed) == ("no-overlap", 0)
    assert run.settings["trees"] == 300
    assert {"python", "dfstrans", "torch"} <= set(run.versions)
    assert str(finished.parent) not in finished.read_text()
    assert "somewhere" not in finished.read_text()
    assert {path.name for path in finished.parent.iterdir()} == {"runs.jsonl", "runs.parts.jsonl"}


def test_metrics_of_a_run_are_those_of_the_model_on_its_split(finished: Path) -> None:
    train, validation, test = (EPISODES[rows] for rows in splits_of(EPISODES, "random", 2, 0)[1])
    detector = detector_kind("boosting")().fit(train, validation=validation)
    assert read_runs(finished)[1].test == detector.evaluate(test).to_dict()


def test_current_folder_has_a_name_and_a_link_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "press").mkdir()
    (tmp_path / "machine").symlink_to(tmp_path / "press")
    monkeypatch.chdir(tmp_path / "press")
    for data, name in ((".", "press"), ("../machine", "machine")):
        given = Comparison(Path(data), tmp_path / "runs.jsonl", ("boosting",), folds=2)
        assert given.command("boosting").startswith(f"dfstrans compare {name} --out")
        assert Grid(given, EPISODES).data_record().name == name


# ---- what is computed -----------------------------------------------------------------------------------------------


def test_finished_runs_are_not_computed_again_and_a_comparison_can_grow(copy: Path) -> None:
    before = copy.read_text()
    assert computed(Grid(comparison(copy), EPISODES)) == []
    assert computed(Grid(comparison(copy, folds=3), EPISODES)) == ["boosting, split 2"]
    assert copy.read_text().startswith(before)


def test_leftovers_of_a_finished_run_are_removed(copy: Path) -> None:
    grid = Grid(comparison(copy), EPISODES)
    grid.training_folder(grid.keys[0]).mkdir(parents=True)  # a process was killed after it had stored the run
    assert computed(grid) == []
    assert [path.name for path in copy.parent.iterdir()] == ["runs.jsonl"]


def test_run_of_another_process_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(comparison(tmp_path / "runs.jsonl"), EPISODES)
    found: list[str] = []

    def wait(_: float) -> None:
        assert found == ["boosting, split 1"]  # everything that was free
        raise TimeoutError

    monkeypatch.setattr("time.sleep", wait)
    with claimed(grid.comparison.store, grid.keys[0]), pytest.raises(TimeoutError):
        compute_runs(grid, end=lambda _, key: found.append(key.label))
    assert computed(grid) == ["boosting, split 0"]  # the other process ended without a result


def test_run_just_finished_by_another_process_is_not_computed(tmp_path: Path, finished: Path) -> None:
    grid = Grid(comparison(tmp_path / "runs.jsonl"), EPISODES)
    outcomes: list[Any] = []

    def finish_the_other(outcome: Any, key: RunKey) -> None:
        outcomes.append(outcome)
        if key.fold == 0:
            add_run(grid.comparison.store, read_runs(finished)[1])

    assert compute_runs(grid, end=finish_the_other) == {}
    assert [type(outcome) for outcome in outcomes] == [Run, type(None)]
    assert len(grid.finished()) == 2


def test_failed_run_is_tried_once_and_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(comparison(tmp_path / "runs.jsonl"), EPISODES)
    compute, tried = Grid.compute, []

    def fail_once(self: Grid, key: RunKey) -> list[Run]:
        tried.append(key.fold)
        if key.fold == 0:
            raise DfstransError("training diverged")
        return compute(self, key)

    monkeypatch.setattr(Grid, "compute", fail_once)
    assert compute_runs(grid) == {"boosting, split 0": "training diverged"}
    assert tried == [0, 1]
    assert [run.fold for run in grid.finished()] == [1]


def test_interrupted_training_continues_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = comparison(tmp_path / "killed.jsonl", **NETWORK)
    with monkeypatch.context() as patch:
        epochs = interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            compute_runs(Grid(given, EPISODES))
        compute_runs(Grid(given, EPISODES))
    assert epochs == [0, 1, 2, 2]
    whole = comparison(tmp_path / "whole.jsonl", **NETWORK)
    compute_runs(Grid(whole, EPISODES))
    (killed,), (uninterrupted,) = read_runs(given.store), read_runs(whole.store)
    assert killed.test == uninterrupted.test
    assert killed.training.epochs == 3


def test_damaged_checkpoint_starts_again(tmp_path: Path) -> None:
    grid = Grid(comparison(tmp_path / "runs.jsonl", **{**NETWORK, "overrides": {"epochs": 1}}), EPISODES)
    (key,) = grid.keys
    grid.compute(key)
    (checkpoint,) = grid.training_folder(key).rglob("last.ckpt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    assert computed(grid) == ["mh1dcnn-lstm, split 0"]


# ---- what is refused before hours are spent -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"overrides": {"seed": 1}}, "splits of seed 0"),
        ({"overrides": {"imbalance": "none"}}, "imbalance='weighted' instead of 'none'"),
    ],
)
def test_runs_of_another_comparison_are_refused_and_kept(finished: Path, changes: dict[str, Any], what: str) -> None:
    before = finished.read_bytes()
    with pytest.raises(DfstransError, match=f"{what}.*choose another folder.*nothing was overwritten"):
        Grid(comparison(finished, **changes), EPISODES)
    with pytest.raises(DfstransError, match="other recordings"):
        Grid(comparison(finished), planted_episodes(40, 20, n_sensors=2, n_timepoints=48, seed=1))
    assert finished.read_bytes() == before


def test_run_of_another_training_part_is_refused(copy: Path) -> None:
    text = copy.read_text()
    assert '"train_episodes":42' in text
    copy.write_text(text.replace('"train_episodes":42', '"train_episodes":43'))
    with pytest.raises(DfstransError, match="trained on 43 episodes instead of 42"):
        Grid(comparison(copy), EPISODES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ("tapnett",)}, r"dfstrans-paper.*got tapnett; did you mean tapnet\?"),
        ({"models": ("boosting", "boosting")}, "each of models once, got boosting"),
        ({"overrides": {"epochs": 3}}, "one of boosting has, got epochs"),
        ({"models": ("mh1dcnn-lstm",), "overrides": {"epochs": 0}}, "epochs to be a whole number of at least 1, got 0"),
    ],
)
def test_impossible_models_and_settings_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        Grid(comparison(tmp_path / "runs.jsonl", **changes), EPISODES)
    assert list(tmp_path.iterdir()) == []


def test_absent_library_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfstrans.lab.compare.variants.find_spec", lambda _: None)
    with pytest.raises(DfstransError, match=r"package aeon for minirocket.*dfstrans\[rivals\]"):
        comparison(tmp_path, models=("boosting", "minirocket"))


def test_learning_rate_of_networks_does_not_apply_to_trees() -> None:
    assert "learning_rate" not in settings_of_model("boosting", {"learning_rate": 1e-4})
    assert settings_of_model("dfstrans", {"learning_rate": 1e-4})["learning_rate"] == 1e-4


# ---- splits ---------------------------------------------------------------------------------------------------------


def test_first_splits_do_not_depend_on_the_number_of_splits() -> None:
    few, many = splits_of(EPISODES, "random", 3, 0), splits_of(EPISODES, "random", 5, 0)
    for parts, same in zip(few, many, strict=False):
        assert all(np.array_equal(rows, others) for rows, others in zip(parts, same, strict=True))


@pytest.mark.parametrize("n_folds", [1, 5])
@pytest.mark.parametrize(("normal", "anomalous"), [(20, 0), (20, 3), (2, 20)])
def test_fewer_folds_are_not_advised_where_a_single_one_fails(normal: int, anomalous: int, n_folds: int) -> None:
    episodes = planted_episodes(normal, anomalous, n_sensors=2, n_timepoints=48)
    with pytest.raises(DfstransError, match=f"at least 4 normal and 4 anom.*got {normal} and {anomalous}") as caught:
        splits_of(episodes, "random", n_folds, 0)
    assert "fewer" not in str(caught.value)


def test_fewer_folds_are_advised_where_they_help() -> None:
    episodes = planted_episodes(20, 4, n_sensors=2, n_timepoints=48)
    with pytest.raises(DfstransError, match=r"at least 5 episodes of each class for 5 folds, got 4.*use fewer folds"):
        splits_of(episodes, "random", 5, 0)
    assert len(splits_of(episodes, "random", 4, 0)) == 4


def in_groups(groups: npt.NDArray[Any]) -> Episodes:
    values = np.stack([episode.values for episode in EPISODES])
    return Episodes.from_arrays(values, EPISODES.require_labels(), groups=groups.astype(str))


def test_groups_are_drawn_again_where_a_part_lacks_a_class() -> None:
    numbers = np.arange(60)
    some_without = in_groups(np.where(EPISODES.require_labels() == 1, numbers % 4, numbers % 6))
    for n_folds in (5, 12):  # the first draw of split 2 has a part without anomalies
        assert len(splits_of(some_without, "grouped", n_folds, 0)) == n_folds


def test_part_without_anomalies_is_refused() -> None:
    groups = np.where(EPISODES.require_labels() == 1, "broken", np.where(np.arange(60) % 2, "good", "fine"))
    with pytest.raises(DfstransError, match=r"part of every split, got .* in split 0.*more groups") as caught:
        splits_of(in_groups(groups), "grouped", 2, 0)
    assert "folds" not in str(caught.value)
    with pytest.raises(DfstransError, match="with a group"):
        splits_of(EPISODES, "grouped", 2, 0)
