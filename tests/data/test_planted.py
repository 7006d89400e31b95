"""The planted set: its truth is exactly what was changed."""

from __future__ import annotations

import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import KINDS, planted_episodes
from dfstrans.errors import DfstransError


def small(seed: int = 3, **changes: float) -> Episodes:
    return planted_episodes(
        **{"n_normal": 12, "n_anomalous": 20, "n_sensors": 4, "n_timepoints": 120, **changes}, seed=seed
    )


def test_truth_marks_exactly_the_cells_that_were_changed() -> None:
    quiet, loud = small(strength=0.0), small(strength=1.0)
    assert quiet.faults == loud.faults
    changed = quiet.values != loud.values
    for row in range(len(loud)):
        by_segment = changed[row].reshape(4, 10, 12).any(axis=2).T
        assert_array_equal(loud.fault_cells(row, 12), by_segment)
        assert by_segment.sum() == loud.labels[row]


def test_every_change_lies_between_start_and_stop_of_the_named_sensor() -> None:
    changed = small(strength=0.0).values != small(strength=1.0).values
    kinds = set()
    for row, episode in enumerate(small(strength=1.0)):
        assert len(episode.faults) == episode.label
        for start, stop, (sensor,), kind, _ in episode.faults:
            kinds.add(kind)
            assert sensor in ("S1", "S4")
            s = int(sensor[1]) - 1
            inside = changed[row, s, start:stop]
            if kind == "offset":
                assert inside.all()
            else:  # a sine of six points is 0 at every third
                assert inside.reshape(-1, 3)[:, 1:].all()
            changed[row, s, start:stop] = False
    assert kinds == set(KINDS)
    assert not changed.any()


def test_labels_are_as_many_as_asked_for_and_agree_with_the_faults() -> None:
    episodes = small()
    assert episodes.shape == (32, 4, 120)
    assert episodes.n_anomalous == 20
    assert episodes.labels.tolist() == [len(faults) for faults in episodes.faults]


def test_the_seed_decides_everything() -> None:
    assert small(seed=5).fingerprint() == small(seed=5).fingerprint()
    assert small(seed=5).faults == small(seed=5).faults
    assert small(seed=5).fingerprint() != small(seed=6).fingerprint()


@pytest.mark.parametrize("n_timepoints", [20, 57, 123])
def test_faults_fit_into_episodes_of_any_length(n_timepoints: int) -> None:
    for faults in small(n_timepoints=n_timepoints).faults:
        assert all(0 <= fault.start < fault.stop <= n_timepoints for fault in faults)


@pytest.mark.parametrize("bad", [{"n_timepoints": 19}, {"n_sensors": 0}, {"n_normal": -1}, {"n_anomalous": -1}])
def test_impossible_sizes_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(DfstransError, match="expected at least 20 timepoints, 1 sensor and no negative counts"):
        small(**bad)
