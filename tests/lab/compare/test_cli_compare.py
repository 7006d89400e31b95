"""`dfstrans compare` from end to end, also when it is killed, and its progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from dfstrans import save_episodes
from dfstrans.cli.runs import RunProgress, compute_with_progress
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.progress import RunStatus, seconds_left
from dfstrans.lab.compare.runs import read_runs
from dfstrans.training.lightning_module import EpochLog
from dfstrans.training.run_folder import Epochs
from tests.cli.command_line import run
from tests.lab.compare.made_up import made_up_run

EPISODES = planted_episodes(40, 20, n_sensors=2, n_timepoints=48)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of planted episodes."""
    path = tmp_path_factory.mktemp("recordings") / "recordings.h5"
    save_episodes(EPISODES, path)
    return path


def compare(recordings: Path, out: Path, models: str, *options: str) -> list[str]:
    return ["compare", str(recordings), "--out", str(out), "--models", models, *options]


def test_three_models_are_compared(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "dfstrans,boosting,mh1dcnn-lstm", "--epochs", "2", "--folds", "2", "--json")
    code, out, err = run(*command)
    assert code == 0, err
    result = json.loads(out)
    assert result["protocol"]["name"] == "no-overlap"
    assert set(result["models"]) == {"dfstrans", "boosting", "mh1dcnn-lstm"}
    for model in result["models"].values():
        assert model["splits"] == [0, 1]
        assert {"precision", "recall", "f1", "f1_at_half", "pr_auc", "false_alarms_per_100_normal"} <= set(model)
        assert len(model["f1"]["values"]) == 2
    assert result["models"]["boosting"]["seconds_per_epoch"] is None
    assert result["models"]["dfstrans"]["seconds_per_epoch"]["mean"] > 0
    assert set(result["tests"]["f1"]) == {"boosting", "mh1dcnn-lstm"}
    assert result["failed"] == {}
    assert "6 of 6 runs: mh1dcnn-lstm, split 1" in err
    page, markdown = ((tmp_path / f"comparison.{suffix}").read_text() for suffix in ("html", "md"))
    assert "Protocol no-overlap: no point is in two episodes" in page
    assert "Plotly.newPlot" in page  # the page itself draws the figure
    assert "| dfstrans | 2 of 2 |" in markdown
    (given,) = result["commands"]
    assert "--models dfstrans,boosting,mh1dcnn-lstm --folds 2 --split random --epochs 2" in given
    assert f"Command: {given}" in markdown
    assert f"Command: {given}" in page
    _, out, _ = run(*command[:-1], "--finished")
    assert "dfstrans against each rival" in out


def test_leakage_is_warned_of_and_measured(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(4, 400))
    rows = [f"m{m},{t},{noise[m, t]:.4f},{int(t // 100 == m)}" for m in range(4) for t in range(400)]
    (tmp_path / "noise.csv").write_text("\n".join(["machine,time,S1,label", *rows]))
    cutting = ("--id-column", "machine", "--length", "40", "--stride", "10", "--folds", "2")
    code, _, err = run(*compare(tmp_path / "noise.csv", tmp_path / "a", "boosting+trees=5", *cutting))
    assert code == 0, err
    assert "pieces of 4 recordings are in both the training and the test part" in err
    assert "add leakage to --models" in err
    code, out, err = run(*compare(tmp_path / "noise.csv", tmp_path / "b", "boosting+trees=5,leakage", *cutting))
    assert code == 0, err
    assert "add leakage" not in err
    assert "leakage ignores all sensor values: its F1 of" in out


def test_killed_comparison_continues_and_computes_no_run_twice(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "boosting,mh1dcnn-lstm", "--epochs", "2", "--folds", "2")
    store = tmp_path / "runs.jsonl"
    with subprocess.Popen([sys.executable, "-m", "dfstrans", *command], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while not store.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    before = store.read_text().splitlines()
    assert 1 <= len(before) < 4
    code, _, err = run(*command)
    assert code == 0, err
    assert f"{len(before)} of 4 runs are already finished" in err
    after = store.read_text().splitlines()
    assert len(after) == 4
    assert set(before) < set(after)
    assert err.count("runs: ") == 4 - len(before)
    assert not list(tmp_path.rglob("*.partial"))


def test_two_jobs_share_the_runs_and_try_each_once(recordings: Path, tmp_path: Path) -> None:
    constant = ("--set", "gradient_clip=1e30", "--set", "schedule=constant")
    diverging = ("--learning-rate", "1e30", *constant, "--epochs", "2")
    command = compare(recordings, tmp_path, "boosting,mh1dcnn-lstm", "--folds", "2", "--jobs", "2", *diverging)
    code, _, err = run(*command)
    assert code == 1, err
    assert [run.model for run in read_runs(tmp_path / "runs.jsonl")] == ["boosting", "boosting"]
    assert {f" of 4 runs: boosting, split {fold}" in err for fold in (0, 1)} == {True}
    for fold in range(2):
        assert err.count(f"mh1dcnn-lstm, split {fold} failed: ") == 1
        assert err.count(f"\nfailed: mh1dcnn-lstm, split {fold}: ") == 1


@pytest.mark.filterwarnings("always")
def test_worker_processes_do_not_repeat_warnings_of_reading(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [f"{t},{t % 7 + t // 30 % 2},{t // 30 % 2}" for t in range(1799)]
    (tmp_path / "long.csv").write_text("\n".join(["time,a,label", *lines]))
    command = compare(tmp_path / "long.csv", tmp_path / "out", "boosting", "--length", "30", "--folds", "2")
    code, _, err = run(*command, "--jobs", "2")
    assert code == 0, err
    assert err.count("points at the end of 1 of 1 recording:") == 1
    assert "points at the end" not in capfd.readouterr().err


def test_part_of_the_finished_runs_is_shown_and_not_written(recordings: Path, tmp_path: Path) -> None:
    both = compare(recordings, tmp_path, "boosting,boosting+trees=2", "--folds", "2")
    code, _, err = run(*both)
    assert code == 0, err
    (tmp_path / "comparison.md").write_text("the whole")
    for models, folds, beyond, *finished in (
        ("boosting", 2, "boosting+trees=2", "--finished"),
        ("boosting", 2, "boosting+trees=2"),
        ("boosting,boosting+trees=2", 1, "boosting, split 1, boosting+trees=2, split 1", "--finished"),
    ):
        code, out, err = run(*compare(recordings, tmp_path, models, "--folds", str(folds), *finished))
        assert code == 0, err
        assert f"shown but not written: {tmp_path} also has finished runs of {beyond};" in err
        assert f"{folds} of {folds}" in out
        assert "written   " not in out
        assert (tmp_path / "comparison.md").read_text() == "the whole"
    code, out, err = run(*both, "--finished")
    assert "not written" not in err
    assert "Command: dfstrans compare recordings.h5" in (tmp_path / "comparison.md").read_text()


def test_bad_requests_give_code_2_and_the_remedy(recordings: Path, tmp_path: Path) -> None:
    place = tmp_path / "results"
    code, out, err = run(*compare(recordings, place, "boosting", "--finished"))
    assert (code, out) == (2, "")
    assert f"expected finished runs in {place}, got none; omit --finished to compute them" in err
    code, _, err = run(*compare(recordings, place, "dfstrans,boostin"))
    assert code == 2
    assert "did you mean boosting?" in err
    assert not place.exists()


# ---- progress -------------------------------------------------------------------------------------------------------


def network_grid(out: Path, epochs: int = 3) -> Grid:
    given = Comparison(
        Path("recordings.h5"), out / "runs.jsonl", ("mh1dcnn-lstm",), folds=2, overrides={"epochs": epochs}
    )
    return Grid(given, EPISODES)


def interrupt_in_epoch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt when the epoch of that number starts."""
    start = EpochLog.on_train_epoch_start

    def interrupt(self: EpochLog, trainer: Any, module: Any) -> None:
        if trainer.current_epoch + 1 == number:
            raise KeyboardInterrupt
        start(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", interrupt)


def test_interrupted_comparison_says_which_epochs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = network_grid(tmp_path)
    with monkeypatch.context() as patch:
        interrupt_in_epoch(3, patch)
        with pytest.raises(typer.Exit):
            compute_with_progress(grid, 1, None)
    said = capsys.readouterr().err
    assert "mh1dcnn-lstm, split 0: started\n" in said
    assert "0 of 2 runs and 2 of 3 epochs of mh1dcnn-lstm, split 0 are kept in" in said
    assert compute_with_progress(grid, 1, None) == {}
    said = capsys.readouterr().err
    assert "mh1dcnn-lstm, split 0: resuming after epoch 2\n" in said
    assert "1 of 2 runs: mh1dcnn-lstm, split 0: F1 " in said
    assert said.count(" left\n") == 1  # not after the last run


def test_long_run_shows_its_epoch_and_restarts_from_a_damaged_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = network_grid(tmp_path)
    interrupt_in_epoch(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        compute_runs(grid)
    with RunProgress(grid, jobs=1, line_seconds=0.01) as shown:
        shown.begin(grid.keys[0])
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert said.count("mh1dcnn-lstm, split 0: epoch 2 of 3; about ") == 1  # no line twice
    (grid.training_folder(grid.keys[0]) / "last.ckpt").write_bytes(b"damaged")
    with RunProgress(grid, jobs=1) as shown:
        shown.begin(grid.keys[0])
    assert "mh1dcnn-lstm, split 0: started\n" in capsys.readouterr().err


def test_time_left_comes_from_epochs_and_finished_runs(tmp_path: Path) -> None:
    grid = network_grid(tmp_path, epochs=10)
    first = grid.keys[0].label
    assert seconds_left(grid.keys, [], {first: Epochs(0, 10, 0.0)}) is None
    assert seconds_left(grid.keys, [], {first: Epochs(4, 10, 20.0)}) == 30 + 50
    status = RunStatus(grid, jobs=4)
    status.done = [made_up_run("mh1dcnn-lstm")]  # took 20 s
    assert status.time_left() == "about 20 s left"
    status.begin(grid.keys[1])
    assert status.end(DfstransError("expected another thing"), grid.keys[1]).endswith("failed: expected another thing")
    status.done = [made_up_run("mh1dcnn-lstm")]
    assert status.time_left() == ""  # failed runs are not waited for
