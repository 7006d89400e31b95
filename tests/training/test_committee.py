import numpy as np
import pytest
from scipy.special import expit

from dfstrans.training.committee import FEW_ANOMALIES, PRIOR_WEIGHT, Committee, MemberLogits
from dfstrans.training.evaluation import average_precision

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], [60, 20]).astype(np.int8)
GOOD, NOISE = 4 * LABELS - 2 + RNG.normal(size=80), RNG.normal(size=80)


def choose(rows: slice, network: np.ndarray, trees: np.ndarray, network_odds: float = 1) -> Committee:
    logits = MemberLogits(network[rows], trees[rows])
    return Committee.choose(LABELS[rows], logits, logits, network_odds=network_odds, training_anomalies=100)


EVERY = slice(None)


@pytest.mark.parametrize(("network", "trees"), [(GOOD, NOISE), (NOISE, GOOD)])
def test_a_useless_member_does_no_harm(network: np.ndarray, trees: np.ndarray) -> None:
    found = choose(EVERY, network, trees)
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [900, 300]).astype(np.int8)
    good, noise = 4 * labels - 2 + rng.normal(size=1200), rng.normal(size=1200)
    new = (good, noise) if network is GOOD else (noise, good)
    assert (
        average_precision(labels, found.logits(*new, np.ones(1200, dtype=bool)))
        >= average_precision(labels, good) - 0.01
    )


def test_members_that_err_independently_share_the_weight() -> None:
    other = 4 * LABELS - 2 + RNG.normal(size=80)
    assert 0.2 < choose(EVERY, GOOD, other).network_weight < 0.8


def test_members_with_equal_probabilities_agree_with_the_committee() -> None:
    # both see the same evidence, but training raised the odds of one of them by 5
    found = choose(EVERY, GOOD + np.log(5), GOOD, network_odds=5)
    np.testing.assert_allclose(found.logits(GOOD + np.log(5), GOOD, np.ones(80, dtype=bool)), found.trees.scale(GOOD))
    members = found.probabilities(np.array(1 + np.log(5)), np.array(1.0))
    assert members["network"] == pytest.approx(members["trees"])
    assert members["trees"] == pytest.approx(float(expit(found.trees.scale(np.array(1.0)))))


def test_too_small_a_validation_part_gives_the_usual_weight() -> None:
    found = choose(slice(58, 62), GOOD, NOISE)
    assert found.network_weight == PRIOR_WEIGHT * 100 / (100 + FEW_ANOMALIES)
    assert "too small" in found.note


def test_a_machine_without_baseline_has_a_weight_of_its_own() -> None:
    own, fleet = MemberLogits(GOOD, NOISE), MemberLogits(NOISE, GOOD)
    found = Committee.choose(LABELS, own, fleet, network_odds=1, training_anomalies=100)
    assert found.network_weight > found.network_weight_on_fleet + 0.1
    combined = found.logits(np.ones(2), np.zeros(2), np.array([True, False]))
    weights = np.array([found.network_weight, found.network_weight_on_fleet])
    np.testing.assert_allclose(
        combined - found.trees.scale(np.zeros(1)),
        weights * (found.network.scale(np.ones(1)) - found.trees.scale(np.zeros(1))),
    )
    assert f"{found.network_weight_on_fleet:.2f} where a machine has no baseline" in found.note
