"""A model remembers how its recordings were read; later commands need no repeated options."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dfstrans import Episodes, save_episodes
from dfstrans.detectors.recipe import load_with_recipe
from dfstrans.detectors.registry import load_detector
from dfstrans.detectors.workflow import part_of
from dfstrans.errors import Note
from tests.cli.command_line import output_of, refused, result_of

pytestmark = pytest.mark.filterwarnings("always")  # the command line shows them

READ = ("--length", "24", "--time-column", "when", "--label-column", "state", "--anomalous-value", "bad")
RECIPE = {"length": 24, "time_column": "when", "label_column": "state", "anomalous_value": "bad"}


@pytest.fixture(scope="module")
def raw(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings in another habit: other names of time and label, words as labels."""
    path = tmp_path_factory.mktemp("raw") / "raw.csv"
    rows = pd.read_csv(table).rename(columns={"time": "when", "label": "state"})
    rows.replace({"state": {0: "good", 1: "bad"}}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def trees(raw: Path) -> Path:
    folder = raw.parent / "trees"
    output_of("train", raw, "--out", folder, "--model", "boosting", "--seed", "3", *READ)
    return folder


def test_commands_with_a_model_read_with_its_recipe(trees: Path, raw: Path) -> None:
    out, err = output_of("predict", trees, raw)
    assert out == output_of("predict", trees, raw, *READ)[0]
    assert len(out.splitlines()) == 1 + 2 * 36
    assert "read as the model's training recordings: --length 24, --time-column when" in err
    assert result_of("evaluate", trees, raw, "--part", "test")["f1"] == load_detector(trees).metrics_["test"]["f1"]


def test_an_option_overrides_the_recipe(trees: Path, raw: Path) -> None:
    out, err = output_of("predict", trees, raw, "--length", "48")
    assert len(out.splitlines()) == 1 + 36
    assert "--length 24" not in err


def test_recordings_shorter_than_in_training_are_read_with_a_smaller_length_as_the_error_says(
    model: Path, table: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(table)
    rows[rows.time < 20].to_csv(tmp_path / "short.csv", index=False)
    assert "choose a smaller --length" in refused("predict", model, tmp_path / "short.csv", "--length", "24")
    out, _ = output_of("predict", model, tmp_path / "short.csv", "--length", "20")
    assert len(out.splitlines()) == 1 + 36


def test_recordings_without_the_label_column_are_read_for_prediction_only(
    trees: Path, raw: Path, tmp_path: Path
) -> None:
    pd.read_csv(raw).drop(columns="state").to_csv(tmp_path / "new.csv", index=False)
    out, err = output_of("predict", trees, tmp_path / "new.csv")
    assert out == output_of("predict", trees, raw)[0]
    assert "without" not in err  # prediction needs no labels
    assert "state" in refused("evaluate", trees, tmp_path / "new.csv")


def test_recordings_without_labels_keep_their_groups(raw: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(raw)
    rows["machine"] = "m" + rows.episode_id.str[-1]
    rows.to_csv(tmp_path / "raw.csv", index=False)
    read = (*READ, "--group-column", "machine")
    output_of("train", tmp_path / "raw.csv", "--out", tmp_path / "m", "--model", "boosting", *read)
    detector = load_detector(tmp_path / "m")
    for column, labelled in {"state": False, "machine": True}.items():
        rows.drop(columns=column).to_csv(tmp_path / "new.csv", index=False)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = detector.load_episodes(tmp_path / "new.csv", need_labels=False)
        assert any("read without group_column='machine': " in str(one.message) for one in warned) == labelled
        assert (found.labels is not None) == labelled
        assert (found.groups is not None and "m1" in found.groups) != labelled


def test_recordings_without_the_label_table_of_training_are_read(tmp_path: Path) -> None:
    (tmp_path / "run 7.csv").write_text("time,a\n0,1\n1,2\n")
    recipe = {"id_column": "file", "label_column": "finding", "normal_value": "ok"}  # columns of the label table
    with pytest.warns(Note, match="read without id_column='file', which they lack"):
        episodes = load_with_recipe(recipe, tmp_path, {}, need_labels=False)
    assert episodes.ids.tolist() == ["run 7"]


def test_recordings_that_do_not_fit_are_refused(trees: Path, raw: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(raw)
    rows.rename(columns={"when": "clock"}).to_csv(tmp_path / "clock.csv", index=False)
    assert "when" in refused("predict", trees, tmp_path / "clock.csv")
    rows.drop(columns="b").to_csv(tmp_path / "no_b.csv", index=False)
    assert "missing: b" in refused("predict", trees, tmp_path / "no_b.csv")
    save_episodes(Episodes.from_arrays(np.zeros((2, 3, 20)), sensors=["a", "b", "c"]), tmp_path / "short.npz")
    assert "recordings of at least 24 points, got at most 20" in refused("predict", trees, tmp_path / "short.npz")


def test_stored_episodes_are_cut_as_in_training(trees: Path, tmp_path: Path) -> None:
    save_episodes(Episodes.from_arrays(np.zeros((2, 3, 48)), sensors=["a", "b", "c"]), tmp_path / "whole.npz")
    assert len(result_of("predict", trees, tmp_path / "whole.npz")["predictions"]) == 4


def test_recipe_is_printed_as_toml_and_taken_by_other_commands(trees: Path, raw: Path, tmp_path: Path) -> None:
    out, _ = output_of("data", "recipe", trees)
    assert tomllib.loads(out) == RECIPE
    (tmp_path / "recipe.toml").write_text(out)
    assert result_of("data", "check", raw, "--recipe", tmp_path / "recipe.toml")["episodes"] == 72
    said = "expected a TOML file for --recipe, got nothing"
    assert said in refused("data", "check", raw, "--recipe", tmp_path / "none.toml")
    (tmp_path / "wrong.toml").write_text("lenght = 24\n")
    assert "lenght" in refused("data", "check", raw, "--recipe", tmp_path / "wrong.toml")


def test_label_and_fault_tables_are_not_remembered(table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table)
    labels = rows.groupby("episode_id", as_index=False).label.first().rename(columns={"episode_id": "id"})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    rows.drop(columns="label").to_csv(tmp_path / "rows.csv", index=False)
    read = ("--labels", tmp_path / "labels.csv", "--length", "24")
    output_of("train", tmp_path / "rows.csv", "--out", tmp_path / "m", "--model", "boosting", *read)
    assert load_detector(tmp_path / "m").reading_ == {"length": 24}


def test_parts_are_stored_and_those_of_the_first_split_of_compare(trees: Path, raw: Path, tmp_path: Path) -> None:
    parts = json.loads((trees / "parts.json").read_text())
    sizes = [len(parts[name]) for name in ("train", "validation", "test")]
    assert sizes == [51, 10, 11]  # of 48 normal and 24 anomalous pieces: 34, 7, 7 and 17, 3, 4
    output_of("compare", raw, *READ, "--models", "boosting", "--folds", "2", "--seed", "3", "--out", tmp_path)
    first, second = map(json.loads, (tmp_path / "runs.parts.jsonl").read_text().splitlines())
    assert first == parts
    assert second != parts
    detector = load_detector(trees)
    test = part_of(detector, detector.load_episodes(raw), "test")
    assert test.ids.tolist() == parts["test"]


@pytest.mark.parametrize(
    "command", ["train", "predict", "evaluate", "diagnose", "commission", "compare", "inject", "export"]
)
def test_wrong_path_is_refused_before_torch_is_loaded(command: str) -> None:
    code = (
        "import sys; from dfstrans.cli.app import main; sys.argv = sys.argv[1:]\n"
        "try: main()\nfinally: assert not {'torch', 'pandas', 'sklearn'} & set(sys.modules)"
    )
    given = [sys.executable, "-c", code, "dfstrans", command, "no/such/path", "--out", "x"]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "at no/such/path, got nothing there; check the path" in done.stderr
    assert "Traceback" not in done.stderr
