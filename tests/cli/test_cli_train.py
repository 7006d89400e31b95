from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dfstrans.training.fit import AtomicCheckpoints
from tests.cli.command_line import SMALL, output_of, refused, result_of, run


def test_training_twice_gives_identical_weights_and_json(table: Path, tmp_path: Path, model: Path) -> None:
    out, err = output_of("train", table, "--out", tmp_path / "again", *SMALL, "--epochs", "2", "--json")
    assert "epoch 2/2" in err
    assert set(json.loads(out)["metrics"]) == {"validation", "test"}
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_train_warns_of_a_network_that_has_hardly_learned(table: Path, tmp_path: Path) -> None:
    arguments = ["train", table, *SMALL, "--learning-rate", "1e-9", "--json", "--out"]
    out, few = output_of(*arguments, tmp_path / "few", "--epochs", "1")
    assert json.loads(out)["loss_beside_guessing"] > 0.7
    assert "the network has learned little" in few
    assert "(--epochs 20)" in few
    assert "(--epochs 22)" in output_of(*arguments, tmp_path / "more", "--epochs", "11")[1]
    out, forest = output_of("train", table, "--model", "boosting", "--json", "--out", tmp_path / "boosting")
    assert json.loads(out)["loss_beside_guessing"] is None
    assert "learned little" not in forest


def test_train_warns_if_no_threshold_could_be_chosen(table: Path, tmp_path: Path) -> None:
    arguments = ["train", table, "--out", tmp_path / "model", "--model", "boosting"]
    out, err = output_of(*arguments)
    assert "threshold 0.5 (f1: 0.5, because" in out
    said = "no threshold was chosen: the validation part holds fewer than 3 anomalous episodes, so it stays at 0.5, and"
    assert f"warning: {said} precision, recall and F1 mean little; label more anomalous episodes, or" in err
    assert "--seed" not in err  # as many of each class with any
    rule = ["--threshold-rule", "false-alarm-rate", "--threshold-value", "0.05"]
    assert f"({' '.join(rule)})" in err
    assert "no threshold" not in output_of(*arguments, *rule)[1]


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
    output_of(*arguments, tmp_path / "whole")
    killed = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments), str(killed)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    checkpoint = tmp_path / "killed.partial" / "last.ckpt"
    assert checkpoint.exists()
    assert not killed.exists()
    _, err = output_of(*arguments, killed, "--resume")
    assert "epoch 2/5" not in err
    assert "epoch 3/5" in err
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (tmp_path / "whole", killed)]
    assert weights[0] == weights[1]
    assert not checkpoint.parent.exists()


def test_ctrl_c_keeps_the_trees_and_explains_how_to_continue(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = AtomicCheckpoints.save_checkpoint

    def save_and_interrupt(*arguments: Any, **options: Any) -> None:
        save(*arguments, **options)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(AtomicCheckpoints, "save_checkpoint", save_and_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of pytest ignore it
    try:
        code, _, err = run("train", table, "--out", tmp_path / "m", *SMALL, "--members", "committee", "--epochs", "20")
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert f"the finished epochs are kept in {tmp_path / 'm.partial'}; continue with --resume" in err
    assert "Traceback" not in err
    assert (tmp_path / "m.partial" / "last.ckpt").exists()
    assert "the network follows, Ctrl-C keeps the trees" in err
    assert f"the trees alone are a finished model in {tmp_path / 'm'}; " in err
    record = json.loads((tmp_path / "m" / "model.json").read_text())
    assert record["members"] == "trees"
    assert record["metrics"]["test"]["pr_auc"] is not None


@pytest.mark.parametrize("options", [["10"], ["30"], ["40"], ["60"], ["16", "--set", "heads=7"]])
def test_filters_are_chosen_for_any_segment_length(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "nothing.csv").touch()
    err = refused("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", "--segment-length", *options)
    assert "got an empty file" in err  # the settings are right: the data were looked for


def test_the_help_explains_the_default_segment_length(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out, _ = output_of("train", "--help")
    assert "a tenth of the median episode, at most 100" in " ".join(out.replace("│", " ").split())


def test_an_option_overrides_set_which_overrides_the_file(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("epochs = 9\nseed = 4\nmixup = 0.5\nnoise = 0.1\nprecision = 32\n")
    given = ["--settings", file, "--set", "seed=5", "--set", "mixup=0", "--set", "gradient-clip=none", *SMALL[:-4]]
    output_of("train", table, "--out", tmp_path / "m", *given, "--epochs", "1", "--batch-size", "8")
    used = json.loads((tmp_path / "m" / "model.json").read_text())["training"]
    assert [used[name] for name in ("epochs", "seed", "mixup", "noise", "gradient_clip")] == [1, 5, 0, 0.1, None]
    assert used["precision"] == "32"
    file.write_text("[network]\nheads = 2\n")
    assert "got the table [network]" in refused("train", table, "--out", tmp_path / "n", "--settings", file)


def test_train_reports_that_it_replaced_a_model(table: Path, tmp_path: Path) -> None:
    said = [output_of("train", table, "--out", tmp_path / "m", *SMALL, "--epochs", "1")[1] for _ in range(2)]
    assert "was replaced" not in said[0]
    assert f"the earlier model in {tmp_path / 'm'} was replaced" in said[1]


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_the_commands_work_with_any_kind_of_detector(table: Path, tmp_path: Path) -> None:
    rival = tmp_path / "rival"
    trained = result_of("train", table, "--out", rival, "--model", "boosting", "--seed", "3")
    assert result_of("evaluate", rival, table, "--part", "test").items() >= trained["metrics"]["test"].items()
    assert len(result_of("predict", rival, table)["predictions"]) == 36
    assert "parameters" in output_of("summary", rival)[0]
    assert "boosting detector" in (rival / "MODEL_CARD.md").read_text()
    for command in (["diagnose", rival, table], ["evaluate", rival, table, "--part", "test", "--diagnosis"]):
        assert "expected a model of the kind 'dfstrans'" in refused(*command)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "dropout=3"], "expected --set dropout=… to"),
        (["--set", "kernel=4"], "expected --set kernel=… to"),
        (["--segment-length", "16", "--set", "width=16", "--set", "heads=7"], "expected --set heads=… to"),
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
    err = refused("train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert message in err
    assert "nothing.csv" not in err
