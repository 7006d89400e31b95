from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dfstrans.baselines import MODELS
from dfstrans.data import load_episodes, save_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.stored import ChangedRows, StoredValues
from dfstrans.diagnoser import Diagnoser
from dfstrans.errors import DfstransError
from dfstrans.estimator import Lesson
from dfstrans.injection import plant
from dfstrans.injection.lesson import FAULTS, planted_lesson
from dfstrans.model.network import DFSTrans
from dfstrans.pipeline import train_model
from dfstrans.training.batches import batch_loader
from dfstrans.training.callbacks import EpochLog
from dfstrans.training.log import read_log
from dfstrans.training.module import DetectorModule
from dfstrans.training.run_folder import PLANTED, can_resume, can_resume_whole, has_checkpoint
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


def test_what_is_planted_on_demand_stays_planted_whatever_is_done_with_the_episodes() -> None:
    planting = plant(machine(), FAULTS)
    on_demand, in_memory = planting.on_demand(), planting.in_memory()
    backwards = on_demand.sensors[::-1]
    other = machine(3, seed=1, ids=list("abc"))
    pairs = [
        (on_demand[1::2], in_memory[1::2]),
        (on_demand[on_demand.require_labels() == 1], in_memory[in_memory.require_labels() == 1]),
        (on_demand.select_sensors(backwards), in_memory.select_sensors(backwards)),
        (on_demand.select_sensors(backwards).select_sensors(["speed"]), in_memory.select_sensors(["speed"])),
        (Episodes.concatenate([other, on_demand]), Episodes.concatenate([other, in_memory])),
        (pickle.loads(pickle.dumps(on_demand)), in_memory),
    ]
    for changed, expected in pairs:
        np.testing.assert_array_equal(np.asarray(changed.values), expected.values)
    assert isinstance(on_demand.values, StoredValues)
    source = np.array(machine().values)
    source[0, 0, :] = np.inf
    with_gaps = StoredValues.whole(ChangedRows(source, lambda row, values: values + row)).with_infinite_as_missing()
    assert np.isnan(with_gaps[0][0]).all()
    np.testing.assert_array_equal(with_gaps[[1]][0], source[1] + 1)


def lesson(run_folder: Path | None = None, **settings: Any) -> Lesson:
    detector = Diagnoser(**{**SETTINGS, "mixup": 0.3, **settings})
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
    seen: list[dict[str, torch.Tensor]] = []
    prepared = DetectorModule.__init__

    def recorded(self: DetectorModule, network: Any, *arguments: Any) -> None:
        seen.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
        prepared(self, network, *arguments)

    monkeypatch.setattr(DetectorModule, "__init__", recorded)
    taught = Diagnoser(**SETTINGS)._taught_by_planted_faults(lesson(mixup=0.0))
    Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION)
    first, of_planted, of_labels = seen
    assert all(torch.equal(of_planted[name], tensor) for name, tensor in first.items())
    assert all(torch.equal(of_labels[name], tensor) for name, tensor in taught.items())
    assert not torch.equal(of_labels["logit.weight"], of_planted["logit.weight"])


def test_levels_are_those_of_the_labelled_training_part() -> None:
    """Not of the normal episodes and their twins, which the network is shown first."""
    taught, plain = (
        Diagnoser(**{**SETTINGS, "planted_epochs": epochs}).fit(TRAIN, validation=VALIDATION) for epochs in (2, 0)
    )
    given = lesson()
    shown = DFSTrans(given.network)
    shown.prepare(batch_loader(planted_lesson(given).train, given.scaler, given.network.segment_length, 8))
    assert torch.equal(taught.network_.levels.edges, plain.network_.levels.edges)
    assert not torch.equal(taught.network_.levels.edges, shown.levels.edges)


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
    assert can_resume_whole(folder)
    resumed = train_model(tiny_episodes(), tmp_path / "model", resume=True, progress=True, **SETTINGS)
    for name, tensor in whole.network_.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, resumed.network_.state_dict()[name]), name  # type: ignore[attr-defined]
    told = capsys.readouterr().err
    assert ("planted faults: epoch 2/2" in told) == (part == "planted faults")
    assert "training: epoch 2/2" in told
    assert not folder.exists()
    assert len(read_log(tmp_path / "model" / "planted_log.csv")) == 2
    assert "2 epochs on faults planted into the normal ones" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize("part", ["planted faults", "labels"])
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"planted_epochs": 3}, "planted_epochs=3 instead of 2"),
        ({"planted_epochs": 0}, "planted_epochs=0 instead of 2"),
        ({"epochs": 4}, "epochs=4 instead of 2"),
    ],
)
def test_resume_with_other_settings_is_refused_in_either_part_and_nothing_is_lost(
    part: str, changes: dict[str, Any], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt(part, patch)
        with pytest.raises(KeyboardInterrupt):
            train_model(tiny_episodes(), tmp_path / "model", **SETTINGS)
    with pytest.raises(DfstransError, match=f"got {named}; give the same"):
        train_model(tiny_episodes(), tmp_path / "model", resume=True, **{**SETTINGS, **changes})
    assert has_checkpoint(tmp_path / "model.partial" / PLANTED)


def test_resume_with_other_anomalous_recordings_is_refused_in_the_planted_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not shown there, but the scale of all is theirs, too."""
    with monkeypatch.context() as patch:
        interrupt("planted faults", patch)
        with pytest.raises(KeyboardInterrupt):
            Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION, run_folder=tmp_path)
    values = np.array(TRAIN.values)
    values[TRAIN.require_labels() == 1] *= 10
    with pytest.raises(DfstransError, match="another train part"):
        Diagnoser(**SETTINGS).fit(
            replace(TRAIN, values=values), validation=VALIDATION, run_folder=tmp_path, resume=True
        )


def test_a_new_run_in_the_folder_of_another_forgets_both_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION, run_folder=tmp_path)
    other = {**SETTINGS, "learning_rate": 1e-3}
    with monkeypatch.context() as patch:
        interrupt("planted faults", patch)
        with pytest.raises(KeyboardInterrupt):
            Diagnoser(**other).fit(TRAIN, validation=VALIDATION, run_folder=tmp_path)
    assert not has_checkpoint(tmp_path)
    resumed = Diagnoser(**other).fit(TRAIN, validation=VALIDATION, run_folder=tmp_path, resume=True)
    whole = Diagnoser(**other).fit(TRAIN, validation=VALIDATION)
    assert torch.equal(resumed.network_.logit.weight, whole.network_.logit.weight)


def test_a_rival_learns_from_planted_faults_as_well() -> None:
    quick = {"epochs": 1, "batch_size": 8, "precision": "32", "planted_epochs": 1}
    plain, planted = (
        MODELS["mlstm-fcn"](**{**quick, "planted_epochs": epochs}).fit(TRAIN, validation=VALIDATION)
        for epochs in (0, 1)
    )
    assert not np.array_equal(plain.decision_function(VALIDATION), planted.decision_function(VALIDATION))


def test_where_an_epoch_has_some_of_the_normal_episodes_so_has_the_lesson() -> None:
    with pytest.warns(UserWarning, match="only 8 episodes get a fault"):
        few = planted_lesson(lesson(normals_per_anomaly=1.0)).train
    every = planted_lesson(lesson()).train
    assert len(few) - few.n_anomalous == TRAIN.n_anomalous
    assert len(every) - every.n_anomalous == len(TRAIN) - TRAIN.n_anomalous


def test_a_fit_in_memory_needs_no_folder_and_keeps_the_setting() -> None:
    detector = Diagnoser(**SETTINGS).fit(TRAIN, validation=VALIDATION)
    assert detector.training_settings_.planted_epochs == 2
    assert len(detector.log_) == 2


def test_a_part_with_too_few_normal_episodes_is_refused_and_named() -> None:
    labels = VALIDATION.require_labels()
    one_normal = VALIDATION[np.sort(np.concatenate([np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)[:1]]))]
    expected = (
        r"no faults can be planted into the validation part, for planted_epochs=2: expected at least two normal "
        r"episodes .* got 1; .* or leave planted_epochs out"
    )
    with pytest.raises(DfstransError, match=expected):
        Diagnoser(**SETTINGS).fit(TRAIN, validation=one_normal)


def test_episodes_that_no_fault_can_change_are_refused() -> None:
    """Two switches that move together: only their coupling could be lost, and each is the only one of its machine."""
    switches = np.repeat((np.arange(48) // 6 % 2).astype(np.float32)[None, None], 2, axis=1).repeat(12, axis=0)
    episodes = Episodes.from_arrays(switches, [0, 1] * 6, groups=[f"machine {n}" for n in range(12)])
    with pytest.raises(DfstransError, match="expected normal episodes that a fault changes in the training part, for"):
        Diagnoser(**SETTINGS).fit(episodes, validation=episodes)


def test_what_could_not_be_planted_is_told() -> None:
    still = np.random.default_rng(0).standard_normal((12, 2, 48)).astype(np.float32)
    still[:, 1] = 3.0
    episodes = Episodes.from_arrays(still, [0, 1] * 6)
    with pytest.warns(UserWarning, match=r"planted faults before the labels: sensors that never move get no fault"):
        Diagnoser(**SETTINGS).fit(episodes, validation=episodes)
