import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import DfstransError, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import load_detector
from dfstrans.detectors.trees import TreesClassifier
from dfstrans.errors import Note


def fleet(n_machines: int = 6, name: str = "m") -> Episodes:
    """Machines whose sensors rest at levels of their own."""
    base = planted_episodes(n_normal=8 * n_machines, n_anomalous=4 * n_machines, n_sensors=3, n_timepoints=48, seed=1)
    groups = np.array([f"{name}{row % n_machines}" for row in range(len(base))])
    levels = np.array([int(group.removeprefix(name)) for group in groups])[:, None, None]
    ids = [f"{name}-{row}" for row in range(len(base))]
    return Episodes.from_arrays(np.asarray(base.values) + levels, base.labels, groups=groups, ids=ids)


@pytest.fixture(scope="module")
def trained() -> TreesClassifier:
    return TreesClassifier(trees=20, segment_length=16).fit(fleet())


def test_machines_of_training_and_validation_have_baselines(trained: TreesClassifier) -> None:
    assert set(trained.machines_) == {f"m{i}" for i in range(6)}
    assert trained.machines_without_baseline(fleet()) == []
    assert trained.machines_without_baseline(fleet(2, "x")) == ["x0", "x1"]


def test_commission_adds_a_machine_without_labels_and_tells_whether_that_suffices(
    trained: TreesClassifier, tmp_path: Path
) -> None:
    trained.save(tmp_path / "model")
    detector = load_detector(tmp_path / "model")
    assert isinstance(detector, TreesClassifier)
    new = fleet(2, "x")
    before = detector.decision_function(new)
    unlabelled = Episodes.from_arrays(np.asarray(new.values), groups=new.groups)
    found = detector.commission(unlabelled)
    assert set(found) == {"x0", "x1"}
    assert found["x0"].suitability.n_recordings == 12
    assert (detector.decision_function(new) != before).any()
    detector.save(tmp_path / "model")
    again = load_detector(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(new), detector.decision_function(new))
    assert {"x0", "x1"} <= set(again.machines_)


def test_recordings_of_an_unknown_machine_serve_as_its_baseline_on_request(trained: TreesClassifier) -> None:
    new = fleet(2, "x")
    own = trained.with_own_baselines(new)
    assert trained.machines_without_baseline(new) == ["x0", "x1"]
    assert own.machines_without_baseline(new) == []
    known = fleet()
    np.testing.assert_array_equal(own.decision_function(known), trained.decision_function(known))


def test_what_cannot_be_commissioned_is_refused(trained: TreesClassifier) -> None:
    new = fleet(2, "x")
    nameless = Episodes.from_arrays(np.asarray(new.values))
    with pytest.raises(DfstransError, match="machine"):
        trained.commission(nameless)
    with pytest.raises(DfstransError, match="at least 3 recordings"):
        trained.commission(new[:2], "y")
    with pytest.raises(DfstransError, match="expected recordings of machines with names, got none"):
        trained.commission(new[:0], "y")
    with pytest.raises(DfstransError, match="got a machine without a name"):
        trained.commission(new, "")
    with pytest.raises(DfstransError, match="m0"):
        trained.commission(new, "m0")
    with pytest.raises(DfstransError, match="3 sensors"):
        trained.commission(np.zeros((5, 2, 48)), "y")
    slower = Episodes.from_arrays(np.asarray(new.values), interval=2.0)
    with pytest.warns(UserWarning, match="interval"), pytest.raises(DfstransError, match="interval"):
        TreesClassifier(trees=2, segment_length=16).fit(
            Episodes.from_arrays(np.asarray(new.values), new.labels, groups=new.groups, interval=1.0)
        ).commission(slower, "y")
    alone = TreesClassifier(trees=2, segment_length=16).fit(nameless.with_labels(new.require_labels()))
    with pytest.raises(DfstransError, match="learned what is normal for each machine"):
        alone.commission(new)


def test_machines_that_are_known_or_have_too_few_recordings_are_skipped_with_a_note(trained: TreesClassifier) -> None:
    detector, new = copy.copy(trained), Episodes.concatenate([fleet(2, "x")[:15], fleet()[[0, 6, 12]]])
    kept = np.delete(np.arange(len(new)), [1, 3, 5, 7, 9])  # two recordings of x1 remain
    with pytest.warns(Note, match=r"m0 \(known already: replace=True\), x1 \(2 recordings, expected ≥ 3\)"):
        assert set(detector.commission(new[kept])) == {"x0"}
    assert set(detector.machines_) == {*trained.machines_, "x0"}


def test_drift_is_told_from_times_or_pieces_of_one_recording_only(trained: TreesClassifier) -> None:
    order = np.random.default_rng(0).permutation(24)
    values = np.random.default_rng(1).normal(size=(24, 3, 48)) + 0.5 * order[:, None, None]
    days = np.datetime64("2026-03-01") + order.astype("timedelta64[D]")
    gap = np.where(order == 3, np.datetime64("NaT"), days)
    pieces = [f"run@{48 * place}" for place in order]

    def drifting(**of: Any) -> tuple[str, ...]:
        recordings = Episodes.from_arrays(values, **of)
        return copy.copy(trained).commission(recordings, "rising")["rising"].suitability.drifting

    assert drifting() == drifting(starts=gap) == ()
    assert drifting(starts=days) == drifting(ids=pieces) == trained.sensors_


def test_an_existing_baseline_is_replaced_on_request() -> None:
    detector = TreesClassifier(trees=5, segment_length=16).fit(fleet())
    before = detector.trees_
    detector.commission(fleet(2, "x")[:5], "m0", replace=True)
    assert before.baselines is not None
    assert detector.trees_.baselines is not None
    assert detector.trees_.baselines.machines["m0"].n_recordings == 5
    assert detector.machines_ == before.machines


def test_probabilities_of_noise_are_the_share_of_anomalies() -> None:
    noise, labels = np.random.default_rng(0).normal(size=(600, 2, 16)), np.repeat([1, 0], [30, 270]).astype(np.int8)
    known = Episodes.from_arrays(noise[:300], labels)
    few = known[29:]  # one anomaly: too few for a temperature
    detector = TreesClassifier(trees=30, segment_length=8).fit(known, validation=few)
    assert detector.predict_proba(noise[300:])[:, 1].mean() == pytest.approx(0.1, abs=0.05)


def test_groups_with_a_recording_each_are_no_machines() -> None:
    episodes = fleet()
    single = Episodes.from_arrays(np.asarray(episodes.values), episodes.labels, groups=episodes.ids)
    with pytest.warns(Note, match="no machine is compared with itself, because 61 of 61"):
        assert TreesClassifier(trees=2, segment_length=16).fit(single).machines_ == ()
