from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, Diagnoser, Episodes
from dfstrans.pipeline import evaluate_model, out_of_range, partial_folder, predict_table, train_model
from tests.tiny import TINY, tiny_episodes

EPISODES = tiny_episodes()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "model"
    train_model(EPISODES, folder, **TINY)
    return folder


def test_training_saves_a_model_with_test_figures_and_removes_its_checkpoint(model: Path) -> None:
    detector = Diagnoser.load(model)
    assert detector.metrics_["test"]["episodes"] == len(EPISODES.split(0)[2])
    assert not partial_folder(model).exists()
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_the_test_part_can_be_evaluated_again(model: Path) -> None:
    detector = Diagnoser.load(model)
    assert evaluate_model(detector, EPISODES, "test").to_dict() == detector.metrics_["test"]
    assert evaluate_model(detector, EPISODES, "validation").to_dict() == detector.metrics_["validation"]


def test_evaluating_the_training_episodes_warns(model: Path) -> None:
    with pytest.warns(UserWarning, match="figures flatter"):
        evaluate_model(Diagnoser.load(model), EPISODES)


def test_a_part_of_other_episodes_is_refused(model: Path) -> None:
    other = tiny_episodes(seed=9)
    with pytest.raises(DfstransError, match="expected the very episodes"):
        evaluate_model(Diagnoser.load(model), other, "test")
    assert evaluate_model(Diagnoser.load(model), other).episodes == len(other)


def test_predictions_have_a_row_per_episode(model: Path) -> None:
    detector = Diagnoser.load(model)
    table = predict_table(detector, EPISODES)
    assert table["episode_id"].tolist() == EPISODES.ids.tolist()
    assert (table["anomalous"] == (table["probability"] >= detector.threshold_.value)).all()


def test_a_grouped_split_needs_groups(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="expected episodes with a group"):
        train_model(EPISODES, tmp_path / "model", split="grouped", **TINY)


def test_a_new_run_sets_an_interrupted_one_aside(tmp_path: Path) -> None:
    out = tmp_path / "model"
    partial_folder(out).mkdir()
    (partial_folder(out) / "last.ckpt").write_text("hours of work")
    with pytest.warns(UserWarning, match="was set aside"):
        train_model(EPISODES, out, **TINY)
    assert (tmp_path / "model.partial.old" / "last.ckpt").read_text() == "hours of work"


def test_an_episode_too_short_for_a_segment_is_refused_before_training(tmp_path: Path) -> None:
    series = [values[:, :48] for values in np.asarray(EPISODES.values)]
    series[7] = series[7][:, :10]
    with pytest.raises(DfstransError, match="of a segment, got 10 in episode 'episode_7'"):
        train_model(Episodes.from_arrays(series, EPISODES.labels), tmp_path / "model", **TINY)
    assert list(tmp_path.iterdir()) == []


def test_a_place_with_other_files_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(DfstransError, match="got other files"):
        train_model(EPISODES, tmp_path, **TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_values_outside_the_training_range_are_counted(model: Path) -> None:
    detector = Diagnoser.load(model)
    values = np.asarray(EPISODES.values).copy()
    values[:, 1] += 1000
    moved = dataclasses.replace(EPISODES, values=values)
    shares = out_of_range(detector, moved)
    assert next(iter(shares.items())) == ("S2", 1.0)
