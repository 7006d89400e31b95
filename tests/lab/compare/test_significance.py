"""The test for luck, worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfstrans.lab.compare.significance import PairedTest, adjusted, corrected_t_test


def test_the_corrected_t_test_is_that_of_a_hand_calculation() -> None:
    # differences 0.1, 0.2, 0.3: mean 0.2, variance 0.01; t² = 0.2² / ((1/3 + 1/2) · 0.01) = 4.8
    test = corrected_t_test([0.5, 0.7, 0.9], [0.4, 0.5, 0.6], test_to_train=0.5)
    assert test.difference == pytest.approx(0.2)
    assert test.p == pytest.approx(1 - math.sqrt(4.8 / 6.8))  # Student's distribution with 2 degrees of freedom
    reach = 4.302652730 * math.sqrt(0.01 * (1 / 3 + 1 / 2))  # its 97.5 % quantile, from a table
    assert (test.low, test.high) == pytest.approx((0.2 - reach, 0.2 + reach))


def test_an_interval_ends_where_no_difference_can_be() -> None:
    wide = corrected_t_test([0.0, 0.5, 0.0], [1.0, 0.5, 1.0], test_to_train=0.2)
    assert (wide.low, wide.high) == (-1, 1)
    assert wide.interval == "-1.000 to +1.000"


def test_without_test_episodes_it_is_the_usual_paired_t_test() -> None:
    from scipy.stats import ttest_rel

    first, second = [0.8, 0.7, 0.9, 0.75], [0.7, 0.72, 0.8, 0.6]
    assert corrected_t_test(first, second, 0.0).p == pytest.approx(ttest_rel(first, second).pvalue)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6), st.floats(0.05, 1))
def test_the_correction_never_makes_a_difference_surer(pairs: list[tuple[float, float]], ratio: float) -> None:
    first, second = zip(*pairs, strict=True)
    corrected, plain = corrected_t_test(first, second, ratio), corrected_t_test(first, second, 0.0)
    if plain.p is not None:
        assert corrected.p is not None
        assert corrected.p >= plain.p


def test_there_is_no_p_value_where_nothing_tells_chance() -> None:
    assert corrected_t_test([0.9], [0.5], 0.2).p is None
    assert corrected_t_test([0.9, 0.9, 0.9], [0.5, 0.5, 0.5], 0.2).p is None


def test_two_splits_are_too_few_for_an_interval_and_a_p_value() -> None:
    few = corrected_t_test([0.9, 0.8], [0.5, 0.6], 0.2)
    assert (few.splits, few.low, few.high, few.p) == (2, None, None, None)
    assert few.difference == pytest.approx(0.3)


def test_holms_correction_is_that_of_a_hand_calculation() -> None:
    tests = [PairedTest(5, 0.1, 0.0, 0.2, p) for p in (0.04, 0.01, None, 0.03)]
    found = [test.p_adjusted for test in adjusted(tests)]
    assert found == [pytest.approx(0.06), pytest.approx(0.03), None, pytest.approx(0.06)]
