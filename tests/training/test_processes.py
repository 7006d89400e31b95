"""Two processes train as one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser
from dfstrans.training import processes
from dfstrans.training.batches import BatchSampler, Share
from tests.cli import command_line
from tests.cli.command_line import result_of
from tests.tiny import tiny_episodes, write_table

PLAIN = ["--segment-length", "16", "--batch-size", "16", "--precision", "32"]
SAME_STEPS = [*PLAIN, "--members", "network", "--epochs", "2", "--set", "mixup=0", "--set", "time_shift=0"]
KILLED_WITHIN = 120.0  # seconds, on a busy machine


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "recordings.csv"
    write_table(tiny_episodes(n_normal=60, n_anomalous=30), path)
    return path


def command(table: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "dfstrans", "train", str(table), "--out", str(out), *options]


def run(table: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command(table, out, *options), capture_output=True, text=True, check=False, env=environment)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's launcher leaves its logs open
def test_two_processes_with_the_same_batches_give_the_model_of_one(
    table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result_of("train", table, "--out", tmp_path / "1", *SAME_STEPS)
    code, _, _ = command_line.run("train", table, "--out", tmp_path / "2", *SAME_STEPS, "--devices", "2")
    printed, said = capfd.readouterr()  # of the two processes that this one has started
    assert (code, printed.count("model     "), said.count("epoch 2/2")) == (0, 1, 1), said
    one, two = (Diagnoser.load(tmp_path / n) for n in ("1", "2"))
    assert two.threshold_.value == pytest.approx(one.threshold_.value, abs=1e-6)
    assert two.calibration_.temperature == pytest.approx(one.calibration_.temperature, abs=1e-5)
    columns = ("loss", "validation_loss", "validation_pr_auc")
    logs = [[[row[name] for name in columns] for row in detector.log_] for detector in (one, two)]
    np.testing.assert_allclose(*logs, atol=1e-5)  # the last batch is smaller, so neither process has lost its part
    for mine, theirs in zip(one.network_.parameters(), two.network_.parameters(), strict=True):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), atol=2e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


@pytest.mark.slow
def test_a_wrong_option_is_said_once(table: Path, tmp_path: Path) -> None:
    done = run(table, tmp_path / "model", *SAME_STEPS, "--batch-size", "1", "--devices", "2")
    assert done.returncode == 2
    assert done.stderr.count("expected at most 1 processes, one for each episode of a batch, got 2") == 1


def test_several_machines_need_the_address_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(processes.DfstransError, match="address of the first computer in the variable MASTER_ADDR"):
        processes.launch(1, 2, ["true"])


def test_shares_are_the_whole_batch() -> None:
    whole = list(BatchSampler(11, 4, shuffle_seed=0))
    shares = [list(BatchSampler(11, 4, shuffle_seed=0, share=Share(number, 2))) for number in (0, 1)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(np.concatenate(parts).tolist()) == sorted(batch.tolist())
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def member_of(training: subprocess.Popen[str], out: Path, rank: int) -> int | None:
    """Return the id of the process with this rank that trains the model at `out`."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = str(out).encode() in (place / "cmdline").read_bytes().split(b"\0")
            if is_ours and f"RANK={rank}".encode() in (place / "environ").read_bytes().split(b"\0"):
                return int(place.name)
        except OSError:  # it has just ended
            continue
    return None


@pytest.mark.slow
def test_a_killed_process_ends_the_run_which_can_be_resumed(table: Path, tmp_path: Path) -> None:
    out, options = tmp_path / "model", [*PLAIN, "--epochs", "40", "--devices", "2"]
    with subprocess.Popen(command(table, out, *options), stderr=subprocess.PIPE, text=True) as training:
        deadline = time.monotonic() + KILLED_WITHIN
        while not (tmp_path / "model.partial" / "last.ckpt").exists():
            assert time.monotonic() < deadline, "no epoch was finished"
            time.sleep(0.05)
        victim = member_of(training, out, rank=1)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        _, said = training.communicate()
    assert training.returncode == 2
    assert "process 1 was ended by SIGKILL" in said
    assert not out.exists()
    done = run(table, out, *options, "--resume")
    assert done.returncode == 0, done.stderr
    assert "continuing after epoch" in done.stderr
    assert len(Diagnoser.load(out).log_) == 40


@pytest.mark.slow
def test_two_processes_detect_as_well_as_one(table: Path, tmp_path: Path) -> None:
    found = []
    for seed in ("0", "1", "2"):
        for n in ("1", "2"):
            done = run(table, tmp_path / (seed + n), *PLAIN, "--epochs", "8", "--seed", seed, "--devices", n)
            assert done.returncode == 0, done.stderr
        one, two = (Diagnoser.load(tmp_path / (seed + n)).metrics_["validation"]["pr_auc"] for n in ("1", "2"))
        found.append((one, two))
    assert np.mean(found, axis=0)[1] == pytest.approx(np.mean(found, axis=0)[0], abs=0.1)
