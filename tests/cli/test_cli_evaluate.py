from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dfstrans import Diagnoser, save_episodes
from dfstrans.data.synthetic import planted_episodes
from tests.cli.command_line import run


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_evaluate_and_predict_use_the_saved_model(model: Path, table: Path, tmp_path: Path) -> None:
    code, out, _ = run("evaluate", model, table, "--part", "test", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found.pop("part"), found.pop("left_out")) == ("test", [])
    found.pop("out_of_range")
    assert found == Diagnoser.load(model).metrics_["test"]
    code, out, _ = run("predict", model, table)
    assert code == 0
    assert out.splitlines()[0] == "episode_id,probability,anomalous,raw_logit"
    assert len(out.splitlines()) == 37
    code, out, err = run("predict", model, table, "--out", tmp_path / "p.csv", "--json")
    assert code == 0
    assert len(json.loads(out)["predictions"]) == 36 == len(pd.read_csv(tmp_path / "p.csv"))
    assert "written to" in err


def test_evaluate_leaves_out_what_cannot_be_scored_and_says_so(model: Path, table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table)
    short = rows.query("episode_id == 'run_0001' and time < 5").assign(episode_id="short")
    pd.concat([rows, short]).to_csv(tmp_path / "some.csv", index=False)
    code, out, err = run("evaluate", model, tmp_path / "some.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["episodes"] == 36
    (left_out,) = json.loads(out)["left_out"]
    assert left_out["id"] == "short"
    assert "got 5 in episode 'short'" in left_out["reason"]
    assert "skipped 1 of 37 episodes: short" in err


@pytest.mark.filterwarnings("always:these are the episodes")
def test_evaluate_compares_diagnoses_with_known_causes(monkeypatch: Any, tmp_path: Path) -> None:
    planted = planted_episodes(n_normal=60, n_anomalous=24, n_sensors=4, n_timepoints=96)
    save_episodes(planted, tmp_path / "p.h5")
    slim = [
        "--segment-length",
        16,
        "--batch-size",
        8,
        "--set",
        "filters=4",
        "--set",
        "heads=2",
        "--set",
        "feedforward=16",
    ]
    run("train", tmp_path / "p.h5", "--out", tmp_path / "m", "--epochs", 10, *slim)
    command = ("evaluate", tmp_path / "m", tmp_path / "p.h5", "--part", "train", "--diagnosis")
    code, out, err = run(*command, "--json")
    assert code == 0, err
    found = json.loads(out)["diagnosis"]
    assert found["rankings"].keys() == {"shown", "relevance", "z-score", "gradients"}
    assert found["curves"]["figures"].keys() == found["curves"]["random_figures"].keys()
    shown = found["rankings"]["shown"]["sensors"]["all"]["ac@1"]
    assert shown["low"] <= shown["value"] <= shown["high"]
    assert shown["chance"] == pytest.approx(0.25)
    monkeypatch.setattr("dfstrans.cli.output.QUIET_SECONDS", 0.0)
    code, out, err = run(*command, "--part", "all")
    assert code == 0
    assert "diagnosing: 100 % (24 of 24)" in err
    assert re.search(r"integrated gradients: 100 % \((\d+) of \1\)", err)
    assert re.search(r"deletion and insertion: 100 % \((\d+) of \1\)", err)
    assert err.count("these are the episodes the model was trained from") == 1
    assert "auroc" in out
    assert "comprehensiveness" in out
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    code, out, _ = run(*command)
    assert code == 0
    assert "without gradients" in out
    assert "dfstrans[paper]" in out
    save_episodes(planted[planted.require_labels() == 1], tmp_path / "faulty.h5")
    code, out, err = run("evaluate", tmp_path / "m", tmp_path / "faulty.h5", "--diagnosis")
    assert code == 0, err
    assert "without z-score: expected at least two normal episodes to compare with, got 0; add" in out
    save_episodes(planted[planted.require_labels() == 0], tmp_path / "normal.h5")
    code, _, err = run("evaluate", tmp_path / "m", tmp_path / "normal.h5", "--diagnosis")
    assert code == 2
    assert "use anomalous recordings with known faults" in err


@pytest.mark.filterwarnings("always:these are the episodes")
def test_evaluating_the_training_episodes_names_the_part_to_use(model: Path, table: Path) -> None:
    code, _, err = run("evaluate", model, table)
    assert code == 0
    assert "--part all includes" in err
    assert "use --part test (the parts are train, validation, test and all)" in err


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_recordings_without_known_causes_cannot_be_compared_with_them(model: Path, table: Path) -> None:
    code, _, err = run("evaluate", model, table, "--part", "test", "--diagnosis")
    assert code == 2
    assert "table of the faults of each episode (--faults …)" in err


def test_known_fault_in_an_unknown_sensor_is_refused_by_evaluate(model: Path, table: Path, tmp_path: Path) -> None:
    anomalous = pd.read_csv(table).query("label == 1").episode_id.unique()
    pd.DataFrame({"id": anomalous, "fault": "rust", "sensors": "Torque"}).to_csv(tmp_path / "known.csv", index=False)
    command = ("evaluate", model, table, "--part", "train", "--diagnosis", "--faults", tmp_path / "known.csv")
    code, _, err = run(*command)
    assert code == 2
    assert "unknown sensors" in err
    assert "Torque" in err
