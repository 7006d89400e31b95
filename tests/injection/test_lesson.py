from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dfstrans.data import load_episodes, save_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnoser import Diagnoser
from dfstrans.errors import DfstransError
from dfstrans.estimator import Lesson
from dfstrans.experiments.grid import _resumable
from dfstrans.injection import plant
from dfstrans.injection.lesson import FAULTS, planted_lesson
from dfstrans.network_estimator import NetworkClassifier
from dfstrans.pipeline import train_model
from dfstrans.training.callbacks import EpochLog
from dfstrans.training.run_folder import PLANTED, can_resume, has_checkpoint
from tests.injection.machines import machine
from tests.tiny import TINY, tiny_episodes

TRAIN, VALIDATION, _ = tiny_episodes().split(0)
SETTINGS: dict[str, Any] = {**TINY, "epochs": 2, "planted_epochs": 2}


@pytest.mark.parametrize("where", ["memory", "file"])
def test_faults_planted_on_demand_are_those_of_the_set_in_memory(where: str, tmp_path: Path) -> None:
    uneven = Episodes.concatenate([machine(6, 60), machine(5, 48, seed=1, ids=list("abcde"))])
    source = uneven if where == "memory" else load_episodes(save_episodes(uneven, tmp_path / "machine.h5"))
    planting = plant(source, FAULTS)
    on_demand = planting.on_demand()
    expected = [planting.changed(row, np.array(source.values[n])) for row, n in enumerate(planting.rows)]
    assert on_demand.is_stored
    assert on_demand.n_anomalous > 0
    np.testing.assert_array_equal(np.asarray(on_demand.values), np.stack(expected))
    np.testing.assert_array_equal(planting.in_memory().values, np.stack(expected))
    last = len(expected) - 1
    np.testing.assert_array_equal(on_demand.values[last], expected[last])
    np.testing.assert_array_equal(on_demand[[last, 0]][:1].values[0], expected[last])


def lesson(run_folder: Path | None = None, **settings: Any) -> Lesson:
    detector = Diagnoser(**{**SETTINGS, "mixup": 0.3, "normals_per_anomaly": 1.0, **settings})
    training = detector.training_settings(len(TRAIN), TRAIN.n_anomalous)
    return Lesson(detector.network_settings(TRAIN), training, SensorScaler.fit(TRAIN), TRAIN, VALIDATION, run_folder)


def test_the_lesson_has_the_normal_episodes_of_each_part_and_twins_of_them(tmp_path: Path) -> None:
    given = lesson(tmp_path)
    planted = planted_lesson(given)
    for part, shown in ((TRAIN, planted.train), (VALIDATION, planted.validation)):
        normal = part[part.require_labels() == 0]
        assert shown.ids[shown.require_labels() == 0].tolist() == normal.ids.tolist()
        assert {name.split("+")[0] for name in shown.ids.tolist()} <= set(normal.ids.tolist())
        assert 0 < shown.n_anomalous <= len(normal)
    assert (planted.network, planted.scaler) == (given.network, given.scaler)
    assert (planted.training.epochs, planted.training.planted_epochs) == (2, 0)
    assert (planted.training.mixup, planted.training.sensor_dropout) == (0, 0)
    assert planted.training.normals_per_anomaly is None
    assert planted.run_folder == tmp_path / PLANTED


def test_training_and_validation_have_their_faults_at_other_places() -> None:
    given = lesson()
    planted = planted_lesson(given._replace(validation=given.train))
    places = [[(f.start, f.sensors) for faults in part.faults or () for f in faults] for part in planted[3:5]]
    assert places[0] != places[1]


def test_the_labels_are_learned_from_where_the_planted_faults_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    train = NetworkClassifier._train

    def recorded(self: NetworkClassifier, *arguments: Any, **options: Any) -> Any:
        trained = train(self, *arguments, **options)
        weights = {name: tensor.clone() for name, tensor in trained.network.state_dict().items()}
        calls.append((arguments, weights))
        return trained

    monkeypatch.setattr(NetworkClassifier, "_train", recorded)
    Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION)
    (first, learned), (second, _) = calls
    assert len(first) == 1
    assert second[1].keys() == learned.keys()
    assert all(torch.equal(second[1][name], tensor) for name, tensor in learned.items())
    assert second[0].train is TRAIN


def interrupt(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ctrl-C came in the second epoch of one of the two."""
    start = EpochLog.on_train_epoch_start

    def interrupted(self: EpochLog, trainer: Any, module: Any) -> None:
        assert self.path is not None
        if trainer.current_epoch == 1 and (self.path.parent.name == PLANTED) == (part == "planted faults"):
            raise KeyboardInterrupt
        start(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", interrupted)


@pytest.mark.parametrize("part", ["planted faults", "labels"])
def test_a_run_that_is_interrupted_in_either_part_resumes_to_the_same_weights(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = train_model(tiny_episodes(), tmp_path / "whole", **SETTINGS)
    with monkeypatch.context() as patch:
        interrupt(part, patch)
        with pytest.raises(KeyboardInterrupt):
            train_model(tiny_episodes(), tmp_path / "model", **SETTINGS)
    folder = tmp_path / "model.partial"
    assert can_resume(folder)
    assert has_checkpoint(folder) == (part == "labels")
    assert _resumable(folder)
    resumed = train_model(tiny_episodes(), tmp_path / "model", resume=True, progress=True, **SETTINGS)
    for name, tensor in whole.network_.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, resumed.network_.state_dict()[name]), name  # type: ignore[attr-defined]
    told = capsys.readouterr().err
    assert ("planted faults: epoch 2/2" in told) == (part == "planted faults")
    assert "training: epoch 2/2" in told
    assert not folder.exists()


def test_a_fit_in_memory_needs_no_folder_and_keeps_the_setting() -> None:
    detector = Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION)
    assert detector.training_settings_.planted_epochs == 2
    assert len(detector.log_) == 2


def test_a_part_without_normal_episodes_to_plant_into_is_refused() -> None:
    labels = VALIDATION.require_labels()
    one_normal = VALIDATION[np.sort(np.concatenate([np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)[:1]]))]
    with pytest.raises(DfstransError, match="expected at least two normal episodes to plant faults into, got 1"):
        Diagnoser(**SETTINGS).fit(TRAIN, validation=one_normal)
