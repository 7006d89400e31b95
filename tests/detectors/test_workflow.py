from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import DfstransError, Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.registry import detector_kind
from dfstrans.detectors.workflow import part_of, partial_folder, predict_table, train_model
from dfstrans.errors import Note
from tests.tiny import TINY, edit_record, interrupt_after, tiny_episodes

EPISODES = tiny_episodes()


def train(out: Path, episodes: Episodes = EPISODES, resume: bool = False, **changes: Any) -> EpisodeClassifier:
    return train_model(Diagnoser.from_settings(**TINY | changes), episodes, out, resume=resume)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "model"
    train(folder)
    return folder


def test_training_saves_test_metrics_and_removes_its_checkpoint(model: Path) -> None:
    detector = Diagnoser.load(model)
    assert detector.metrics_["test"]["episodes"] == len(EPISODES.split(0)[2])
    assert not partial_folder(model).exists()
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_resuming_a_finished_run_does_not_train_again(model: Path) -> None:
    written = {path: path.stat().st_mtime_ns for path in model.iterdir()}
    with pytest.warns(UserWarning, match="is the result of this run: nothing to resume; train without resume"):
        kept = train(model, resume=True)
    assert {path: path.stat().st_mtime_ns for path in model.iterdir()} == written
    assert kept.metrics_ == Diagnoser.load(model).metrics_


def test_a_finished_run_of_other_versions_is_kept_with_a_warning(model: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    edit_record(copy, versions=json.loads((copy / "model.json").read_text())["versions"] | {"torch": "0.1"})
    said = r"comes from other versions .torch 0\.1 instead of .*different weights.*train without resume to repeat it"
    with pytest.warns(UserWarning, match=said) as warned:
        train(copy, resume=True)
    assert not any("is the result of this run" in str(one.message) for one in warned)
    assert json.loads((copy / "model.json").read_text())["versions"]["torch"] == "0.1"


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
def test_a_damaged_model_is_not_a_finished_run(model: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    (copy / name).write_bytes((copy / name).read_bytes()[:100])
    with (
        pytest.warns(UserWarning, match=r"is trained again: .*got a damaged one"),
        pytest.warns(UserWarning, match="starting a new one"),
    ):
        train(copy, resume=True)
    assert Diagnoser.load(copy).metrics_ == Diagnoser.load(model).metrics_


@pytest.mark.parametrize(
    ("change", "episodes", "difference"),
    [
        ({"seed": 1}, EPISODES, "seed=1 instead of 0, another train part"),
        ({"head_width": 9}, EPISODES, "head_width=9 instead of 8"),
        ({"members": "committee"}, EPISODES, "members='committee' instead of network"),
        ({}, tiny_episodes(seed=3), "another train part"),
    ],
)
def test_resume_does_not_replace_a_finished_model_of_other_settings_or_data(
    model: Path, change: dict[str, Any], episodes: Episodes, difference: str
) -> None:
    written = {path: path.stat().st_mtime_ns for path in model.iterdir()}
    with pytest.raises(DfstransError, match=f"finished model in .*got {difference}.*choose another out, or .* without"):
        train(model, episodes, resume=True, **change)
    assert {path: path.stat().st_mtime_ns for path in model.iterdir()} == written


def test_resume_does_not_replace_a_finished_model_of_another_kind(model: Path) -> None:
    with pytest.raises(DfstransError, match="got model='boosting' instead of dfstrans"):
        train_model(detector_kind("boosting")(), EPISODES, model, resume=True)


def test_the_test_part_can_be_evaluated_again(model: Path) -> None:
    detector = Diagnoser.load(model)
    assert detector.evaluate(part_of(detector, EPISODES, "test")).to_dict() == detector.metrics_["test"]
    assert detector.evaluate(part_of(detector, EPISODES, "validation")).to_dict() == detector.metrics_["validation"]


def test_a_part_of_other_episodes_is_refused(model: Path) -> None:
    other = tiny_episodes(seed=9)
    with pytest.raises(DfstransError, match=r"as in training for part='test', got others.*part='all'"):
        part_of(Diagnoser.load(model), other, "test")
    assert part_of(Diagnoser.load(model), other, "all") is other


def test_predictions_have_a_row_per_episode_whose_raw_logit_gives_the_probability(model: Path) -> None:
    detector = Diagnoser.load(model)
    table = predict_table(detector, EPISODES)
    assert table["episode_id"].tolist() == EPISODES.ids.tolist()
    assert (table["anomalous"] == (table["probability"] >= detector.threshold_.value)).all()
    assert "logit" not in table.columns
    shift, temperature = detector.calibration_.shift, detector.calibration_.temperature
    np.testing.assert_allclose(table.probability, 1 / (1 + np.exp(-(table.raw_logit - shift) / temperature)))


@pytest.mark.parametrize(
    ("n_anomalous", "message"),
    [
        (0, "got 24 normal and 0 anomalous"),
        (3, "in the training part, got 17 and 1 there, of 24 normal and 3 anomalous in all"),
    ],
)
def test_too_few_of_a_class_are_counted_in_the_whole_set(tmp_path: Path, n_anomalous: int, message: str) -> None:
    labels = EPISODES.require_labels()
    kept = np.concatenate([np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:n_anomalous]])
    with pytest.raises(DfstransError, match=message):
        train(tmp_path / "model", EPISODES[kept])
    assert list(tmp_path.iterdir()) == []


def test_more_sensors_than_points_are_trained_on_with_a_warning(tmp_path: Path) -> None:
    wide = Episodes.from_arrays(np.tile(np.asarray(EPISODES.values), (1, 17, 1)), EPISODES.labels)
    with pytest.warns(UserWarning, match="51 sensors and only 48 points look transposed"):
        train(tmp_path / "model", wide, epochs=1)


def test_a_new_run_moves_an_interrupted_one_aside(tmp_path: Path) -> None:
    out = tmp_path / "model"
    partial_folder(out).mkdir()
    (partial_folder(out) / "last.ckpt").write_text("hours of work")
    with pytest.warns(UserWarning, match=r"to continue it, rename that folder to .*model\.partial and train with"):
        train(out)
    assert (tmp_path / "model.partial.old" / "last.ckpt").read_text() == "hours of work"


def test_resume_finds_the_run_that_was_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "model"
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            train(out)
    partial_folder(out).rename(tmp_path / "model.partial.old")
    with pytest.warns(Note, match=r"trying the unfinished run .*\.old"):
        train(out, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_run_that_was_moved_aside_stays_there_if_another_one_is_trained(tmp_path: Path) -> None:
    out, aside = tmp_path / "model", tmp_path / "model.partial.old"
    aside.mkdir()
    (aside / "run.json").write_text("{}")
    (aside / "last.ckpt").write_text("of other settings")
    with pytest.warns(Note, match="trying"), pytest.warns(UserWarning, match="no interrupted run to resume"):
        train(out, resume=True)
    assert (aside / "last.ckpt").read_text() == "of other settings"


def test_missing_labels_list_the_sensors_and_the_likely_label(tmp_path: Path) -> None:
    values = np.array(EPISODES.values)
    values[:, 2] = EPISODES.require_labels()[:, np.newaxis]
    columns = dataclasses.replace(EPISODES, values=values, labels=None, sensors=("level", "b", "Lable"))
    expected = r"without labels, whose sensors are level, b, Lable; is Lable the label\?; name .*label_column='Lable'"
    with pytest.raises(DfstransError, match=expected):
        train(tmp_path / "model", columns)


def test_an_episode_too_short_for_a_segment_is_refused_before_training(tmp_path: Path) -> None:
    series = [values[:, :48] for values in np.asarray(EPISODES.values)]
    series[7] = series[7][:, :10]
    with pytest.raises(DfstransError, match="of a segment, got 10 in episode 'episode_7'"):
        train(tmp_path / "model", Episodes.from_arrays(series, EPISODES.labels))
    assert list(tmp_path.iterdir()) == []


def test_values_outside_the_training_range_are_counted(model: Path) -> None:
    detector = Diagnoser.load(model)
    values = np.asarray(EPISODES.values).copy()
    values[:, 1] += 1000
    moved = dataclasses.replace(EPISODES, values=values)
    shares = detector.out_of_range(moved)
    assert next(iter(shares.items())) == ("S2", 1.0)


def test_the_segment_length_suits_the_shortest_episode_of_all_parts(tmp_path: Path) -> None:
    whole = planted_episodes(16, 8, n_sensors=2, n_timepoints=400)
    in_test = whole.split(0)[2].ids[0]
    series = [episode.values[:, :30] if episode.id == in_test else episode.values for episode in whole]
    episodes = Episodes.from_arrays(series, whole.labels, ids=whole.ids, sensors=whole.sensors)
    assert in_test in episodes.split(0)[2].ids
    detector = train(tmp_path / "model", episodes, segment_length=None, epochs=1, network={"heads": 2})
    assert detector.network_settings_.segment_length == 30


def test_copies_stay_in_one_part_with_a_warning(tmp_path: Path) -> None:
    twice = np.concatenate([EPISODES.values, EPISODES.values])
    labels = np.tile(EPISODES.require_labels(), 2)
    n = len(EPISODES)
    with pytest.warns(UserWarning, match=rf"{n} of {2 * n} episodes have the same values.*drop_duplicates=True"):
        train(tmp_path / "model", Episodes.from_arrays(twice, labels))
    parts = json.loads((tmp_path / "model" / "parts.json").read_text())
    part_of_each = {name: part for part, names in parts.items() for name in names}
    assert all(part_of_each[f"episode_{row}"] == part_of_each[f"episode_{row + n}"] for row in range(n))


def test_groups_that_leave_a_part_without_a_class_are_refused(tmp_path: Path) -> None:
    labels = EPISODES.require_labels()
    groups = np.where(labels == 1, "a", np.arange(len(labels)).astype(str))
    grouped = dataclasses.replace(EPISODES, groups=groups)
    with pytest.raises(DfstransError, match=r"both classes, got .* and 1 with anomalous episodes; .*split=.random"):
        train_model(Diagnoser.from_settings(**TINY), grouped, tmp_path / "model", split="grouped")
