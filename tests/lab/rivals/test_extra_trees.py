"""The ten lines of scikit-learn, alone and with each machine against itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import load_detector
from dfstrans.lab.rivals.extra_trees import MachineExtraTreesRival, statistics_of_all


def fleet(n_machines: int, seed: int = 0) -> Episodes:
    """Machines at levels of their own; in each, the second sensor of a third one rests."""
    base = planted_episodes(8 * n_machines, 4 * n_machines, n_sensors=3, n_timepoints=48, strength=0.7, seed=seed)
    machine = np.arange(len(base)) % n_machines
    values = np.asarray(base.values) + machine[:, None, None]
    values[machine % 3 == 0, 1] = 5.0
    return Episodes.from_arrays(values, base.labels, groups=[f"m{number}" for number in machine])


EPISODES = fleet(6)
TRAIN, VALIDATION, TEST = EPISODES.split(0)


@pytest.fixture(scope="module")
def fitted() -> MachineExtraTreesRival:
    return MachineExtraTreesRival(trees=20).fit(TRAIN, validation=VALIDATION)


def test_features_are_statistics_deviations_and_the_largest_of_these(fitted: MachineExtraTreesRival) -> None:
    of_test = statistics_of_all(TEST, fitted.scaler_)
    known = np.concatenate([statistics_of_all(part, fitted.scaler_) for part in (TRAIN, VALIDATION)])
    owners = np.concatenate([part.require_groups() for part in (TRAIN, VALIDATION)])
    for row, features in enumerate(fitted._features(TEST)):
        own = known[owners == TEST.require_groups()[row]]
        deviations = np.empty((3, 14))
        for sensor, statistic in np.ndindex(3, 14):
            usual = own[:, sensor, statistic]
            low, median, high = np.quantile(usual, [0.25, 0.5, 0.75])
            scale = high - low if high - low > 1e-9 else usual.std() if usual.std() > 1e-9 else 1e-3
            deviations[sensor, statistic] = np.arcsinh((of_test[row, sensor, statistic] - median) / scale)
        largest = np.sort(np.abs(deviations).max(axis=1))[::-1]
        expected = [of_test[row].ravel(), deviations.ravel(), np.abs(deviations).max(axis=0), largest]
        np.testing.assert_allclose(features, np.concatenate(expected), rtol=1e-5, atol=1e-6)


def test_new_machine_is_compared_with_the_fleet_until_its_recordings_are_known(
    fitted: MachineExtraTreesRival, tmp_path: Path
) -> None:
    others = fleet(2, seed=1)
    new = Episodes.from_arrays(np.asarray(others.values) + 20, groups=[f"new {name}" for name in others.groups])
    assert fitted.machines_without_baseline(new) == ["new m0", "new m1"]
    before = fitted.decision_function(new)
    knowing = fitted.with_own_baselines(new)
    assert knowing.machines_without_baseline(new) == []
    assert (knowing.decision_function(new) != before).any()
    assert (fitted.decision_function(new) == before).all()
    knowing.save(tmp_path / "model")
    assert (load_detector(tmp_path / "model").decision_function(new) == knowing.decision_function(new)).all()


def test_known_machines_and_those_with_too_few_recordings_stay_as_they_are(fitted: MachineExtraTreesRival) -> None:
    few = Episodes.from_arrays(np.asarray(TEST.values)[:2], groups=["new", "new"])
    assert fitted.with_own_baselines(few).machines_without_baseline(few) == ["new"]
    assert fitted.with_own_baselines(TEST).baselines_ == fitted.baselines_


def test_recordings_without_machines_are_compared_with_all_of_them() -> None:
    values, labels = np.asarray(TRAIN.values), TRAIN.labels
    detector = MachineExtraTreesRival(trees=5).fit(values, labels)
    assert list(detector.baselines_) == [""]
    assert detector.machines_without_baseline(values) == []
