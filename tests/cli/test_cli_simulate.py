from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dfstrans import DfstransError, load_episodes
from dfstrans.cli.app import app
from dfstrans.lab.elevator.simulation import Fleet, Journey

SMALL = ["simulate", "elevator", "--sampling-rate", "100", "--seed", "7"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_simulate_twice_gives_identical_content_with_one_job_or_two(tmp_path: Path) -> None:
    first, second = tmp_path / "a.h5", tmp_path / "b.h5"
    run(*SMALL, "--normal", "3", "--faulty", "3", "--out", str(first))
    run(*SMALL, "--normal", "3", "--faulty", "3", "--out", str(second), "--jobs", "2")
    a, b = load_episodes(first), load_episodes(second)
    np.testing.assert_array_equal(np.asarray(a.values), np.asarray(b.values))
    assert (a.faults, a.ids.tolist()) == (b.faults, b.ids.tolist())


def test_data_check_lists_sensors_with_units_and_fault_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    written = json.loads(run(*SMALL, "--normal", "8", "--faulty", "6", "--out", str(path), "--json"))
    assert (written["journeys"], written["faulty"]) == (14, 6)
    found = json.loads(run("data", "check", str(path), "--json"))
    assert (found["episodes"], found["anomalous"], len(found["sensors"])) == (14, 6, 20)
    assert found["units"]["Iq"] == "A"
    assert found["fault_kinds"] == {"bump": 2, "lubrication": 2, "misalignment": 2}


def test_plot_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    written = json.loads(run(*SMALL, "--normal", "2", "--faulty", "1", "--out", str(path), "--plot", "--json"))
    assert written["plot"] == str(tmp_path / "a.html")
    assert (tmp_path / "a.html").exists()


def test_help_names_the_kinds_of_fault_and_what_a_severity_is() -> None:
    text = " ".join(run("simulate", "elevator", "--help").replace("│", " ").split())
    assert "lubrication, misalignment, bump, demagnetisation, inductance, sensor-stuck" in text
    assert "FROM TO" in text
    assert "Other options override it." in text


@pytest.mark.parametrize("given", ["1.5", "many"])
def test_what_is_no_whole_number_is_repeated(given: str) -> None:
    result = CliRunner().invoke(app, [*SMALL, "--normal", given, "--out", "a.h5"])
    assert result.exit_code == 2
    assert f"got '{given}'" in result.stderr


NORMAL = [*SMALL, "--normal", "3", "--faulty", "0"]


def said(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stderr


def test_a_finished_command_does_nothing_again_and_other_content_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.h5"
    assert "made the folder" in said(*NORMAL, "--out", str(path))
    before = path.read_bytes()
    assert "is there already" in said(*NORMAL, "--out", str(path))
    with pytest.raises(DfstransError, match="something else"):
        said(*NORMAL, "--seed", "8", "--out", str(path))
    assert path.read_bytes() == before
    said(*NORMAL, "--seed", "8", "--out", str(path), "--overwrite")
    assert path.read_bytes() != before


def test_an_interrupted_command_says_what_is_kept_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "a.h5", Fleet.journey

    def interrupted(fleet: Fleet, row: int) -> Journey:
        if row == 2:
            raise KeyboardInterrupt
        return whole(fleet, row)

    monkeypatch.setattr(Fleet, "journey", interrupted)
    assert f"interrupted; 2 of 3 journeys are kept in {tmp_path / '.a.h5.partial'}" in said(
        *NORMAL, "--out", str(path), code=130
    )
    monkeypatch.setattr(Fleet, "journey", whole)
    assert "2 of 3 journeys are there" in said(*NORMAL, "--out", str(path))
    assert len(load_episodes(path)) == 3


def test_kinds_without_a_faulty_journey_are_remarked(tmp_path: Path) -> None:
    assert "are not used" in said(*NORMAL, "--faults", "bump", "--out", str(tmp_path / "a.h5"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--out", "a.csv"], "--out to end in .h5"),
        ([], "--out FILE.h5, --plot"),
        (["--out", "a.h5", "--installations", "0"], "installations"),
        (["--out", "a.h5", "--faults", "rust"], "lubrication"),
        (["--out", "a.h5", "--severity", "-1", "2"], "severity"),
        (["--out", "a.h5", "--n-timepoints", "1000"], "at least 19.1 s"),
    ],
)
def test_an_impossible_request_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DfstransError, match=said):
        CliRunner().invoke(app, [*SMALL, *wrong], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []
