from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from dfstrans.model.fast import FastDFSTrans
from dfstrans.settings import NetworkShape, TrainingSettings
from dfstrans.training import lightning_module
from dfstrans.training.batches import Batch
from dfstrans.training.lightning_module import DetectorModule, TrainingProgress, augment, shift_in_time

PLAIN = {"noise": 0.0, "sensor_dropout": 0.0, "time_shift": 0.0, "mixup": 0.0}


def augmented(segments: torch.Tensor, **settings: float) -> torch.Tensor:
    b, t = segments.shape[:2]
    batch = Batch(segments, torch.ones(b, t, dtype=torch.bool), torch.zeros(b))
    missing_value = torch.tensor([0.25, 0.75])
    return augment(batch, TrainingSettings(**{**PLAIN, **settings}), missing_value).segments


def test_without_augmentation_the_segments_stay_as_they_are() -> None:
    segments = torch.rand(3, 4, 2, 8)
    assert torch.equal(augmented(segments), segments)


def test_a_dropped_sensor_is_set_to_its_training_mean() -> None:
    torch.manual_seed(0)
    segments = torch.rand(200, 4, 2, 8) + 5
    dropped = augmented(segments, sensor_dropout=0.3)
    gone = (dropped != segments).all(dim=(1, 3))  # (episode, sensor)
    assert torch.equal(gone, (dropped != segments).any(dim=3).any(dim=1))
    assert gone.float().mean() == pytest.approx(0.3, abs=0.08)
    assert set(dropped[:, :, 0][gone[:, 0]].unique().tolist()) == {0.25}
    assert set(dropped[:, :, 1][gone[:, 1]].unique().tolist()) == {0.75}


def test_noise_has_the_strength_it_was_given() -> None:
    torch.manual_seed(0)
    segments = torch.zeros(50, 4, 2, 8)
    assert augmented(segments, noise=0.1).std() == pytest.approx(0.1, rel=0.05)


def test_time_shift_moves_all_sensors_together() -> None:
    torch.manual_seed(1)
    points = torch.arange(24.0)
    segments = torch.stack([points, points + 100]).reshape(2, 3, 8).transpose(0, 1).expand(40, 3, 2, 8)
    shifted = shift_in_time(segments, 0.5).transpose(1, 2).reshape(40, 2, 24)
    assert torch.equal(shifted[:, 1] - 100, shifted[:, 0])
    shifts = shifted[:, 0, 12] - 12
    assert set(shifts.tolist()) <= set(range(-4, 5))
    assert len(set(shifts.tolist())) > 3
    for row, shift in zip(shifted[:, 0], shifts, strict=True):
        assert torch.equal(row, (points + shift).clamp(0, 23))


def test_a_step_computes_on_the_device_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device without memory refuses tensors of another one, as a GPU does."""
    shape = NetworkShape(n_sensors=3, segment_length=8, width=8, heads=2, quantile_features=4, machine_features=True)
    settings = TrainingSettings(noise=0.1, sensor_dropout=0.3, time_shift=0.25, mixup=0.3)
    module = DetectorModule(FastDFSTrans(shape), settings, 2.0, np.zeros(3, dtype=np.float32), [])
    module.network.to("meta")
    module.missing_value = module.missing_value.to("meta")
    module.trainer = SimpleNamespace(global_step=0)  # type: ignore[assignment]
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    batch = Batch(torch.rand(4, 5, 3, 8), torch.ones(4, 5, dtype=torch.bool), torch.ones(4), torch.rand(4, 3, 2, 8))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)  # unknown of that device
    loss = module.training_step(Batch(*(one.to("meta") for one in batch))._replace(valid=None), 0)
    loss.backward()
    assert {one.grad.device.type for one in module.network.parameters() if one.grad is not None} == {"meta"}


# ---- progress -------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def steps(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
    n: int,
    expected: float | None = None,
) -> list[str]:
    """The lines of `n` of 100 steps of equal duration, in 10 epochs of 10 steps with 3 validation batches each."""
    clock = Clock()
    monkeypatch.setattr(lightning_module, "time", clock)
    shown = TrainingProgress(expected)
    assert not Console(stderr=True).is_terminal
    trainer: Any = SimpleNamespace(
        estimated_stepping_batches=100,
        global_step=0,
        current_epoch=0,
        max_epochs=10,
        num_val_batches=[3],
        num_training_batches=10,
        callback_metrics={"loss_step": 0.5},
    )
    shown.on_train_start(trainer, None)
    for step in range(1, n + 1):
        clock.now, trainer.global_step = clock.now + seconds, step
        shown.on_train_batch_end(trainer)
    return capsys.readouterr().err.splitlines()


def test_duration_is_announced_after_the_first_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # 96 more steps, and 10 validations of 3 forward passes that take a third of a step each
    assert steps(monkeypatch, capsys, 0.5, 10) == ["training takes about 53 s (10 epochs of 10 steps)"]


def test_duration_and_what_shortens_it_are_estimated_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (before,) = steps(monkeypatch, capsys, 12.0, 0, expected=120.0)
    said = "training will take about 20 minutes, by a rough estimate (10 epochs of 10 steps); to shorten it"
    assert before.startswith(said)
    assert "--model trees" in before or "model='trees'" in before
    assert steps(monkeypatch, capsys, 12.0, 1, expected=120.0)[1:] == [
        "training takes about 21 min 48 s (10 epochs of 10 steps)"
    ]


def test_long_training_names_what_makes_it_shorter_and_the_time_left_every_30_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *lines = steps(monkeypatch, capsys, 12.0, 6)
    assert first.startswith("training takes about 21 min 48 s (10 epochs of 10 steps); to shorten it, use fewer epochs")
    assert "segment_length" in first
    assert lines == [
        "training: step 3 of 100, about 19 min 24 s left",
        "training: step 6 of 100, about 18 min 48 s left",
    ]
