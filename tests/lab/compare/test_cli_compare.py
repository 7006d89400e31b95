"""`dfstrans compare` from end to end, also when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command_line import run


def compare(recordings: Path, out: Path, models: str, *options: str) -> list[str]:
    return ["compare", str(recordings), "--out", str(out), "--models", models, *options]


def test_a_model_and_two_rivals_are_compared(recordings: Path, tmp_path: Path) -> None:
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
    assert "6 of 6 cells: mh1dcnn-lstm, split 1" in err
    page = (tmp_path / "comparison.html").read_text()
    assert "Protocol no-overlap: no point is in two episodes" in page
    assert "Plotly.newPlot" in page  # the figure is drawn by the page itself
    markdown = (tmp_path / "comparison.md").read_text()
    assert "| dfstrans | 2 of 2 |" in markdown
    (given,) = result["commands"]
    assert "--models dfstrans,boosting,mh1dcnn-lstm --folds 2 --split random --epochs 2" in given
    assert f"Command: {given}" in markdown
    assert f"Command: {given}" in page
    _, out, _ = run(*command[:-1], "--finished")
    assert "dfstrans against each rival" in out


def test_pieces_on_both_sides_are_told_of_and_measured(tmp_path: Path) -> None:
    rows = ["machine,time,S1,label"]
    noise = np.random.default_rng(0).normal(size=(4, 400))
    for machine in range(4):
        rows += [f"m{machine},{t},{noise[machine, t]:.4f},{int(t // 100 == machine)}" for t in range(400)]
    (tmp_path / "noise.csv").write_text("\n".join(rows))
    cutting = ("--id-column", "machine", "--length", "40", "--stride", "10", "--folds", "2")
    code, _, err = run(*compare(tmp_path / "noise.csv", tmp_path / "a", "boosting+trees=5", *cutting))
    assert code == 0, err
    assert "pieces of 4 recordings stand on both sides of a split" in err
    assert "neighbours among --models" in err
    code, out, err = run(*compare(tmp_path / "noise.csv", tmp_path / "b", "boosting+trees=5,neighbours", *cutting))
    assert code == 0, err
    assert "stand on both sides" not in err
    assert "neighbours looks at no value: its F1 of" in out


def test_a_killed_run_goes_on_and_computes_no_cell_twice(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "boosting,mh1dcnn-lstm", "--epochs", "2", "--folds", "2")
    first = tmp_path / "boosting" / "fold_0.json"
    with subprocess.Popen([sys.executable, "-m", "dfstrans", *command], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while not first.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    before = {path: path.read_bytes() for path in tmp_path.rglob("fold_*.json") if path.is_file()}
    assert 1 <= len(before) < 4
    code, _, err = run(*command)
    assert code == 0, err
    assert f"{len(before)} of 4 cells are there already" in err
    after = {path: path.read_bytes() for path in tmp_path.rglob("fold_*.json") if path.is_file()}
    assert len(after) == 4
    assert {path: after[path] for path in before} == before
    assert err.count("cells: ") == 4 - len(before)
    assert not list(tmp_path.rglob("*.partial"))


def test_two_jobs_share_the_cells_and_try_each_once(recordings: Path, tmp_path: Path) -> None:
    constant = ("--set", "gradient_clip=1e30", "--set", "schedule=constant")
    diverging = ("--learning-rate", "1e30", *constant, "--epochs", "2")
    command = compare(recordings, tmp_path, "boosting,mh1dcnn-lstm", "--folds", "2", "--jobs", "2", *diverging)
    code, _, err = run(*command)
    assert code == 1, err
    assert len(list((tmp_path / "boosting").glob("fold_*.json"))) == 2
    assert err.count("cells: boosting") == 2
    for fold in range(2):
        assert err.count(f"mh1dcnn-lstm, split {fold} failed: ") == 1
        assert err.count(f"not computed: mh1dcnn-lstm, split {fold}: ") == 1


@pytest.mark.filterwarnings("always")
def test_the_processes_of_a_run_do_not_repeat_what_reading_warned_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{t},{t % 7 + t // 30 % 2},{t // 30 % 2}" for t in range(1799)]
    (tmp_path / "long.csv").write_text("\n".join(["time,a,label", *lines]))
    command = compare(tmp_path / "long.csv", tmp_path / "out", "boosting", "--length", "30", "--folds", "2")
    code, _, err = run(*command, "--jobs", "2")
    assert code == 0, err
    assert err.count("points at the end of 1 of 1 recording:") == 1
    assert "points at the end" not in capfd.readouterr().err  # of the processes


def test_a_part_of_what_is_finished_is_shown_and_not_written(recordings: Path, tmp_path: Path) -> None:
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
        assert f"only shown, not written: {tmp_path} also has finished cells of {beyond};" in err
        assert f"{folds} of {folds}" in out
        assert "written   " not in out
        assert (tmp_path / "comparison.md").read_text() == "the whole"
    code, out, err = run(*both, "--finished")
    assert "not written" not in err
    assert "Command: dfstrans compare recordings.h5" in (tmp_path / "comparison.md").read_text()


def test_where_nothing_is_finished_there_is_nothing_to_show(recordings: Path, tmp_path: Path) -> None:
    place = tmp_path / "results"
    code, out, err = run(*compare(recordings, place, "boosting", "--finished"))
    assert (code, out) == (2, "")
    assert f"expected finished cells in {place}, got none; leave out --finished to compute them" in err
    assert not place.exists()


def test_bad_names_give_code_2_and_the_remedy(recordings: Path, tmp_path: Path) -> None:
    code, _, err = run(*compare(recordings, tmp_path, "dfstrans,boostin"))
    assert code == 2
    assert "did you mean boosting?" in err
