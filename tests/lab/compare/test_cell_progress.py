"""Who waits for a cell is told which one it is, how far it is, and what is kept of it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from dfstrans.cli import compare_progress as cli_progress
from dfstrans.cli.compare import run_with_progress
from dfstrans.cli.compare_progress import CellProgress, seconds_left
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison, Grid
from dfstrans.training.lightning_module import EpochLog
from dfstrans.training.run_folder import Epochs

EPISODES = planted_episodes(40, 20, n_sensors=2, n_timepoints=48)


def network_grid(out: Path, epochs: int = 3) -> Grid:
    given = Comparison(Path("recordings.h5"), out, ("mh1dcnn-lstm",), folds=2, overrides={"epochs": epochs})
    return Grid(given, EPISODES)


def interrupt_in_epoch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt when the epoch of that number starts."""
    start = EpochLog.on_train_epoch_start

    def interrupt(self: EpochLog, trainer: Any, module: Any) -> None:
        if trainer.current_epoch + 1 == number:
            raise KeyboardInterrupt
        start(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", interrupt)


def test_an_interrupted_comparison_says_which_epochs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = network_grid(tmp_path)
    with monkeypatch.context() as patch:
        interrupt_in_epoch(3, patch)
        with pytest.raises(typer.Exit):
            run_with_progress(grid, 1, None)
    said = capsys.readouterr().err
    assert "mh1dcnn-lstm, split 0: begun\n" in said
    assert "0 of 2 cells and 2 of 3 epochs of mh1dcnn-lstm, split 0 are kept in" in said
    assert run_with_progress(grid, 1, None) == {}
    said = capsys.readouterr().err
    assert "mh1dcnn-lstm, split 0: goes on after epoch 2\n" in said
    assert "1 of 2 cells: mh1dcnn-lstm, split 0: F1 " in said
    assert said.count(" left\n") == 1  # nothing is, after the last


def test_a_cell_whose_checkpoint_is_damaged_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = network_grid(tmp_path)
    interrupt_in_epoch(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        grid.work()
    (grid.run_folder(grid.keys[0]) / "last.ckpt").write_bytes(b"damaged")
    with CellProgress(grid, jobs=1) as shown:
        shown.begin(grid.keys[0])
    assert "mh1dcnn-lstm, split 0: begun\n" in capsys.readouterr().err


def test_a_long_cell_says_its_epoch_and_the_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = network_grid(tmp_path)
    with monkeypatch.context() as patch:
        interrupt_in_epoch(2, patch)
        with pytest.raises(KeyboardInterrupt):
            grid.work()
    monkeypatch.setattr(cli_progress, "LINE_SECONDS", 0.01)
    with CellProgress(grid, jobs=1) as shown:
        shown.begin(grid.keys[0])
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert said.count("mh1dcnn-lstm, split 0: epoch 2 of 3; about ") == 1  # only what is new is said


def test_the_time_left_goes_by_the_epochs_of_the_first_cell(tmp_path: Path) -> None:
    grid = network_grid(tmp_path, epochs=10)
    first = grid.keys[0].label
    assert seconds_left(grid.keys, [], {first: Epochs(0, 10, 0.0)}) is None
    assert seconds_left(grid.keys, [], {first: Epochs(4, 10, 20.0)}) == 30 + 50


def finished_cell(grid: Grid, seconds: float) -> Any:
    """The first of a grid, as far as the time left goes by it."""
    key = grid.keys[0]
    return SimpleNamespace(model=key.model, fold=key.fold, training=SimpleNamespace(seconds=seconds))


def test_the_time_left_goes_by_the_cells_that_can_still_be_done(tmp_path: Path) -> None:
    grid = network_grid(tmp_path)
    shown = CellProgress(grid, jobs=4)
    shown.done = [finished_cell(grid, 20.0)]
    assert shown._left() == "about 20 s left"
    shown.failed.add(grid.keys[1].label)
    assert shown._left() == ""


def test_a_failed_cell_waits_no_longer(tmp_path: Path) -> None:
    grid = network_grid(tmp_path)
    with CellProgress(grid, jobs=1) as shown:
        for key in grid.keys:
            shown.begin(key)
            shown.tell(DfstransError("expected another thing"), key)
        assert shown._left() == ""
