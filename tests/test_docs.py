"""The documents are true: examples run, links lead somewhere, named options exist."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from scipy.io import savemat

from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.schema import Resemblance, diagnosis_schema
from dfstrans.lab.elevator.fleet import RANGES
from dfstrans.lab.elevator.machine import SENSORS, Sensor
from dfstrans.lab.elevator.settings import SEVERITIES
from dfstrans.lab.injection.settings import KINDS
from dfstrans.training.evaluation import ChanceCheck
from tests.cli.command_line import output_of, run
from tests.raw_folders import write_vibrations
from tests.report.drawn import made_diagnosis
from tests.tdms_files import write_tdms
from tests.tiny import write_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_file())
GENERATED = {ROOT / "docs" / "reference" / name for name in ("cli.md", "settings.md")}  # by `make docs`
DOCUMENTS = [path for path in DOCUMENTS if "_build" not in path.parts and path not in GENERATED]


def blocks(document: Path, language: str) -> list[str]:
    """The code blocks of a document in one language."""
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)


def run_commands(lines: str) -> str:
    """Run the dfstrans commands among lines of shell inside this process; return what they print."""
    found = [shlex.split(line, comments=True) for line in lines.replace("\\\n", " ").splitlines()]
    return "".join(output_of(*words[1:])[0] for words in found if words[:1] == ["dfstrans"])


def run_python(code: str) -> None:
    exec(compile(code, "document", "exec"), {"__name__": "__main__"})


def run_shell(lines: str, folder: Path) -> None:
    """Run lines of shell with the dfstrans of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", lines], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_python_of_the_readme_gives_a_good_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _ = blocks(ROOT / "README.md", "python")
    run_python(code + "\nassert detector.evaluate(test).f1 >= 0.9\n")
    assert (tmp_path / "model" / "model.json").exists()


def test_the_readme_commissions_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, code = blocks(ROOT / "README.md", "python")
    for name, machines in {"fleet": ("a", "b", "c"), "new_machine": ("d",)}.items():
        rows = []
        for number, machine in enumerate(machines):
            recordings = planted_episodes(12, 6, n_sensors=3, n_timepoints=60, strength=2, seed=number + len(machines))
            write_table(recordings, tmp_path / "one.csv")
            table = pd.read_csv(tmp_path / "one.csv")
            rows.append(table.assign(machine=machine, episode_id=machine + table["episode_id"]))
        pd.concat(rows).drop(columns=[] if name == "fleet" else "label").to_csv(tmp_path / f"{name}.csv", index=False)
    code = code.replace("Diagnoser()", "Diagnoser(epochs=1)")
    run_python(code + "\nassert set(detector.machines_) == {*'abcd'}\n")
    assert "d 18 recordings" in capsys.readouterr().out


def test_the_shell_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("recordings.csv", "new_recordings.csv"):
        write_table(planted_episodes(36, 18, n_sensors=3, n_timepoints=60, strength=2), tmp_path / name)
    make, shell = blocks(ROOT / "README.md", "sh")
    assert "make demo" in make
    assert "make test" in make
    run_commands(shell.replace("train recordings.csv", "train recordings.csv --epochs 2"))
    assert (tmp_path / "pages" / "index.html").exists()


def test_arrays_become_episodes_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python("\n".join(blocks(ROOT / "docs" / "how-to" / "my-arrays.md", "python")))


def test_unknown_hdf5_is_checked_and_trained_on_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_vibrations(tmp_path)
    _, check, train = blocks(ROOT / "docs" / "how-to" / "check-recordings.md", "sh")
    code, printed, _ = run(*check.split()[1:])
    assert code == 1  # the dataset has to be named
    options = train.replace("\\\n", " ").partition("rig.h5 ")[2].split()
    for n, option in enumerate(options[:-2]):
        if option.startswith("--"):
            assert f"{option} {options[n + 1]}" in printed
    run_commands(train.replace("--out", "--model boosting --out").replace("--segment-length 100", ""))
    assert (tmp_path / "model" / "model.json").exists()


@pytest.mark.slow
def test_a_machine_is_commissioned_as_documented(tmp_path: Path) -> None:
    names = {"fleet.csv": range(8), "first_weeks.csv": [9], "new_recordings.csv": [9], "other_machines.csv": [10, 11]}
    for file, machines in names.items():
        parts = []
        for number in machines:
            episodes = planted_episodes(8, 4, n_sensors=3, n_timepoints=60, seed=number)
            episodes = replace(episodes, ids=np.array([f"{number}-{name}" for name in episodes.ids]))
            write_table(episodes, tmp_path / "part.csv")
            part = pd.read_csv(tmp_path / "part.csv").rename(columns={"time": "time [s]"})
            parts.append(part.assign(machine=f"lift-{number - 2}"))
        table = pd.concat(parts)
        table.drop(columns=[] if file == "fleet.csv" else ["label"]).to_csv(tmp_path / file, index=False)
    page = ROOT / "docs" / "how-to" / "commission-a-machine.md"
    train, commission, limit_alarms, own_baseline, _ = blocks(page, "sh")
    run_shell(train, tmp_path)
    run_shell(commission + limit_alarms + own_baseline, tmp_path)
    (code,) = blocks(page, "python")
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "12 recordings" in done.stdout
    assert {"lift-7", "lift-8"} <= dict(json.loads((tmp_path / "model" / "model.json").read_text())["machines"]).keys()


def write_recordings(folder: Path, names: Sequence[str], n_points: int = 60) -> None:
    """Write tables without labels; in every other one the values of the third sensor are much higher."""
    rng = np.random.default_rng(0)
    for n, name in enumerate(names):
        values = rng.normal(size=(n_points, 3)) + np.array([0, 0, 6 * (n % 2)])
        table = pd.DataFrame(values, columns=["a", "b", "Force"])
        table.insert(0, "time [s]", np.arange(n_points) / 100)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / name, index=False)


def commands(document: str) -> list[str]:
    """The commands of a how-to page, one per line, with trees instead of a network, which trains in seconds."""
    text = "\n".join(blocks(ROOT / "docs" / "how-to" / document, "sh")).replace("\\\n", " ")
    return [f"{line.partition(' #')[0]} {TREES if ' train ' in line else ''}" for line in text.splitlines() if line]


TREES = "--model trees --set trees=20"


@pytest.mark.filterwarnings("ignore::UserWarning")  # what reading says is the subject of other tests
def test_folders_are_trained_on_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nptdms", reason="needs the extra tdms: pip install 'dfstrans[tdms]'")
    plain, words, mapped, levels, joined, containers, tdms = commands("folder-of-files.md")
    states, runs = ("good", "worn"), range(24)
    layouts = {
        plain: [f"run_{n}.csv" for n in runs],
        words: [f"{states[n % 2]}/run_{n}.csv" for n in runs],
        mapped: [f"{states[n % 2]}/run_{n}.csv" for n in runs],
        levels: [f"machine_{n % 3}/{('good', 'bad')[n % 2]}/run_{n}.csv" for n in runs],
        joined: [f"{('good', 'bad')[n % 2]}/run_{n}/part_1.csv" for n in runs],
        containers: [],
        tdms: [],
    }
    for number, (command, names) in enumerate(layouts.items()):
        folder = tmp_path / str(number)
        write_recordings(folder / "recordings", names)
        if command == plain:
            rows = "".join(f"run_{n},{n % 2}\n" for n in runs)
            (folder / "recordings" / "labels.csv").write_text(f"episode_id,label\n{rows}")
        if command == containers:
            for n in runs:
                path = folder / "recordings" / states[n % 2] / f"run_{n}.mat"
                path.parent.mkdir(parents=True, exist_ok=True)
                savemat(path, {"signals": np.random.default_rng(n).normal(size=(60, 3)) + 6 * (n % 2)})
        if command == tdms:
            for n in runs:
                force = np.random.default_rng(n).normal(size=60) + 6 * (n % 2)
                result = {"": {"Test Result": ("passed", "leak")[n % 2]}}
                path = folder / "recordings" / f"run_{n}.tdms"
                write_tdms(path, {"DAQ": {"Force": force}, "slow": {"Oil": force[:3]}}, about=result)
        monkeypatch.chdir(folder)
        output_of(*shlex.split(command)[1:])
        assert (folder / "model" / "model.json").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_long_recordings_are_cut_and_resampled_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cut,) = commands("cut-long-recordings.md")
    check, resampled = commands("resample-recordings.md")
    # the second half of every other recording is anomalous; points of 1 s, and 25 ms, of which two are resampled to one
    for name, step, half in (("recordings", 1.0, 500), ("vibration", 0.025, 2000)):
        label = np.repeat(np.tile([0, 0, 0, 1], 6), half)
        n = np.arange(len(label))
        signal = np.random.default_rng(0).normal(size=len(label)) * (1 + 4 * label)
        table = pd.DataFrame(
            {"id": n // (2 * half), "time [s]": n % (2 * half) * step, "Force": signal, "label": label}
        )
        table.assign(label=label).to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    output_of(*shlex.split(check)[1:])
    for train in (cut, resampled):
        output_of(*shlex.split(train)[1:])
        assert (tmp_path / "model" / "model.json").exists()


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    tutorial = ROOT / "docs" / "tutorial.md"
    (code,) = blocks(tutorial, "python")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    run_shell("\n".join(blocks(tutorial, "sh")), tmp_path)
    assert (tmp_path / "pages" / "index.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_program(example: Path, tmp_path: Path) -> None:
    run_shell(f"{sys.executable if example.suffix == '.py' else 'sh'} {example}", tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = example.read_text(encoding="utf-8")
    if example.suffix == ".py":
        run_python(text)
    else:
        text = text.replace("$folder", str(tmp_path)).replace(" | head -n 5", "")
        run_python(*re.findall(r'^python -c "\n(.*?)^"', text, re.DOTALL | re.MULTILINE))
        printed = run_commands(re.sub(r'^python -c "\n.*?^"', "", text, flags=re.DOTALL | re.MULTILINE))
        assert printed.count("\nrun_") == 90  # one row of `predict` per recording


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_exist(document: Path) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", document.read_text()):
        if not target.startswith("http"):
            place = document.parent / target if target else document
            if place.resolve() in GENERATED:
                continue
            assert place.exists(), target
            assert not heading or heading in headings(place), f"{target}#{heading}"


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings: lower case, with - for spaces and no punctuation."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_documents_exist(document: Path) -> None:
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for piece in re.split(r"\s(?:#|\||&&|>)\s?", line):
                words = piece.split()
                if words[:1] == ["dfstrans"]:
                    used = {word.split("=")[0] for word in words if word.startswith("--")}
                    assert used <= known_options(words[1:]), line


@cache
def _command(name: str) -> Any:
    return typer.main.get_command(import_module(f"dfstrans.cli.{name}").app)


def known_options(words: list[str]) -> set[str]:
    """The options of the command that some words call."""
    if not words or words[0].startswith("--"):
        return {"--help", "--version"}
    command = _command(words[0])
    if hasattr(command, "commands"):
        command = command.commands.get(words[1], command)
    return {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--debug", "--help"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_documents_imports_what_exists(document: Path) -> None:
    for block in blocks(document, "python"):
        lines = [ast.unparse(node) for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)]
        exec("\n".join(line for line in lines if "dfstrans" in line), {})


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs the extra docs: pip install 'dfstrans[docs]'")
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "-b", "html", ROOT / "docs", tmp_path]
    subprocess.run(build, check=True, capture_output=True)


# ---- numbers of the elevator ----------------------------------------------------------------------------------------

FACTORS = {"MN": 1e6, "MN/m": 1e6, "kN/m": 1e3, "mH": 1e-3, "ms": 1e-3}


def elevator_row(name: str) -> list[str]:
    """The cells of the one table row of docs/reference/elevator.md whose first cell names something."""
    lines = (ROOT / "docs" / "reference" / "elevator.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    (row,) = (row for row in rows if f"`{name}`" in row[0].split(", "))
    return row


def numbers(cell: str) -> tuple[float, ...]:
    """What a cell says: "0.8 – 1.1", "0 – 2π", "0.55 – 4 mm"."""
    return tuple(6.283185 if part == "2π" else float(part.removesuffix(" mm")) for part in cell.split(" – "))


@pytest.mark.parametrize("name", RANGES)
def test_every_range_of_the_fleet_is_documented(name: str) -> None:
    _, _, bounds, unit = elevator_row(name)
    factor = FACTORS.get(unit, 1)
    assert [bound * factor for bound in numbers(bounds)] == pytest.approx(RANGES[name], rel=1e-6)


@pytest.mark.parametrize("name", SEVERITIES)
def test_every_severity_is_documented(name: str) -> None:
    assert numbers(elevator_row(name)[1]) == SEVERITIES[name]


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: sensor.name)
def test_every_sensor_is_documented(sensor: Sensor) -> None:
    _, unit, _, *figures = elevator_row(sensor.name)
    assert unit == sensor.unit
    assert tuple(map(float, figures)) == (sensor.noise, sensor.resolution, sensor.gain_error, sensor.offset_error)


# ---- numbers of planted faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_injected_fault_is_documented(kind: str) -> None:
    lines = (ROOT / "docs" / "how-to" / "test-without-labels.md").read_text().splitlines()
    (row,) = (line for line in lines if line.startswith(f"| `{kind}` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:] == [KINDS[kind].unit, ", ".join(f"{value:g}" for value in KINDS[kind].strengths)]


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "reference" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    assert published == diagnosis_schema(), "make schema writes it"


def test_every_key_and_column_of_a_diagnosis_is_documented() -> None:
    diagnosis, _ = made_diagnosis()
    diagnosis = replace(
        diagnosis, resembles=(Resemblance("bump", 1, 2),), chance_check=ChanceCheck(True, "good", "why")
    )
    content, columns = diagnosis.to_dict(), set(diagnosis.to_frame().columns)
    keys = set(content)
    for value in content.values():
        for inner in value if isinstance(value, list) else [value]:
            keys |= set(inner) if isinstance(inner, dict) else set()
    text = (ROOT / "docs" / "reference" / "json.md").read_text()
    json_part, csv_part = text.split("## CSV")
    assert keys <= {name.split(".")[-1] for name in re.findall(r"`([a-z_.\[\]]+)`", json_part)}
    assert columns <= set(re.findall(r"`([a-z_]+)`", csv_part))
    assert len(content["interpretation"][0]["changed_pairs"]) > 0  # or the test would see less than there is
