"""The command line as a whole: exit codes, errors in one line, help."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dfstrans.cli.app import _Warnings
from dfstrans.cli.compare import compare
from dfstrans.cli.inject import THRESHOLD, inject
from dfstrans.cli.train import train
from dfstrans.errors import Note
from dfstrans.settings import OPTIONS, NetworkSettings, TrainingSettings
from tests.cli.command_line import output_of, refused, run


@pytest.mark.filterwarnings("always:label of")  # here the column label is a sensor
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train {table} --out {tmp}/m --segment-length 100", "train with a shorter --segment-length"),
        ("train {table} --out {tmp}/m --set dropout=3", "expected --set dropout=… to be a finite number"),
        ("train {table} --out {tmp}/m --threshold-rule fixed", "got none; set it, such as --threshold-value 0.5"),
        ("train {table} --out {tmp}/m --id-column drive", "correct --id-column"),
        ("data check {table} --spacecraft SMAP", "also got --spacecraft; drop them"),
        ("train {tmp}/nothing.csv --out {tmp}/m", "nothing.csv"),
        ("train {table} --out {tmp}/m --label-column a", "expected labels 0"),
        ("train {table} --out {tmp}/m --split grouped", "--group-column …), or use --split random"),
        ("evaluate {tmp} {table}", "expected a saved model"),
        ("train {table} --out {tmp}/m --seed -1", "expected --seed to be a whole number of at least 0"),
        ("summary --sensors 4 --segment-length 16 --segments -5", "--segments to be a whole number"),
        ("summary --sensors 0 --segment-length 16 --segments 5", "--sensors to be a whole number"),
        ("train {table} --out {tmp}", "got other files"),
        ("summary --sensors 4 --segment-length -5 --segments 5", "--segment-length to be a whole"),
        ("summary", "expected a saved model's folder, or --sensors"),
        ("summary --sensors 4 --segment-length 16 --segments 900", "no longer faithful"),
    ],
)
def test_bad_input_exits_with_2_and_one_clear_line(table: Path, tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "precious").write_text("work")
    code, out, err = run(*(argument.format(table=table, tmp=tmp_path) for argument in arguments.split()))
    assert code == 2
    assert out == ""
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, as Linux has it")
def test_unwritable_output_exits_with_code_2() -> None:
    command = [sys.executable, "-m", "dfstrans", "--version"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "No space left on device; check disk space" in done.stderr
    assert "--debug" in done.stderr


def test_debug_shows_the_traceback_and_keeps_the_exit_code(tmp_path: Path) -> None:
    err = refused("summary", tmp_path, "--debug")
    assert "Traceback" in err
    assert "expected a saved model" in err.splitlines()[-1]


COMMANDS = [
    "commission",
    "data check",
    "data convert",
    "simulate elevator",
    "train",
    "evaluate",
    "predict",
    "diagnose",
    "export",
]
COMMANDS += ["summary", "demo", "compare", "inject", "encoding", "reproduce"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    out, _ = output_of(*command.split(), "--help")
    assert f"Example: dfstrans {command}" in out
    assert "--json" in out


@pytest.mark.parametrize(("command", "other"), [(train, {}), (compare, {}), (inject, THRESHOLD)])
def test_the_help_shows_the_defaults_of_the_settings(command: Callable[..., Any], other: dict[str, Any]) -> None:
    defaults = {**NetworkSettings().model_dump(), **TrainingSettings().model_dump(), **other}
    options = inspect.signature(command).parameters
    assert {*OPTIONS, "set_values", "settings_file"} <= options.keys()
    for name in OPTIONS:
        text = options[name].annotation.__metadata__[0].help
        assert text.endswith(f"(default {defaults[name]})") == (defaults[name] is not None), name


def test_train_has_few_options_besides_those_of_reading() -> None:
    own = [
        name
        for name, one in inspect.signature(train).parameters.items()
        if one.annotation.__metadata__[0].rich_help_panel != "Reading the recordings"
    ]
    assert len(own) <= 21


def test_a_remark_is_not_called_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    say = _Warnings()
    for message in (Note("nothing to go on with"), UserWarning("too few"), UserWarning("too few")):
        say(message)
    assert capsys.readouterr().err == "nothing to go on with\nwarning: too few\n"
