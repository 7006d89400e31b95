from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dfstrans import Diagnoser, load_episodes, save_episodes
from dfstrans.cli import main
from dfstrans.data.planted import planted_episodes
from dfstrans.report.diagnosis_page import file_stem
from tests.tiny import tiny_episodes

SMALL = ["--filters", "4", "--heads", "2", "--feedforward", "16", "--head-width", "8", "--batch-size", "8"]
SMALL += ["--segment-length", "16", "--precision", "32"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long table as users have it."""
    path = tmp_path_factory.mktemp("cli") / "recordings.csv"
    rows = [
        pd.DataFrame(
            {"episode_id": e.id, "time": range(48), **dict(zip("abc", e.values, strict=True)), "label": e.label}
        )
        for e in tiny_episodes()
    ]
    pd.concat(rows).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    folder = table.parent / "model"
    assert call("train", table, "--out", folder, *SMALL, "--epochs", "2")[0] == 0
    return folder


def call(*arguments: Any) -> tuple[int, str, str]:
    """Run the command as a user would: exit code, stdout, stderr."""
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "dfstrans", *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> tuple[int, str, str]:
    """The same inside this process, which is faster."""
    monkeypatch.setattr(sys, "argv", ["dfstrans", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    code = stopped.value.code
    return (code if isinstance(code, int) else 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("sensors", "length", "segments", "parameters"),
    [(20, 100, 80, 3_878_033), (55, 50, 10, 4_197_153), (25, 50, 10, 2_225_553), (38, 50, 10, 3_079_913)],
)
def test_summary_gives_the_papers_parameter_counts(
    capsys: Any, monkeypatch: Any, sensors: int, length: int, segments: int, parameters: int
) -> None:
    arguments = ["--sensors", sensors, "--segment-length", length, "--segments", segments, "--json"]
    code, out, _ = run(capsys, monkeypatch, "summary", *arguments)
    assert code == 0
    content = json.loads(out)
    assert content["parameters"] == parameters == sum(content["parts"].values())


@pytest.mark.parametrize(
    ("part", "options", "episodes", "anomalous"),
    [
        ("telemanom", ["--spacecraft", "SMAP"], 848, 161),
        ("telemanom", ["--spacecraft", "MSL"], 136, 40),
        ("ServerMachineDataset", [], 949, 289),
    ],
)
def test_data_check_counts_the_public_data(
    capsys: Any, monkeypatch: Any, public_data: Path, part: str, options: list[str], episodes: int, anomalous: int
) -> None:
    arguments = [public_data / part, "--length", 500, "--stride", 500, *options, "--json"]
    code, out, _ = run(capsys, monkeypatch, "data", "check", *arguments)
    assert code == 0
    content = json.loads(out)
    assert (content["episodes"], content["anomalous"]) == (episodes, anomalous)


def test_data_check_tells_people_what_was_read(capsys: Any, monkeypatch: Any, table: Path) -> None:
    code, out, _ = run(capsys, monkeypatch, "data", "check", table)
    assert code == 0
    assert "Episodes: 36 (12 anomalous, 24 normal) × 3 sensors × 48 points" in out


def test_data_check_exits_with_1_when_training_is_impossible(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    lines = ["episode_id,time,a,b,label", *(f"{e},{t},{t},,{e % 2}" for e in range(4) for t in range(9))]
    (tmp_path / "empty_sensor.csv").write_text("\n".join(lines))
    code, out, _ = run(capsys, monkeypatch, "data", "check", tmp_path / "empty_sensor.csv")
    assert code == 1
    assert "error: no value at all in b" in out


def test_convert_keeps_everything(capsys: Any, monkeypatch: Any, table: Path, tmp_path: Path) -> None:
    code, out, _ = run(capsys, monkeypatch, "data", "convert", table, tmp_path / "recordings.h5", "--json")
    assert code == 0
    assert json.loads(out)["episodes"] == 36
    assert load_episodes(tmp_path / "recordings.h5").fingerprint() == load_episodes(table).fingerprint()


def test_training_twice_gives_identical_weights_and_json(table: Path, tmp_path: Path, model: Path) -> None:
    code, out, err = call("train", table, "--out", tmp_path / "again", *SMALL, "--epochs", "2", "--json")
    assert code == 0
    assert "epoch 2/2" in err
    assert set(json.loads(out)["metrics"]) == {"validation", "test"}
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_a_killed_run_resumes_to_identical_weights(table: Path, tmp_path: Path) -> None:
    arguments = [table, *SMALL, "--seed", "1", "--epochs", "30", "--patience", "30"]
    assert call("train", *arguments, "--out", tmp_path / "whole")[0] == 0
    command = [sys.executable, "-m", "dfstrans", "train", *map(str, arguments), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed.partial" / "last.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert not (tmp_path / "killed").exists()
    code, _, err = call("train", *arguments, "--out", tmp_path / "killed", "--resume")
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


def test_evaluate_and_predict_use_the_saved_model(
    capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, monkeypatch, "evaluate", model, table, "--part", "test", "--json")
    assert code == 0
    assert {k: v for k, v in json.loads(out).items() if k not in ("part", "out_of_range")} == Diagnoser.load(
        model
    ).metrics_["test"]
    code, out, _ = run(capsys, monkeypatch, "predict", model, table)
    assert code == 0
    assert out.splitlines()[0] == "episode_id,probability,anomalous,logit"
    assert len(out.splitlines()) == 37
    code, out, err = run(capsys, monkeypatch, "predict", model, table, "--out", tmp_path / "p.csv", "--json")
    assert code == 0
    assert len(json.loads(out)["predictions"]) == 36 == len(pd.read_csv(tmp_path / "p.csv"))
    assert "written to" in err


def test_predict_needs_no_labels(capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).drop(columns="label").to_csv(tmp_path / "new.csv", index=False)
    code, out, _ = run(capsys, monkeypatch, "predict", model, tmp_path / "new.csv")
    assert code == 0
    assert len(out.splitlines()) == 37


def test_predict_and_diagnose_do_without_labels_that_they_cannot_read(
    capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path
) -> None:
    words = pd.read_csv(table).replace({"label": {0: "fine", 1: "broken"}})
    words.to_csv(tmp_path / "words.csv", index=False)
    _, expected, _ = run(capsys, monkeypatch, "predict", model, table)
    code, out, err = run(capsys, monkeypatch, "predict", model, tmp_path / "words.csv")
    assert code == 0, err
    assert out == expected
    assert "read without their labels: expected labels 0 (normal) or 1 (anomalous)" in err
    assert "--anomalous-value" in err
    one = ("--episode", "run_0003", "--no-trust", "--html", tmp_path / "one.html")
    code, out, err = run(
        capsys, monkeypatch, "diagnose", model, tmp_path / "words.csv", *one, "--label-column", "label"
    )
    assert code == 0, err
    assert out.startswith("run_0003: ")
    assert "read without their labels" in err
    code, _, err = run(capsys, monkeypatch, "evaluate", model, tmp_path / "words.csv")
    assert code == 2
    assert "say which value means anomalous" in err


def test_diagnose_tells_what_is_unlike_normal(
    capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, monkeypatch, "diagnose", model, table, "--all", "--json", "--out", tmp_path / "d.csv")
    found = json.loads(out)
    assert code == 0
    assert len(found) == 36
    written = pd.read_csv(tmp_path / "d.csv")
    assert written.episode_id.nunique() == 36
    strangest = written[written.episode_id == found[0]["episode_id"]].sort_values("deviation").iloc[-1]
    assert found[0]["interpretation"][0]["sensor"] == strangest.sensor
    code, out, _ = run(capsys, monkeypatch, "diagnose", model, table, "--episode", "run_0003")
    assert code == 0
    assert out.startswith("run_0003: ")
    code, _, err = run(capsys, monkeypatch, "diagnose", model, table, "--episode", "nobody")
    assert code == 2
    assert "got nobody" in err


def test_diagnose_writes_pages(capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "one.html"
    code, _, _ = run(capsys, monkeypatch, "diagnose", model, table, "--episode", "run_0003", "--html", page)
    assert code == 0
    text = page.read_text()
    assert "run_0003" in text
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text)
    some = [argument for name in ("run_0001", "run_0002", "run_0003") for argument in ("--episode", name)]
    code, _, _ = run(capsys, monkeypatch, "diagnose", model, table, *some, "--no-trust", "--html", tmp_path / "pages")
    assert code == 0
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    assert len(names) == 5  # with the index and plotly's code
    assert all(name in names for name in re.findall(r'href="([^"]+)"', (tmp_path / "pages" / "index.html").read_text()))
    code, _, err = run(capsys, monkeypatch, "diagnose", model, table, "--html", page)
    assert code == 2
    assert "one --episode" in err


def test_diagnose_writes_figures_for_print(
    capsys: Any, monkeypatch: Any, model: Path, table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    folder = tmp_path / "figures"
    surest = pd.read_csv(table).query("label == 1").episode_id.iloc[0]
    command = ("diagnose", model, table, "--episode", surest, "--no-trust", "--figures", folder)
    code, _, err = run(capsys, monkeypatch, *command)
    assert code == 0
    assert str(folder) in err
    kinds = {path.stem.removeprefix(file_stem(surest)) for path in folder.iterdir()}
    of_each, of_all = {"_signals", "_cells", "_attention", "_moments"}, {"temporal_relevance", "attention_trust"}
    assert of_each <= kinds
    assert kinds - of_each - of_all == {"temporal_relevance_beside_normal"}
    assert {path.suffix for path in folder.iterdir()} == {".pdf", ".svg"}


@pytest.mark.filterwarnings("always:these are the episodes")
def test_evaluate_compares_diagnoses_with_known_causes(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    save_episodes(planted_episodes(n_normal=60, n_anomalous=24, n_sensors=4, n_timepoints=96), tmp_path / "p.h5")
    slim = ["--segment-length", 16, "--filters", 4, "--heads", 2, "--feedforward", 16, "--batch-size", 8]
    run(capsys, monkeypatch, "train", tmp_path / "p.h5", "--out", tmp_path / "m", "--epochs", 10, *slim)
    command = ("evaluate", tmp_path / "m", tmp_path / "p.h5", "--part", "train", "--diagnosis")
    code, out, err = run(capsys, monkeypatch, *command, "--json")
    assert code == 0, err
    found = json.loads(out)["diagnosis"]
    assert found["rankings"].keys() == {"shown", "relevance", "z-score", "gradients"}
    assert found["curves"]["figures"].keys() == found["curves"]["random_figures"].keys()
    shown = found["rankings"]["shown"]["sensors"]["all"]["ac@1"]
    assert shown["low"] <= shown["value"] <= shown["high"]
    assert shown["chance"] == pytest.approx(0.25)
    monkeypatch.setattr("dfstrans.cli_output.QUIET_SECONDS", 0.0)
    code, out, err = run(capsys, monkeypatch, *command, "--part", "all")
    assert code == 0
    assert "diagnosing: 100 % (24 of 24)" in err
    assert err.count("these are the episodes the model was trained from") == 1
    assert "auroc" in out
    assert "comprehensiveness" in out
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    code, out, _ = run(capsys, monkeypatch, *command)
    assert code == 0
    assert "without gradients" in out
    assert "dfstrans[paper]" in out


def test_summary_of_a_saved_model_shows_its_figures(capsys: Any, monkeypatch: Any, model: Path) -> None:
    code, out, _ = run(capsys, monkeypatch, "summary", model)
    assert code == 0
    assert "parameters" in out
    assert "PR-AUC" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "{table}", "--out", "{tmp}/m", "--segment-length", "100"],
            "got 48 in episode 'run_0000'; train with a shorter --segment-length",
        ),
        (
            ["train", "{table}", "--out", "{tmp}/m", "--dropout", "3"],
            "expected --dropout to be a finite number of at least 0 and below 1, got 3.0; give such a value",
        ),
        (
            ["train", "{table}", "--out", "{tmp}/m", "--threshold-rule", "fixed"],
            "with --threshold-rule fixed, got none; give one, such as --threshold-value 0.5",
        ),
        (["train", "{table}", "--out", "{tmp}/m", "--id-column", "drive"], "correct --id-column"),
        (["data", "check", "{table}", "--spacecraft", "SMAP"], "got also --spacecraft; leave them out"),
        (["train", "{tmp}/nothing.csv", "--out", "{tmp}/m"], "nothing.csv"),
        (["train", "{table}", "--out", "{tmp}/m", "--label-column", "a"], "expected labels 0"),
        (["train", "{table}", "--out", "{tmp}/m", "--split", "grouped"], "--group-column …), or use --split random"),
        (["evaluate", "{tmp}", "{table}"], "expected a saved model"),
        (
            ["train", "{table}", "--out", "{tmp}/m", "--seed", "-1"],
            "expected --seed to be a whole number of at least 0",
        ),
        (
            ["summary", "--sensors", "4", "--segment-length", "16", "--segments", "-5"],
            "--segments to be a whole number",
        ),
        (["summary", "--sensors", "0", "--segment-length", "16", "--segments", "5"], "--sensors to be a whole number"),
        (["train", "{table}", "--out", "{tmp}"], "got other files"),
        (["summary"], "expected a saved model's folder, or --sensors"),
        (["summary", "--sensors", "4", "--segment-length", "16", "--segments", "900"], "no longer faithful"),
    ],
)
def test_bad_input_exits_with_2_and_one_clear_line(
    capsys: Any, monkeypatch: Any, table: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "precious").write_text("work")
    filled = [argument.format(table=table, tmp=tmp_path) for argument in arguments]
    code, out, err = run(capsys, monkeypatch, *filled)
    assert code == 2
    assert out == ""
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "options", [["--dropout", "3"], ["--heads", "0"], ["--kernel", "4"], ["--segment-length", "16", "--heads", "7"]]
)
def test_settings_that_no_data_could_make_right_are_refused_before_the_data_are_read(
    capsys: Any, monkeypatch: Any, tmp_path: Path, options: list[str]
) -> None:
    code, _, err = run(capsys, monkeypatch, "train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert code == 2
    assert f"expected {options[-2]} to" in err
    assert "nothing.csv" not in err


def test_debug_shows_the_traceback_and_keeps_the_exit_code(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    code, _, err = run(capsys, monkeypatch, "summary", tmp_path, "--debug")
    assert code == 2
    assert "Traceback" in err
    assert "expected a saved model" in err.splitlines()[-1]


def test_the_help_tells_how_long_a_segment_is_by_default(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run(capsys, monkeypatch, "train", "--help")
    assert "a tenth of the median episode, at most 100" in " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize(
    "command", [["data", "check"], ["data", "convert"], ["train"], ["evaluate"], ["predict"], ["summary"], ["demo"]]
)
def test_every_command_has_help_with_an_example_and_json(capsys: Any, monkeypatch: Any, command: list[str]) -> None:
    code, out, _ = run(capsys, monkeypatch, *command, "--help")
    assert code == 0
    assert f"Example: dfstrans {' '.join(command)}" in out
    assert "--json" in out


def test_replacing_a_model_is_said(table: Path, tmp_path: Path) -> None:
    said = [call("train", table, "--out", tmp_path / "m", *SMALL, "--epochs", "1")[2] for _ in range(2)]
    assert "was replaced" not in said[0]
    assert f"the earlier model in {tmp_path / 'm'} was replaced" in said[1]


def test_evaluating_the_training_episodes_names_the_part_to_use(model: Path, table: Path) -> None:
    code, _, err = call("evaluate", model, table)
    assert code == 0
    assert "--part all includes" in err
    assert "use --part test (the parts are train, validation, test and all)" in err


def test_recordings_without_labels_are_exempt_from_exit_code_1(
    capsys: Any, monkeypatch: Any, table: Path, tmp_path: Path
) -> None:
    pd.read_csv(table).drop(columns="label").to_csv(tmp_path / "new.csv", index=False)
    assert run(capsys, monkeypatch, "data", "check", tmp_path / "new.csv")[0] == 0
    _, out, _ = run(capsys, monkeypatch, "data", "check", "--help")
    assert "recordings without labels are exempt" in " ".join(out.split())


def test_a_rival_is_trained_evaluated_and_predicted_with_by_the_same_commands(
    capsys: Any, monkeypatch: Any, table: Path, tmp_path: Path
) -> None:
    rival = tmp_path / "rival"
    command = ("train", table, "--out", rival, "--model", "boosting", "--seed", "3", "--json")
    code, out, _ = run(capsys, monkeypatch, *command)
    assert code == 0
    tested = json.loads(out)["metrics"]["test"]
    _, out, _ = run(capsys, monkeypatch, "evaluate", rival, table, "--part", "test", "--json")
    assert json.loads(out).items() >= tested.items()
    _, out, _ = run(capsys, monkeypatch, "predict", rival, table, "--json")
    assert len(json.loads(out)["predictions"]) == 36
    code, out, _ = run(capsys, monkeypatch, "summary", rival)
    assert code == 0
    assert "parameters" in out
    for command in (["diagnose", rival, table], ["evaluate", rival, table, "--part", "test", "--diagnosis"]):
        code, _, err = run(capsys, monkeypatch, *command)
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
    capsys: Any, monkeypatch: Any, tmp_path: Path, options: list[str], message: str
) -> None:
    code, _, err = run(capsys, monkeypatch, "train", tmp_path / "nothing.csv", "--out", tmp_path / "m", *options)
    assert code == 2
    assert message in err


def test_a_larger_than_memory_file_trains_too(model: Path, table: Path, tmp_path: Path) -> None:
    save_episodes(load_episodes(table), tmp_path / "stored.h5")
    code, _, _ = call("train", tmp_path / "stored.h5", "--out", tmp_path / "m", *SMALL, "--epochs", "2")
    assert code == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "m")]
    assert weights[0] == weights[1]
