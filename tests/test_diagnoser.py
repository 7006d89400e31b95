from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, load_episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.model import detector as detector_module
from dfstrans.settings import PRESETS, NetworkSettings, TrainingSettings
from dfstrans.training.lightning_module import DetectorModule
from tests.tiny import TINY, tiny_episodes


def test_the_arguments_are_the_settings_with_their_defaults() -> None:
    arguments = {name: p.default for name, p in inspect.signature(Diagnoser).parameters.items()}
    fields = {**NetworkSettings.model_fields, **TrainingSettings.model_fields}
    del fields["n_sensors"]
    assert arguments.keys() == fields.keys()
    assert arguments.pop("segment_length") is None
    defaults = {name: field.default for name, field in fields.items()} | PRESETS["tuned"]
    assert arguments == {name: defaults[name] for name in arguments}


def test_a_fit_on_a_file_equals_a_fit_in_memory(tmp_path) -> None:  # type: ignore[no-untyped-def]
    episodes = tiny_episodes()
    save_episodes(episodes, tmp_path / "episodes.h5")
    stored = load_episodes(tmp_path / "episodes.h5")
    assert stored.is_stored
    a, b = (Diagnoser(**TINY).fit(which) for which in (episodes, stored))
    np.testing.assert_array_equal(a.decision_function(episodes), b.decision_function(stored))
    assert a.data_ == b.data_


def test_the_validation_part_that_is_given_is_used() -> None:
    train, validation, _ = tiny_episodes().split(0)
    detector = Diagnoser(**TINY).fit(train, validation=validation)
    assert detector.data_.validation_episodes == len(validation)
    assert detector.data_.train_episodes == len(train)


def test_attention_comes_batch_by_batch_with_rows_that_sum_to_one() -> None:
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    sizes = []
    for forward in detector.forward(episodes, return_attention=True):
        assert forward.attention is not None
        np.testing.assert_allclose(forward.attention.temporal.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(forward.attention.spatial.sum(-1), 1, atol=1e-5)
        sizes.append(len(forward.logit))
    assert sum(sizes) == len(episodes)


@pytest.mark.slow
def test_planted_anomalies_are_found_with_f1_of_095() -> None:
    train, validation, test = planted_episodes(seed=1).split(1)
    detector = Diagnoser(epochs=25, learning_rate=1e-3, seed=1).fit(train, validation=validation)
    assert detector.evaluate(test).f1 >= 0.95
    assert detector.loss_beside_guessing < 0.5


def test_what_is_not_given_is_chosen_from_the_episodes() -> None:
    episodes = planted_episodes(n_normal=6, n_anomalous=3, n_sensors=2, n_timepoints=600, seed=0)
    network = Diagnoser(segment_length=20).network_settings(episodes)
    assert (network.filters, network.heads, network.d_model) == (20, 8, 40)
    assert Diagnoser().network_settings(episodes).filters == 8
    assert [Diagnoser().training_settings(n).batch_size for n in (50, 300, 10_000)] == [16, 30, 64]
    assert [Diagnoser().training_settings(n).epochs for n in (50, 300, 10_000)] == [100, 60, 20]
    assert Diagnoser(batch_size=1).training_settings(50).epochs == 20
    assert Diagnoser(epochs=7).training_settings(50).epochs == 7
    assert Diagnoser(batch_size=7).training_settings(300).batch_size == 7


def test_batches_and_epochs_go_by_the_episodes_that_an_epoch_draws() -> None:
    drawn, few = Diagnoser(normals_per_anomaly=4), Diagnoser(normals_per_anomaly=1)
    all_of_them = Diagnoser().training_settings(3000, 60)
    assert (all_of_them.batch_size, all_of_them.epochs) == (64, 20)
    as_300 = Diagnoser().training_settings(300)
    assert (as_300.batch_size, as_300.epochs) == (30, 60)
    settings = drawn.training_settings(3000, 60)  # 60 anomalous and 240 normal ones an epoch
    assert (settings.batch_size, settings.epochs) == (30, 60)
    assert few.training_settings(1000, 20).batch_size == 16  # 40 episodes in 3 steps
    assert few.training_settings(1000, 20).epochs == 100


def test_a_fit_on_drawn_episodes_takes_the_steps_of_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    step = DetectorModule.training_step
    monkeypatch.setattr(DetectorModule, "training_step", lambda *args: (steps.append(1), step(*args))[1])
    train, validation, _ = tiny_episodes(n_normal=200, n_anomalous=40).split(0)
    assert (len(train), train.n_anomalous) == (168, 28)
    chosen = {**TINY, "batch_size": None, "epochs": None, "patience": 100}
    Diagnoser(**chosen, normals_per_anomaly=1).fit(train, validation=validation)
    assert len(steps) == 400  # 56 episodes in 4 steps, 100 times; 55 times, had all 168 been counted


@pytest.mark.parametrize("wrong", [0, "many"])
def test_a_wrong_batch_size_is_refused_where_the_epochs_are_chosen_too(wrong: Any) -> None:
    with pytest.raises(DfstransError, match="expected batch_size to be"):
        Diagnoser(batch_size=wrong).training_settings(50)


def test_the_paper_s_preset_is_its_network_and_its_training() -> None:
    episodes = planted_episodes(n_normal=6, n_anomalous=3, n_sensors=20, n_timepoints=800, seed=0)
    detector = Diagnoser(segment_length=100, **PRESETS["paper"])
    assert detector.network_settings(episodes) == NetworkSettings(n_sensors=20, segment_length=100, dropout=0.1)
    training = detector.training_settings(len(episodes))
    assert (training.learning_rate, training.schedule, training.imbalance, training.batch_size) == (
        1e-5,
        "constant",
        "none",
        16,
    )
    assert (training.noise, training.time_shift, training.sensor_dropout, training.weight_averaging) == (0, 0, 0, 0)
    assert (training.patience, training.select_by, training.gradient_clip) == (40, "loss", None)


def test_bf16_scores_many_episodes_nearly_as_32_bits_do_until_the_next_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: True)
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    exact = detector.decision_function(episodes)
    rounded = detector.predict_in("auto").decision_function(episodes)
    assert rounded.dtype == np.float64
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()
    assert len(np.unique(rounded)) == len(np.unique(exact)) == len(episodes)
    diagnosis = next(iter(detector.diagnose(episodes[:1])))
    assert diagnosis.probability == pytest.approx(detector.probability(exact[0]), abs=1e-6)
    np.testing.assert_array_equal(detector.predict_in("32").decision_function(episodes), exact)
    np.testing.assert_array_equal(detector.predict_in("bf16").fit(episodes).decision_function(episodes), exact)


def test_bf16_that_cannot_be_had_falls_back_to_32_bits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: False)
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    exact = detector.decision_function(episodes)
    with pytest.warns(UserWarning, match="32 bits instead"):
        np.testing.assert_array_equal(detector.predict_in("bf16").decision_function(episodes), exact)
    np.testing.assert_array_equal(detector.predict_in("auto").decision_function(episodes), exact)
    with pytest.raises(DfstransError, match="expected one of auto, 32, bf16, got precision '16'"):
        detector.predict_in("16")  # type: ignore[arg-type]
