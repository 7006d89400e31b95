from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser
from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.elevator.demo import commission_unseen, interval_of_gain
from tests.tiny import TINY


def test_a_gain_is_told_from_chance() -> None:
    labels = np.repeat([0, 1], [15, 10]).astype(np.int8)
    chance = np.random.default_rng(0).random(25)
    low, high = interval_of_gain(labels, chance, labels + 0.1 * chance) or (0.0, 0.0)
    assert 0.2 < low < high <= 1
    low, high = interval_of_gain(labels, chance, np.random.default_rng(1).random(25)) or (1.0, 1.0)
    assert low < 0 < high
    assert interval_of_gain(labels, chance, chance) == (0, 0)
    assert interval_of_gain(labels[:15], chance[:15], chance[:15]) is None


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_a_new_machine_is_commissioned_with_a_quarter_of_its_recordings(tmp_path: Path) -> None:
    base = planted_episodes(40, 24, n_sensors=4, n_timepoints=30)
    episodes = replace(base, groups=np.array([f"m{row % 4}" for row in range(len(base))]))
    new = episodes.groups == "m3"
    detector = Diagnoser.from_settings(**{**TINY, "members": "committee"}).fit(episodes[~new])
    found = commission_unseen(detector, episodes[new], tmp_path / "model")
    assert "12 test journeys" in found.lines[0]
    assert found.gain is not None
    assert f"{found.gain[0]:+.2f} to {found.gain[1]:+.2f}" in found.lines[-1]
    restored = Diagnoser.load(tmp_path / "model").trees_
    assert restored is not None
    assert restored.baselines is not None
    assert restored.baselines.machines["m3"].n_recordings == 4
