from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from dfstrans import Diagnoser, Episodes, save_episodes
from tests.cli.command_line import output_of, refused, result_of


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_evaluate_and_predict_use_the_saved_model(model: Path, table: Path, tmp_path: Path) -> None:
    found = result_of("evaluate", model, table, "--part", "test")
    assert (found.pop("part"), found.pop("skipped")) == ("test", [])
    found.pop("out_of_range")
    detector = Diagnoser.load(model)
    assert detector.committee_ is not None
    committee = found.pop("committee")
    assert committee["network_weight"] == detector.committee_.network_weight
    alone = {name: figures["pr_auc"] for name, figures in committee["members"].items()}
    assert alone == detector.committee_.pr_auc["test"]
    assert result_of("summary", model)["committee"]["pr_auc"]["test"] == alone
    out, _ = output_of("evaluate", model, table, "--part", "test")
    assert "network alone  trees alone" in out
    assert found == Diagnoser.load(model).metrics_["test"]
    out, _ = output_of("predict", model, table)
    assert out.splitlines()[0] == "episode_id,probability,anomalous,raw_logit,verdict,novelty"
    assert len(out.splitlines()) == 37
    out, err = output_of("predict", model, table, "--out", tmp_path / "p.csv", "--json")
    assert len(json.loads(out)["predictions"]) == 36 == len(pd.read_csv(tmp_path / "p.csv"))
    assert "written to" in err


def test_evaluate_leaves_out_what_cannot_be_scored_and_says_so(model: Path, table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table)
    short = rows.query("episode_id == 'run_0001' and time < 5").assign(episode_id="short")
    pd.concat([rows, short]).to_csv(tmp_path / "some.csv", index=False)
    out, err = output_of("evaluate", model, tmp_path / "some.csv", "--json")
    assert json.loads(out)["episodes"] == 36
    (skipped,) = json.loads(out)["skipped"]
    assert skipped["id"] == "short"
    assert "got 5 in episode 'short'" in skipped["reason"]
    assert "skipped 1 of 37 episodes: short" in err


@pytest.mark.filterwarnings("always:these are the episodes")
def test_evaluate_compares_diagnoses_with_known_causes(
    planted_model: tuple[Path, Episodes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    detector, planted = planted_model
    save_episodes(planted, tmp_path / "p.h5")
    command = ("evaluate", detector, tmp_path / "p.h5", "--part", "train", "--diagnosis")
    found = result_of(*command)["diagnosis"]
    assert found["rankings"].keys() == {"shown", "relevance", "z-score", "gradients"}
    assert found["curves"]["metrics"].keys() == found["curves"]["random_metrics"].keys()
    shown = found["rankings"]["shown"]["sensors"]["all"]["ac@1"]
    assert shown["low"] <= shown["value"] <= shown["high"]
    assert shown["chance"] == pytest.approx(0.25)
    monkeypatch.setattr("dfstrans.cli.output.QUIET_SECONDS", 0.0)
    out, err = output_of(*command, "--part", "all")
    assert "diagnosing: 100 % (24 of 24)" in err
    assert re.search(r"integrated gradients: 100 % \((\d+) of \1\)", err)
    assert re.search(r"deletion and insertion: 100 % \((\d+) of \1\)", err)
    assert err.count("these are the episodes the model was trained from") == 1
    assert "auroc" in out
    assert "comprehensiveness" in out
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    out, _ = output_of(*command)
    assert "without gradients" in out
    assert "dfstrans[paper]" in out
    save_episodes(planted[planted.require_labels() == 1], tmp_path / "faulty.h5")
    out, err = output_of("evaluate", detector, tmp_path / "faulty.h5", "--diagnosis")
    assert "without z-score: expected at least two normal episodes to compare with, got 0; add" in out
    save_episodes(planted[planted.require_labels() == 0], tmp_path / "normal.h5")
    assert "use anomalous recordings with known faults" in refused(
        "evaluate", detector, tmp_path / "normal.h5", "--diagnosis"
    )


@pytest.mark.filterwarnings("always:these are the episodes")
def test_evaluating_the_training_episodes_names_the_part_to_use(model: Path, table: Path) -> None:
    _, err = output_of("evaluate", model, table)
    assert "--part all includes" in err
    assert "use --part test (the parts are train, validation, test and all)" in err


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_recordings_without_known_causes_cannot_be_compared_with_them(model: Path, table: Path) -> None:
    said = "table of the faults of each episode (--faults …)"
    assert said in refused("evaluate", model, table, "--part", "test", "--diagnosis")


def test_known_fault_in_an_unknown_sensor_is_refused_by_evaluate(model: Path, table: Path, tmp_path: Path) -> None:
    anomalous = pd.read_csv(table).query("label == 1").episode_id.unique()
    pd.DataFrame({"id": anomalous, "fault": "rust", "sensors": "Torque"}).to_csv(tmp_path / "known.csv", index=False)
    command = ("evaluate", model, table, "--part", "train", "--diagnosis", "--faults", tmp_path / "known.csv")
    err = refused(*command)
    assert "unknown sensors" in err
    assert "Torque" in err
