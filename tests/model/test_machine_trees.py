import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from dfstrans.model.forest import Forest
from dfstrans.model.machine_trees import N_LARGEST, MachineTrees, own_features

RNG = np.random.default_rng(0)


def grown(statistics: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None, n: int = 50) -> MachineTrees:
    return MachineTrees.fit(statistics, labels, groups, weight=1.0, trees=n, seed=0)


def test_forest_votes_as_scikit_learn_does() -> None:
    features, labels = RNG.normal(size=(80, 6)).astype(np.float32), RNG.integers(0, 2, 80)
    model = ExtraTreesClassifier(20, max_depth=4, random_state=0).fit(features, labels)
    unseen = RNG.normal(size=(50, 6)).astype(np.float32)
    votes = Forest.from_votes(model).stages(unseen)[:, -1]
    np.testing.assert_allclose(votes, model.predict_proba(unseen)[:, 1], atol=1e-12)


@pytest.fixture(scope="module")
def fleet() -> tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees]:
    """Machines that rest at levels of their own; a faulty one leaves its level by less than the fleet's range."""
    groups = np.repeat([f"m{i}" for i in range(8)], 20)
    labels = np.tile(np.r_[np.ones(4), np.zeros(16)], 8).astype(np.int8)
    level = np.repeat(np.linspace(0, 1, 8), 20)
    statistics = (level + 0.004 * RNG.normal(size=160) + 0.03 * labels)[:, None, None] * np.ones((1, 2, 3))
    trees = grown(statistics, labels, groups)
    return statistics, labels, groups, trees


def test_a_machine_is_compared_with_itself(fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees]) -> None:
    *_, trees = fleet
    usual = 0.45 + 0.004 * RNG.normal(size=(30, 1, 1)) * np.ones((1, 2, 3))  # a level that no known machine has
    known = trees.with_baselines(usual, np.array(["new"] * 30))
    probe = np.array([0.45, 0.48])[:, None, None] * np.ones((1, 2, 3))
    groups = np.array(["new", "new"])
    normal, faulty = known.logits(probe, groups)
    assert faulty > normal + 2
    blind = trees.logits(probe, groups)
    assert blind[1] - blind[0] < faulty - normal


def test_one_machine_in_training_serves_others_that_are_compared_with_themselves(
    fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees],
) -> None:
    statistics, labels, groups, _ = fleet
    trees = grown(statistics[:20], labels[:20], groups[:20])
    assert trees.machines == ("m0",)
    usual = 0.45 + 0.004 * RNG.normal(size=(30, 1, 1)) * np.ones((1, 2, 3))
    probe, machine = np.array([0.45, 0.48])[:, None, None] * np.ones((1, 2, 3)), np.array(["new", "new"])
    normal, faulty = trees.with_baselines(usual, np.array(["new"] * 30)).logits(probe, machine)
    assert faulty > normal + 2
    assert np.ptp(trees.logits(probe, machine)) == 0  # on the scale of the only known machine, both are far off


def test_without_a_known_machine_the_fleet_answers(
    fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees],
) -> None:
    statistics, labels, _, trees = fleet
    alone = grown(statistics, labels)
    assert alone.own is None
    assert alone.machines == ()
    strange = np.array(["unknown"] * len(labels))
    for groups in (None, strange):
        np.testing.assert_array_equal(trees.logits(statistics, groups), alone.logits(statistics, None))


def test_trees_are_restored_from_their_arrays(
    fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees],
) -> None:
    statistics, labels, groups, trees = fleet
    for one in (trees, grown(statistics, labels, n=5)):
        restored = MachineTrees.from_arrays(one.to_arrays(), one.machines)
        np.testing.assert_array_equal(restored.logits(statistics, groups), one.logits(statistics, groups))


def test_memory_for_logits_does_not_grow_with_the_number_of_episodes(
    fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees],
) -> None:
    statistics, _, groups, trees = fleet
    peaks = []
    for repeats in (10, 40):
        many, machines = np.tile(statistics, (repeats, 1, 1)), np.tile(groups, repeats)
        tracemalloc.start()
        trees.logits(many, machines)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_training_needs_little_memory_beside_its_statistics_and_features() -> None:
    n = 400
    statistics, labels = RNG.normal(size=(n, 30, 24)), np.arange(n) % 2
    statistics[labels == 1] += 9
    groups = np.repeat([f"m{i}" for i in range(8)], n // 8)
    tracemalloc.start()
    grown(statistics, labels, groups, n=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * statistics.nbytes  # features take one: twice as many numbers, of half the precision


def test_largest_deviations_do_not_tell_which_sensor_deviates() -> None:
    statistics, deviations = np.zeros((1, 12, 3)), RNG.normal(size=(1, 12, 3))
    order = RNG.permutation(12)
    one, other = own_features(statistics, deviations), own_features(statistics, deviations[:, order])
    assert one.shape == (1, 2 * 36 + 3 + N_LARGEST)
    np.testing.assert_array_equal(one[:, 72:], other[:, 72:])


def test_sensor_without_values_counts_as_usual(
    fleet: tuple[np.ndarray, np.ndarray, np.ndarray, MachineTrees],
) -> None:
    statistics, labels, groups, trees = fleet
    normal = statistics[labels == 0], groups[labels == 0]
    silent = normal[0].copy()
    silent[:, 1] = np.nan
    called = trees.logits(silent, normal[1]) > 0
    assert called.mean() < 0.1
