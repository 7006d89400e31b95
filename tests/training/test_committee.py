import numpy as np
import pytest
from scipy.special import expit

from dfstrans.training.committee import Committee

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], [60, 20]).astype(np.int8)
GOOD, NOISE = 4 * LABELS - 2 + RNG.normal(size=80), RNG.normal(size=80)


@pytest.mark.parametrize(("network", "trees", "low", "high"), [(GOOD, NOISE, 0.8, 1.0), (NOISE, GOOD, 0.0, 0.2)])
def test_the_better_member_has_most_of_the_weight(
    network: np.ndarray, trees: np.ndarray, low: float, high: float
) -> None:
    found = Committee.choose(LABELS, network, trees, odds=(1, 1))
    assert low <= found.network_weight <= high


def test_members_that_err_independently_share_the_weight() -> None:
    other = 4 * LABELS - 2 + RNG.normal(size=80)
    assert 0.2 < Committee.choose(LABELS, GOOD, other, odds=(1, 1)).network_weight < 0.8


def test_members_with_equal_probabilities_agree_with_the_committee() -> None:
    # both see the same evidence, but training raised the odds of one of them by 5
    found = Committee.choose(LABELS, GOOD + np.log(5), GOOD, odds=(5, 1))
    np.testing.assert_allclose(found.logits(GOOD + np.log(5), GOOD), found.trees.scale(GOOD))
    members = found.probabilities(1 + np.log(5), 1)
    assert members["network"] == pytest.approx(members["trees"])
    assert members["trees"] == pytest.approx(float(expit(found.trees.scale(np.array(1.0)))))


def test_too_small_a_validation_part_gives_equal_weights() -> None:
    found = Committee.choose(LABELS[58:62], GOOD[58:62], NOISE[58:62], odds=(1, 1))
    assert found.network_weight == 0.5
    assert "equal" in found.note
