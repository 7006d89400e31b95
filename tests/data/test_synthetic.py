"""Planted episodes: their known faults are exactly what was changed."""

from __future__ import annotations

from typing import Any

import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import KINDS, planted_episodes
from dfstrans.errors import DfstransError


def small(**changes: Any) -> Episodes:
    sizes = {"n_normal": 12, "n_anomalous": 20, "n_sensors": 4, "n_timepoints": 120, "seed": 3}
    return planted_episodes(**{**sizes, **changes})


def test_the_known_faults_are_exactly_the_changed_cells() -> None:
    quiet, loud = small(strength=0.0), small(strength=1.0)
    assert loud.shape == (32, 4, 120)
    assert loud.n_anomalous == 20
    assert quiet.faults == loud.faults
    changed = quiet.values != loud.values
    kinds = set()
    for row, episode in enumerate(loud):
        by_segment = changed[row].reshape(4, 10, 12).any(axis=2).T
        assert_array_equal(loud.fault_cells(row, 12), by_segment)
        assert by_segment.sum() == len(episode.faults) == episode.label
        for start, stop, (sensor,), kind, _ in episode.faults:
            kinds.add(kind)
            assert sensor in ("S1", "S4")
            inside = changed[row, int(sensor[1]) - 1, start:stop]
            assert inside.all() if kind == "offset" else inside.reshape(-1, 3)[:, 1:].all()  # sin is 0 at every third
            inside[:] = False
    assert kinds == set(KINDS)
    assert not changed.any()


def test_the_seed_decides_everything() -> None:
    assert small(seed=5).fingerprint() == small(seed=5).fingerprint()
    assert small(seed=5).faults == small(seed=5).faults
    assert small(seed=5).fingerprint() != small(seed=6).fingerprint()


@pytest.mark.parametrize("n_timepoints", [20, 57, 123])
def test_faults_fit_into_episodes_of_any_length(n_timepoints: int) -> None:
    for faults in small(n_timepoints=n_timepoints).faults:
        assert all(0 <= fault.start < fault.stop <= n_timepoints for fault in faults)


@pytest.mark.parametrize("bad", [{"n_timepoints": 19}, {"n_sensors": 0}, {"n_normal": -1}, {"n_anomalous": -1}])
def test_impossible_sizes_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(DfstransError, match="at least 20 timepoints, 1 sensor and no negative counts"):
        small(**bad)
