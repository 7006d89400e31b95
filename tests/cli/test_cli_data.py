from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dfstrans import Episodes, load_episodes
from dfstrans.data.problems import Problems
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import Note
from tests.cli.command_line import output_of, result_of, run


@pytest.mark.parametrize(
    ("part", "options", "episodes", "anomalous"),
    [
        ("telemanom", ["--spacecraft", "SMAP"], 848, 161),
        ("telemanom", ["--spacecraft", "MSL"], 136, 40),
        ("ServerMachineDataset", [], 949, 289),
    ],
)
def test_data_check_counts_the_public_data(
    public_data: Path, part: str, options: list[str], episodes: int, anomalous: int
) -> None:
    content = result_of("data", "check", public_data / part, "--length", 500, "--stride", 500, *options)
    assert (content["episodes"], content["anomalous"]) == (episodes, anomalous)


def test_data_check_prints_what_was_read(table: Path) -> None:
    assert "Episodes: 36 (12 anomalous, 24 normal) × 3 sensors × 48 points" in output_of("data", "check", table)[0]


def test_data_check_exits_with_1_when_training_is_impossible(tmp_path: Path) -> None:
    lines = ["episode_id,time,a,b,label", *(f"{e},{t},{t},,{e % 2}" for e in range(4) for t in range(9))]
    (tmp_path / "empty_sensor.csv").write_text("\n".join(lines))
    code, out, _ = run("data", "check", tmp_path / "empty_sensor.csv")
    assert code == 1
    assert "error: sensors without any value: b" in out


def test_uncovered_end_of_a_recording_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("time,a,label\n" + "".join(f"{t},{t % 7},{t // 1000}\n" for t in range(1999)))
    code, out, err = run("data", "check", tmp_path / "long.csv", "--length", 300, "--json")
    first = json.loads(out)["findings"][0]
    assert (code, first["level"]) == (1, "warning")  # 1: too few are anomalous
    assert first["message"].startswith("skipped 199 points at the end of 1 of 1 recording: long (199)")
    assert "199 points" not in err
    _, out, _ = run("data", "check", tmp_path / "long.csv", "--length", 300)
    assert "\nwarning: skipped 199 points" in out


def test_warnings_are_shown_for_unreadable_data(tmp_path: Path) -> None:
    text = "episode_id,time,a,label,anomaly\n1,0,1.5,0,0\n1,1,2.5,0,0\n1,9,2.5,0,0\n1,9.5,2,0,0\n"
    (tmp_path / "runs.csv").write_text(text)
    code, out, _ = run("data", "check", tmp_path / "runs.csv")
    assert code == 1
    assert "error: expected regular time" in out
    assert "\nwarning: " in out


@pytest.mark.filterwarnings("always")
def test_warning_of_two_files_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any, **__: Any) -> tuple[Episodes, Problems]:
        for _ in range(2):
            warnings.warn("points are missing", stacklevel=1)
            warnings.warn("worth knowing", Note, stacklevel=1)
            warnings.warn("overflow in a library", RuntimeWarning, stacklevel=1)
        return planted_episodes(8, 8), Problems()

    monkeypatch.setattr("dfstrans.cli.data.read_episodes", load)
    _, out, err = run("data", "check", tmp_path, "--json")
    messages = [finding["message"] for finding in json.loads(out)["findings"]]
    assert messages.count("points are missing") == 1
    assert not {"worth knowing", "overflow in a library"} & set(messages)
    assert err.splitlines() == ["worth knowing", "warning: overflow in a library"]


def test_convert_keeps_everything(table: Path, tmp_path: Path) -> None:
    assert result_of("data", "convert", table, tmp_path / "recordings.h5")["episodes"] == 36
    assert load_episodes(tmp_path / "recordings.h5").fingerprint() == load_episodes(table).fingerprint()


def test_recordings_without_labels_are_exempt_from_exit_code_1(table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).drop(columns="label").to_csv(tmp_path / "new.csv", index=False)
    assert run("data", "check", tmp_path / "new.csv")[0] == 0


def test_data_check_reports_the_problems_of_all_files(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"run_{n}.csv").write_text("time,a,note\n0,1,x\n1,2,y\n2,3,z\n")
    (tmp_path / "run_4.csv").write_text("time,a,note\n0,1,x\n1,ERR,y\n2,3,z\n")
    (tmp_path / "run_5.csv").write_text("time,a,note\n0,1,x\n2,2,y\n1,3,z\n")
    code, out, _ = run("data", "check", tmp_path)
    assert code == 1
    assert "error: expected numbers in column 'a'" in out
    assert "error: expected time to increase" in out
    assert "warning: skipped columns without numbers: note" in out
    code, out, _ = run("data", "check", tmp_path, "--json")
    first = json.loads(out)["findings"][0]
    assert (first["count"], first["line"], first["option"]) == (1, 3, "--skip-bad-files")
    code, out, _ = run("data", "check", tmp_path, "--skip-bad-files", "--json")
    assert [Path(file).name for file in json.loads(out)["skipped"]] == ["run_4.csv", "run_5.csv"]
    assert json.loads(out)["episodes"] == 4
