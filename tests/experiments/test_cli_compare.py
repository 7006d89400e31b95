"""`dfstrans compare` from end to end, also when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DFSTRANS = [sys.executable, "-m", "dfstrans"]


def compare(recordings: Path, out: Path, models: str, *options: str) -> list[str]:
    return [*DFSTRANS, "compare", str(recordings), "--out", str(out), "--models", models, *options]


def test_a_model_and_two_rivals_are_compared(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "dfstrans,boosting,mh1dcnn-lstm", "--epochs", "2", "--folds", "2", "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
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
    assert "6 of 6 cells: mh1dcnn-lstm, split 1" in done.stderr
    page = (tmp_path / "comparison.html").read_text()
    assert "protocol no-overlap" in page
    assert "Plotly.newPlot" in page  # the figure is drawn by the page itself
    assert "| dfstrans | 2 of 2 |" in (tmp_path / "comparison.md").read_text()
    shown = subprocess.run([*command[:-1], "--finished"], capture_output=True, text=True, check=True)
    assert "dfstrans against each rival" in shown.stdout


def test_a_killed_run_goes_on_and_computes_no_cell_twice(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "boosting,mh1dcnn-lstm", "--epochs", "2", "--folds", "2")
    first = tmp_path / "boosting" / "fold_0.json"
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not first.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(run.pid, signal.SIGKILL)
    before = {path: path.read_bytes() for path in tmp_path.rglob("fold_*.json") if path.is_file()}
    assert 1 <= len(before) < 4
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(before)} of 4 cells are there already" in done.stderr
    after = {path: path.read_bytes() for path in tmp_path.rglob("fold_*.json") if path.is_file()}
    assert len(after) == 4
    assert {path: after[path] for path in before} == before
    assert done.stderr.count("cells: ") == 4 - len(before)
    assert not list(tmp_path.rglob("*.partial"))


def test_two_jobs_share_the_cells(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "boosting", "--folds", "3", "--jobs", "2")
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "boosting").glob("fold_*.json"))) == 3
    assert done.stderr.count(b"cells: boosting") == 3


def test_bad_names_give_code_2_and_the_remedy(recordings: Path, tmp_path: Path) -> None:
    command = compare(recordings, tmp_path, "dfstrans,boostin")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "did you mean boosting?" in done.stderr
