"""What `data check` suggests for recordings that are long, or labelled in parts."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.data.check import check_episodes, estimate_training_seconds
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import settings_as_options


def findings(episodes: Episodes) -> str:
    """All findings of a check, on lines."""
    with settings_as_options():
        return "\n".join(f"{one.level}: {one.message}" for one in check_episodes(episodes).findings)


def noise(n: int, length: int, **known: object) -> Episodes:
    """Episodes of one noisy sensor, half of them anomalous."""
    values = np.random.default_rng(0).standard_normal((n, 1, length), dtype=np.float32)
    return Episodes.from_arrays(values, [row % 2 for row in range(n)], **known)


def test_long_episodes_get_a_length_a_resampling_and_the_time_of_training() -> None:
    found = findings(noise(20, 20_000, interval=0.0005, time_unit="s"))
    assert "warning: episodes of 20000 points (median) are too long to train well: 200 segments of 100 points" in found
    assert "cut them into 400 pieces (--length 1000, about" in found
    assert "make them coarser (--resample 0.01s, about a minute)" in found  # 20 points each: 1000 of 20000
    assert "train with --segment-length 100" in found
    assert "--resample 20, about" in findings(noise(20, 20_000))


@pytest.mark.parametrize("length", [500, 5000])
def test_episodes_of_a_good_length_get_no_suggestion(length: int) -> None:
    assert "too long" not in findings(noise(20, length))


def test_estimate_grows_with_episodes_segments_and_sensors() -> None:
    # 100 epochs of 70 % of 60 episodes, of 10 segments and 4 sensors
    assert estimate_training_seconds(60, 10, 4) == pytest.approx(100 * 42 * 10 * 4 * 5e-4)
    assert estimate_training_seconds(60, 20, 8) == pytest.approx(4 * estimate_training_seconds(60, 10, 4))


def test_labels_that_change_within_recordings_suggest_a_length() -> None:
    faults = [[Fault(100, 150), Fault(400, 460)] if row % 2 else [] for row in range(20)]
    found = findings(noise(20, 2000, faults=faults))
    assert "info: labels change within 10 recordings: episode_1," in found
    assert "cut them (--length 200)" in found  # 2 × 55, rounded up
    assert "labels change" not in findings(noise(20, 500, faults=faults))
    both = findings(noise(20, 8000, faults=faults))
    assert both.count("(--length 200") == 2
    assert "--segment-length 20" in both
    whole = [[Fault(0, 2000)] if row % 2 else [] for row in range(20)]
    assert "labels change" not in findings(noise(20, 2000, faults=whole))
