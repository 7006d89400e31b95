from __future__ import annotations

import numpy as np
import pytest

from dfstrans.model.machine_trees import MachineTrees
from dfstrans.model.novelty import FEWEST_RECORDINGS, MOST_RECORDINGS, Seen, verdicts

RNG = np.random.default_rng(0)
N_MACHINES, EACH = 6, 30
GROUPS = np.repeat([f"m{i}" for i in range(N_MACHINES)], EACH)


def apart(n: int) -> np.ndarray:
    """The origins of recordings that are whole."""
    return np.stack([np.arange(n), np.zeros(n), np.full(n, 9)], axis=1).astype(np.int64)


def recordings(level: np.ndarray, rng: np.random.Generator = RNG) -> np.ndarray:
    """Statistics (recording, sensor, 24) around the level of a machine."""
    return level[:, None, None] + rng.normal(size=(len(level), 3, 24)) * 0.1


@pytest.fixture(scope="module")
def trees() -> MachineTrees:
    """A fleet whose machines have levels of their own; anomalies are in the first sensor."""
    statistics = recordings(np.repeat(np.arange(N_MACHINES), EACH).astype(float))
    labels = np.tile(np.arange(EACH) < 6, N_MACHINES).astype(np.int8)
    statistics[labels == 1, 0] += 1
    found = MachineTrees.fit(statistics, labels, GROUPS, weight=1.0, trees=100, seed=0)
    return found.with_baselines(statistics, GROUPS).with_memory(statistics, GROUPS, apart(len(GROUPS)))


def test_ordinary_recordings_are_seen_before(trees: MachineTrees) -> None:
    fresh = np.random.default_rng(1)
    ordinary = recordings(np.repeat(np.arange(N_MACHINES), EACH).astype(float), fresh)
    for groups in (GROUPS, None):
        assert (trees.novelty(ordinary, groups) > 1).mean() <= 0.06  # 5 %, and one of 180 by chance
    faulty = ordinary.copy()
    faulty[:, 0] += 1  # the anomaly of training
    assert (trees.novelty(faulty, GROUPS) > 1).mean() < 0.2


def test_what_is_far_from_all_of_training_is_not(trees: MachineTrees) -> None:
    far = recordings(np.zeros(20)) * 30
    for groups in (None, np.full(20, "m0"), np.full(20, "unknown")):
        assert (trees.novelty(far, groups) > 1).all()
    assert verdicts(np.array([True, False]), trees.novelty(far[:2], None)) == ["not seen before"] * 2


def test_a_new_machine_is_seen_before_once_it_has_a_baseline(trees: MachineTrees) -> None:
    new, groups = recordings(np.full(30, 40.0)), np.full(30, "new")
    assert (trees.novelty(new, groups) > 1).all()
    commissioned = trees.with_baselines(new, groups)
    assert (commissioned.novelty(new, groups) > 1).mean() < 0.2


def test_the_strangest_sensor_is_that_which_was_moved(trees: MachineTrees) -> None:
    for sensor in (1, 2):
        one = recordings(np.zeros(1))
        one[0, sensor] = 50.0
        for groups in (np.array(["m0"]), None):
            assert trees.novelty(one, groups)[0] > 1
            assert trees.strangest_sensor(one, groups) == sensor


def test_novelty_does_not_depend_on_batch_mates(trees: MachineTrees) -> None:
    some = recordings(RNG.normal(size=90) * 3)
    groups = np.array(["m1", "unknown", "m2"] * 30)
    alone = [trees.novelty(some[[row]], groups[[row]])[0] for row in range(90)]
    np.testing.assert_array_equal(trees.novelty(some, groups), alone)


def test_a_silent_sensor_is_not_strange(trees: MachineTrees) -> None:
    some = recordings(np.zeros(10))
    before = trees.novelty(some, np.full(10, "m0"))
    some[:, 2] = np.nan
    found = trees.novelty(some, np.full(10, "m0"))
    assert np.isfinite(found).all()
    assert (found > 1).sum() <= (before > 1).sum() + 1


def test_memory_is_restored_from_its_arrays(trees: MachineTrees) -> None:
    restored = MachineTrees.from_arrays(trees.to_arrays(), trees.machines)
    some, groups = recordings(np.arange(8.0)), np.array(["m1", "unknown"] * 4)
    np.testing.assert_array_equal(restored.novelty(some, groups), trees.novelty(some, groups))


def test_few_recordings_do_not_tell(trees: MachineTrees) -> None:
    few = FEWEST_RECORDINGS - 1
    alone = trees._replace(memory=None).with_memory(recordings(np.zeros(few)), GROUPS[:few], apart(few))
    assert alone.memory is None
    assert np.isnan(alone.novelty(recordings(np.zeros(3)), None)).all()
    assert verdicts(np.array([True, False, True]), np.full(3, np.nan)) == ["anomalous", "normal", "anomalous"]


def test_only_some_of_many_recordings_are_kept(trees: MachineTrees) -> None:
    n = MOST_RECORDINGS + 10
    found = trees.with_memory(recordings(np.zeros(n)), None, apart(n)).memory
    assert found is not None
    assert len(found.fleet.leaves) == len(found.fleet.places) == MOST_RECORDINGS
    assert found.own is None


def test_copies_of_a_recording_do_not_make_others_look_strange() -> None:
    """Each recording ten times, as overlapping pieces nearly are: without leaving these out, the limits are near 0."""
    whole = RNG.normal(size=(60, 8))
    same = np.repeat(np.arange(60), 10)
    leaves = np.floor(whole[:, :, None] * 3).astype(np.int32).repeat(5, axis=2).reshape(60, 40)
    pieces = Seen.learn(leaves[same], whole[same], same[:, None] == same)
    blind = Seen.learn(leaves[same], whole[same], np.eye(600, dtype=bool))
    fresh = RNG.normal(size=(100, 8))
    reached = np.floor(fresh[:, :, None] * 3).astype(np.int32).repeat(5, axis=2).reshape(100, 40)
    assert (pieces.novelty(reached, fresh) > 1).mean() < 0.1
    assert (blind.novelty(reached, fresh) > 1).mean() > 0.9
