from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Diagnoser, load_episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.model import arithmetic
from dfstrans.training.lightning_module import DetectorModule
from tests.tiny import TINY, tiny_episodes


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


def test_a_fit_on_drawn_episodes_takes_the_steps_of_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    step = DetectorModule.training_step
    monkeypatch.setattr(DetectorModule, "training_step", lambda *args: (steps.append(1), step(*args))[1])
    train, validation, _ = tiny_episodes(n_normal=200, n_anomalous=40).split(0)
    assert (len(train), train.n_anomalous) == (168, 28)
    chosen = {**TINY, "batch_size": None, "epochs": None}
    Diagnoser(**chosen, normals_per_anomaly=1).fit(train, validation=validation)
    assert len(steps) == 400  # 56 episodes in 4 steps, 100 times; 55 times, had all 168 been counted


def test_bf16_scores_many_episodes_nearly_as_32_bits_do_until_the_next_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "bf16_is_fast", lambda: True)
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
    monkeypatch.setattr(arithmetic, "bf16_is_fast", lambda: False)
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    exact = detector.decision_function(episodes)
    with pytest.warns(UserWarning, match="32 bits instead"):
        np.testing.assert_array_equal(detector.predict_in("bf16").decision_function(episodes), exact)
    np.testing.assert_array_equal(detector.predict_in("auto").decision_function(episodes), exact)
    with pytest.raises(DfstransError, match="expected one of auto, 32, bf16, got precision '16'"):
        detector.predict_in("16")  # type: ignore[arg-type]
