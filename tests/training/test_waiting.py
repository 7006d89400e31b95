"""Training says how long it takes and how long is left, also without a terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dfstrans.training import lightning_module
from dfstrans.training.lightning_module import TrainingProgress


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: float, n: int) -> list[str]:
    """The lines of `n` of 100 steps of equal duration, in 10 epochs of 10 steps with 3 validation batches each."""
    clock = Clock()
    monkeypatch.setattr(lightning_module, "time", clock)
    shown = TrainingProgress()
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


def test_long_training_names_what_makes_it_shorter_and_the_time_left_every_30_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *lines = steps(monkeypatch, capsys, 12.0, 6)
    assert first.startswith("training takes about 21 min 48 s (10 epochs of 10 steps); it is shorter with fewer epochs")
    assert "segment_length" in first
    assert lines == [
        "training: step 3 of 100, about 19 min 24 s left",
        "training: step 6 of 100, about 18 min 48 s left",
    ]
