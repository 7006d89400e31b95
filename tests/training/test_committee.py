import numpy as np
import pytest
from scipy.special import expit

from dfstrans.training.committee import PRIOR_WEIGHT, Committee
from dfstrans.training.evaluation import average_precision

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], [60, 20]).astype(np.int8)
GOOD, NOISE = 4 * LABELS - 2 + RNG.normal(size=80), RNG.normal(size=80)


@pytest.mark.parametrize(("network", "trees"), [(GOOD, NOISE), (NOISE, GOOD)])
def test_a_useless_member_does_no_harm(network: np.ndarray, trees: np.ndarray) -> None:
    found = Committee.choose(LABELS, network, trees, network_odds=1)
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [900, 300]).astype(np.int8)
    good, noise = 4 * labels - 2 + rng.normal(size=1200), rng.normal(size=1200)
    new = (good, noise) if network is GOOD else (noise, good)
    assert average_precision(labels, found.logits(*new)) >= average_precision(labels, good) - 0.01


def test_members_that_err_independently_share_the_weight() -> None:
    other = 4 * LABELS - 2 + RNG.normal(size=80)
    assert 0.2 < Committee.choose(LABELS, GOOD, other, network_odds=1).network_weight < 0.8


def test_members_with_equal_probabilities_agree_with_the_committee() -> None:
    # both see the same evidence, but training raised the odds of one of them by 5
    found = Committee.choose(LABELS, GOOD + np.log(5), GOOD, network_odds=5)
    np.testing.assert_allclose(found.logits(GOOD + np.log(5), GOOD), found.trees.scale(GOOD))
    members = found.probabilities(np.array(1 + np.log(5)), np.array(1.0))
    assert members["network"] == pytest.approx(members["trees"])
    assert members["trees"] == pytest.approx(float(expit(found.trees.scale(np.array(1.0)))))


def test_too_small_a_validation_part_gives_the_usual_weight() -> None:
    found = Committee.choose(LABELS[58:62], GOOD[58:62], NOISE[58:62], network_odds=1)
    assert found.network_weight == PRIOR_WEIGHT
    assert "too small" in found.note
