from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dfstrans import load_episodes, save_episodes
from dfstrans.training.fit import AtomicCheckpoints
from tests.cli.command_line import SMALL, run


def test_training_twice_gives_identical_weights_and_json(table: Path, tmp_path: Path, model: Path) -> None:
    code, out, err = run("train", table, "--out", tmp_path / "again", *SMALL, "--epochs", "2", "--json")
    assert code == 0
    assert "epoch 2/2" in err
    assert set(json.loads(out)["metrics"]) == {"validation", "test"}
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_train_warns_of_a_network_that_has_hardly_learned(table: Path, tmp_path: Path) -> None:
    arguments = ["train", table, *SMALL, "--learning-rate", "1e-9", "--json", "--out"]
    _, out, few = run(*arguments, tmp_path / "few", "--epochs", "1")
    assert json.loads(out)["loss_beside_guessing"] > 0.7
    assert "the network has hardly learned" in few
    assert "(--epochs 20)" in few
    assert "(--epochs 22)" in run(*arguments, tmp_path / "more", "--epochs", "11")[2]
    _, out, forest = run("train", table, "--model", "boosting", "--json", "--out", tmp_path / "boosting")
    assert json.loads(out)["loss_beside_guessing"] is None
    assert "hardly learned" not in forest


def test_train_warns_if_no_threshold_could_be_chosen(table: Path, tmp_path: Path) -> None:
    arguments = ["train", table, "--out", tmp_path / "model", "--model", "boosting"]
    _, out, err = run(*arguments)
    assert "threshold 0.5 (f1: 0.5, because" in out
    said = "no threshold was chosen: the validation part holds fewer than 3 anomalous episodes, so it stays at 0.5, and"
    assert f"warning: {said} precision, recall and F1 say little; label more anomalous episodes, or" in err
    assert "--seed" not in err  # as many of each class with any
    rule = ["--threshold-rule", "false-alarm-rate", "--threshold-value", "0.05"]
    assert f"({' '.join(rule)})" in err
    assert "no threshold" not in run(*arguments, *rule)[2]


# A process that is killed as soon as it has written its second checkpoint.
KILLED = """
import os, signal
from dfstrans.cli.app import main
from dfstrans.training.fit import AtomicCheckpoints

save, saved = AtomicCheckpoints.save_checkpoint, []

def save_and_die(self, *arguments, **options):
    save(self, *arguments, **options)
    saved.append(1)
    if len(saved) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

AtomicCheckpoints.save_checkpoint = save_and_die
main()
"""


def test_a_killed_run_resumes_to_the_weights_of_another_process(table: Path, tmp_path: Path) -> None:
    arguments = ["train", table, *SMALL, "--seed", "1", "--epochs", "5", "--out"]
    assert run(*arguments, tmp_path / "whole")[0] == 0
    killed = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments), str(killed)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    checkpoint = tmp_path / "killed.partial" / "last.ckpt"
    assert checkpoint.exists()
    assert not killed.exists()
    code, _, err = run(*arguments, killed, "--resume")
    assert code == 0
    assert "epoch 2/5" not in err
    assert "epoch 3/5" in err
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (tmp_path / "whole", killed)]
    assert weights[0] == weights[1]
    assert not checkpoint.parent.exists()


def test_ctrl_c_explains_how_to_continue(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = AtomicCheckpoints.save_checkpoint

    def save_and_interrupt(*arguments: Any, **options: Any) -> None:
        save(*arguments, **options)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(AtomicCheckpoints, "save_checkpoint", save_and_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of pytest ignore it
    try:
        code, _, err = run("train", table, "--out", tmp_path / "m", *SMALL, "--epochs", "20")
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert f"the finished epochs are kept in {tmp_path / 'm.partial'}; continue with --resume" in err
    assert "Traceback" not in err
    assert (tmp_path / "m.partial" / "last.ckpt").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["dropout=3"],
        ["heads=0"],
        ["kernel=4"],
        ["segment_length=16", "filters=8", "heads=7"],
    ],
)
def test_impossible_settings_are_refused_before_reading_the_data(tmp_path: Path, options: list[str]) -> None:
    given = [part for option in options for part in ("--set", option)]
    (tmp_path / "nothing.csv").touch()
    code, _, err = run("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *given)
    assert code == 2
    assert f"expected --set {options[-1].split('=')[0]}=… to" in err
    assert "nothing.csv" not in err


@pytest.mark.parametrize("options", [["10"], ["30"], ["40"], ["60"], ["16", "--set", "heads=7"]])
def test_filters_are_chosen_for_any_segment_length(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "nothing.csv").touch()
    code, _, err = run("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", "--segment-length", *options)
    assert code == 2
    assert "got an empty file" in err  # the settings are right: the data were looked for


def test_the_help_explains_the_default_segment_length(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run("train", "--help")
    assert "a tenth of the median episode, at most 100" in " ".join(out.replace("│", " ").split())


def test_an_option_overrides_set_which_overrides_the_file(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("epochs = 9\nseed = 4\nmixup = 0.5\nnoise = 0.1\nprecision = 32\n")
    given = ["--settings", file, "--set", "seed=5", "--set", "mixup=0", "--set", "gradient-clip=none", *SMALL[:-4]]
    code, _, err = run("train", table, "--out", tmp_path / "m", *given, "--epochs", "1", "--batch-size", "8")
    assert code == 0, err
    used = json.loads((tmp_path / "m" / "model.json").read_text())["training"]
    assert [used[name] for name in ("epochs", "seed", "mixup", "noise", "gradient_clip")] == [1, 5, 0, 0.1, None]
    assert used["precision"] == "32"
    file.write_text("[network]\nheads = 2\n")
    code, _, err = run("train", table, "--out", tmp_path / "n", "--settings", file)
    assert code == 2
    assert "got the table [network]" in err


def test_train_reports_that_it_replaced_a_model(table: Path, tmp_path: Path) -> None:
    said = [run("train", table, "--out", tmp_path / "m", *SMALL, "--epochs", "1")[2] for _ in range(2)]
    assert "was replaced" not in said[0]
    assert f"the earlier model in {tmp_path / 'm'} was replaced" in said[1]


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_the_commands_work_with_any_kind_of_detector(table: Path, tmp_path: Path) -> None:
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
        (["--model", "oracle"], "expected one of dfstrans, boosting"),
        (["--model", "bosting"], "got 'bosting'; did you mean boosting?"),
        (["--model", "boosting", "--set", "heads=2"], "expected a setting of boosting, got 'heads'"),
        (["--model", "tapnet", "--preset", "paper"], "expected a setting of tapnet, got 'preset'"),
        (["--set", "head=2"], "got 'head'; did you mean heads? (`dfstrans summary --list-settings"),
        (["--heads", "4"], "got --heads, which is a setting without its own option; use --set heads=4"),
        (["--weight-decay=0"], "use --set weight_decay=0"),
        (["--fewest-in-leaf", "3", "--model", "boosting"], "use --set fewest_in_leaf=3"),
        (["--set", "mixup"], "expected --set NAME=VALUE, got 'mixup'"),
        (["--settings", "nowhere.toml"], "expected a TOML file for --settings, got nothing at nowhere.toml"),
    ],
)
def test_unknown_models_and_settings_are_refused_before_reading_the_data(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "nothing.csv").touch()
    code, _, err = run("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert code == 2
    assert message in err


def test_a_larger_than_memory_file_trains_too(model: Path, table: Path, tmp_path: Path) -> None:
    save_episodes(load_episodes(table), tmp_path / "stored.h5")
    code, _, _ = run("train", tmp_path / "stored.h5", "--out", tmp_path / "m", *SMALL, "--epochs", "2")
    assert code == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "m")]
    assert weights[0] == weights[1]
