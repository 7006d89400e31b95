from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans import load_episodes
from dfstrans.lab.elevator.simulation import Fleet, Journey
from tests.cli.command_line import output_of, refused, result_of, run

SMALL = ["simulate", "elevator", "--sampling-rate", "100", "--seed", "7"]
NORMAL = [*SMALL, "--normal", "3", "--faulty", "0"]


@pytest.mark.usefixtures("few_pairs")
def test_a_simulated_file_is_checked_with_units_and_fault_kinds_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    printed = result_of(*SMALL, "--normal", "8", "--faulty", "6", "--out", path, "--plot")
    assert printed == {
        "written": str(path), "journeys": 14, "faulty": 6, "seed": 7, "plot": str(tmp_path / "a.html"),
        "faults": ["lubrication", "misalignment", "bump"],
    }  # fmt: skip
    assert (tmp_path / "a.html").exists()
    found = result_of("data", "check", path)
    assert (found["episodes"], found["anomalous"], len(found["sensors"])) == (14, 6, 20)
    assert found["units"]["Iq"] == "A"
    assert found["fault_kinds"] == {"bump": 2, "lubrication": 2, "misalignment": 2}


def test_help_names_the_kinds_of_fault_and_the_form_of_a_severity() -> None:
    text = " ".join(output_of("simulate", "elevator", "--help")[0].replace("│", " ").split())
    for expected in ("lubrication, misalignment, bump, demagnetisation", "FROM TO", "Other options override it."):
        assert expected in text


@pytest.mark.parametrize("given", ["1.5", "many"])
def test_error_quotes_a_count_that_is_not_an_integer(given: str) -> None:
    assert f"got '{given}'" in refused(*SMALL, "--normal", given, "--out", "a.h5")


def test_finished_command_does_nothing_when_repeated(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.h5"
    assert "created the folder" in output_of(*NORMAL, "--out", path)[1]
    before = path.read_bytes()
    assert "nothing to do" in output_of(*NORMAL, "--out", path)[1]
    assert "something else" in refused(*NORMAL, "--seed", "8", "--out", path)
    assert path.read_bytes() == before
    output_of(*NORMAL, "--seed", "8", "--out", path, "--overwrite")
    assert path.read_bytes() != before


def test_an_interrupted_command_says_what_is_kept_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "a.h5", Fleet.journey

    def interrupted(fleet: Fleet, row: int) -> Journey:
        if row == 2:
            raise KeyboardInterrupt
        return whole(fleet, row)

    monkeypatch.setattr(Fleet, "journey", interrupted)
    code, _, said = run(*NORMAL, "--out", path)
    assert code == 130
    assert f"2 of 3 journeys are kept in {tmp_path / '.a.h5.partial'}" in said
    monkeypatch.setattr(Fleet, "journey", whole)
    assert "2 of 3 journeys are done" in output_of(*NORMAL, "--out", path)[1]
    assert len(load_episodes(path)) == 3


def test_fault_kinds_without_a_faulty_journey_give_a_remark(tmp_path: Path) -> None:
    assert "--faults has no effect" in output_of(*NORMAL, "--faults", "bump", "--out", tmp_path / "a.h5")[1]


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
    assert said in refused(*SMALL, *wrong)
    assert list(tmp_path.iterdir()) == []
