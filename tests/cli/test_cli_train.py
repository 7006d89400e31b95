from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dfstrans import load_episodes, save_episodes
from tests.cli.command_line import SMALL, call, run


def test_training_twice_gives_identical_weights_and_json(table: Path, tmp_path: Path, model: Path) -> None:
    code, out, err = call("train", table, "--out", tmp_path / "again", *SMALL, "--epochs", "2", "--json")
    assert code == 0
    assert "epoch 2/2" in err
    assert set(json.loads(out)["metrics"]) == {"validation", "test"}
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_a_killed_run_resumes_to_identical_weights(table: Path, tmp_path: Path) -> None:
    arguments = [table, *SMALL, "--seed", "1", "--epochs", "30", "--patience", "30"]
    assert run("train", *arguments, "--out", tmp_path / "whole")[0] == 0
    command = [sys.executable, "-m", "dfstrans", "train", *map(str, arguments), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed.partial" / "last.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert not (tmp_path / "killed").exists()
    code, _, err = run("train", *arguments, "--out", tmp_path / "killed", "--resume")
    assert code == 0
    assert "epoch 1/30" not in err
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    assert not checkpoint.parent.exists()


def test_ctrl_c_says_how_to_go_on(table: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dfstrans", "train", str(table), "--out", str(tmp_path / "m"), *SMALL]
    command += ["--epochs", "2000", "--patience", "2000"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    while not (tmp_path / "m.partial" / "last.ckpt").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "go on with --resume" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "options", [["--dropout", "3"], ["--heads", "0"], ["--kernel", "4"], ["--segment-length", "16", "--heads", "7"]]
)
def test_settings_that_no_data_could_make_right_are_refused_before_the_data_are_read(
    tmp_path: Path, options: list[str]
) -> None:
    code, _, err = run("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert code == 2
    assert f"expected {options[-2]} to" in err
    assert "nothing.csv" not in err


def test_the_help_tells_how_long_a_segment_is_by_default(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run("train", "--help")
    assert "a tenth of the median episode, at most 100" in " ".join(out.replace("│", " ").split())


def test_replacing_a_model_is_said(table: Path, tmp_path: Path) -> None:
    said = [run("train", table, "--out", tmp_path / "m", *SMALL, "--epochs", "1")[2] for _ in range(2)]
    assert "was replaced" not in said[0]
    assert f"the earlier model in {tmp_path / 'm'} was replaced" in said[1]


def test_a_rival_is_trained_evaluated_and_predicted_with_by_the_same_commands(table: Path, tmp_path: Path) -> None:
    rival = tmp_path / "rival"
    command = ("train", table, "--out", rival, "--model", "boosting", "--seed", "3", "--json")
    code, out, _ = run(*command)
    assert code == 0
    tested = json.loads(out)["metrics"]["test"]
    _, out, _ = run("evaluate", rival, table, "--part", "test", "--json")
    assert json.loads(out).items() >= tested.items()
    _, out, _ = run("predict", rival, table, "--json")
    assert len(json.loads(out)["predictions"]) == 36
    code, out, _ = run("summary", rival)
    assert code == 0
    assert "parameters" in out
    for command in (["diagnose", rival, table], ["evaluate", rival, table, "--part", "test", "--diagnosis"]):
        code, _, err = run(*command)
        assert code == 2
        assert "expected a model of the kind 'dfstrans'" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "oracle"], "expected one of dfstrans, inceptiontime"),
        (["--model", "boosting", "--heads", "2"], "expected options that boosting has, got --heads; drop them"),
        (["--model", "tapnet", "--preset", "paper"], "expected options that tapnet has, got --preset"),
    ],
)
def test_options_that_a_rival_does_not_have_are_refused_before_the_data_are_read(
    tmp_path: Path, options: list[str], message: str
) -> None:
    code, _, err = run("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert code == 2
    assert message in err


def test_a_larger_than_memory_file_trains_too(model: Path, table: Path, tmp_path: Path) -> None:
    save_episodes(load_episodes(table), tmp_path / "stored.h5")
    code, _, _ = run("train", tmp_path / "stored.h5", "--out", tmp_path / "m", *SMALL, "--epochs", "2")
    assert code == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "m")]
    assert weights[0] == weights[1]
