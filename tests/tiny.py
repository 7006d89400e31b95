"""Settings and episodes small enough to train in a second, and what tests do to a training or a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import planted_episodes

TINY: dict[str, Any] = {
    "members": "network",
    "segment_length": 16,
    "epochs": 3,
    "batch_size": 8,
    "precision": "32",
    "network": {"width": 8, "feedforward": 16, "head_width": 8},
}


def tiny_episodes(seed: int = 0, n_normal: int = 24, n_anomalous: int = 12) -> Episodes:
    return planted_episodes(n_normal, n_anomalous, n_sensors=3, n_timepoints=48, seed=seed)


def write_table(episodes: Episodes, path: Path) -> None:
    """Write three sensors as a long table, as users have it."""
    frames = [
        pd.DataFrame({"episode_id": one.id, "time": range(one.values.shape[1]), "label": one.label}).assign(
            **dict(zip("abc", one.values, strict=True))
        )
        for one in episodes
    ]
    pd.concat(frames).to_csv(path, index=False)


def interrupt_after(epochs: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Simulate Ctrl-C in the middle of an epoch, once; return the epochs that training begins, as they begin."""
    from dfstrans.training.lightning_module import EpochLog

    start = EpochLog.on_train_epoch_start
    begun: list[int] = []

    def interrupted(self: EpochLog, trainer: Any, module: Any) -> None:
        begun.append(trainer.current_epoch)
        if trainer.current_epoch == epochs and begun.count(epochs) == 1:
            raise KeyboardInterrupt
        start(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", interrupted)
    return begun


def edit_record(model: Path, **changes: Any) -> None:
    """Change the record of a saved model, and its checksum with it."""
    from dfstrans.detectors.saved_model import _own_checksum

    record = {**json.loads((model / "model.json").read_text()), **changes}
    (model / "model.json").write_text(json.dumps({**record, "own_checksum": _own_checksum(record)}))
