"""The benchmark of diagnoses on planted faults: what it prints and what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import diagnosis
from dfstrans import Episodes, save_episodes
from dfstrans.diagnosis.scores import AttentionTrust


def test_every_kind_has_chance_baselines_and_controls(
    planted_model: tuple[Path, Episodes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, episodes = planted_model
    save_episodes(episodes, tmp_path / "planted.h5")
    kinds = sorted(set(episodes.fault_kinds()) - {""})
    monkeypatch.setattr(diagnosis, "TELLING", dict.fromkeys(kinds, episodes.sensors[:1]))
    written = tmp_path / "result.json"
    diagnosis.main([str(model), str(tmp_path / "planted.h5"), "--part", "train", "--draws", "2", "--out", str(written)])
    printed = capsys.readouterr().out
    result = json.loads(written.read_text())
    assert result["detected"] > 0
    assert result["rankings"].keys() >= {"shown", "z-score", "gradients"}
    for kind, one in result["telling_sensors"].items():
        assert kind in kinds
        assert one["chance"] == pytest.approx(3 / 4)  # three draws of four sensors
    assert result["attention_trust"].keys() <= {"all", *kinds}
    assert all(word in printed for word in ("cell AUROC", "HitRate@150%", "comprehensiveness", "AT_k"))


def test_trust_is_reported_by_kind() -> None:
    trust = AttentionTrust(
        np.array([5.0]), np.array([[1.0], [3.0]]), np.array([[0.0], [0.5]]), np.array([[[0.0, 1.0]], [[1.0, 2.0]]])
    )
    found = diagnosis.trust_by_kind(trust, ["bump", "rust"])
    assert found["all"]["mean"]["top"] == [2.0]
    assert found["rust"]["mean"] == {"k": [5.0], "top": [3.0], "random": [1.5], "bottom": [0.5]}
    assert found["bump"]["episodes"] == {"top": [[1.0]], "random": [[0.5]], "bottom": [[0.0]]}
