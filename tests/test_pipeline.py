from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny import TINY, tiny_episodes

from dfstrans import DfstransError, Diagnoser
from dfstrans.pipeline import evaluate_model, partial_folder, predict_table, train_model

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
