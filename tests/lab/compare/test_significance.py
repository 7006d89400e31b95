"""The significance test, worked out by hand, and the warnings of a comparison."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from dfstrans.lab.compare.significance import (
    PairedTest,
    chance_warning,
    conclusion,
    corrected_t_test,
    holm,
    leakage_warnings,
    size_warnings,
)
from tests.lab.compare.made_up import made_up_run

# ---- tests ----------------------------------------------------------------------------------------------------------


def test_corrected_t_test_equals_a_hand_calculation() -> None:
    # differences 0.1, 0.2, 0.3: mean 0.2, variance 0.01; t² = 0.2² / ((1/3 + 1/2) · 0.01) = 4.8
    test = corrected_t_test([0.5, 0.7, 0.9], [0.4, 0.5, 0.6], test_to_train=0.5)
    assert test.difference == pytest.approx(0.2)
    assert test.p == pytest.approx(1 - math.sqrt(4.8 / 6.8))  # Student's distribution with 2 degrees of freedom
    reach = 4.302652730 * math.sqrt(0.01 * (1 / 3 + 1 / 2))  # its 97.5 % quantile, from a table
    assert (test.low, test.high) == pytest.approx((0.2 - reach, 0.2 + reach))


def test_interval_is_clipped_to_possible_differences() -> None:
    wide = corrected_t_test([0.0, 0.5, 0.0], [1.0, 0.5, 1.0], test_to_train=0.2)
    assert wide.interval == "-1.000 to +1.000"


def test_without_test_episodes_it_is_the_paired_t_test() -> None:
    first, second = [0.8, 0.7, 0.9, 0.75], [0.7, 0.72, 0.8, 0.6]
    assert corrected_t_test(first, second, 0.0).p == pytest.approx(ttest_rel(first, second).pvalue)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6), st.floats(0.05, 1))
def test_correction_never_lowers_p(pairs: list[tuple[float, float]], ratio: float) -> None:
    first, second = zip(*pairs, strict=True)
    corrected, plain = corrected_t_test(first, second, ratio), corrected_t_test(first, second, 0.0)
    if plain.p is not None:
        assert corrected.p is not None
        assert corrected.p >= plain.p


@pytest.mark.parametrize(("first", "second"), [([0.9], [0.5]), ([0.9, 0.8], [0.5, 0.6]), ([0.9] * 3, [0.5] * 3)])
def test_too_few_splits_or_equal_differences_give_no_p(first: list[float], second: list[float]) -> None:
    test = corrected_t_test(first, second, 0.2)
    assert (test.low, test.high, test.p) == (None, None, None)
    assert test.difference == pytest.approx(sum(first) / len(first) - sum(second) / len(second))


def test_holms_correction_equals_a_hand_calculation() -> None:
    tests = [PairedTest(5, 0.1, 0.0, 0.2, p) for p in (0.04, 0.01, None, 0.03)]
    found = [test.p_adjusted for test in holm(tests)]
    assert found == [pytest.approx(0.06), pytest.approx(0.03), None, pytest.approx(0.06)]


# ---- in words -------------------------------------------------------------------------------------------------------

BETTER, EQUAL = PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), PairedTest(5, 0.1, -0.05, 0.25, 0.04, 0.08)


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ({"b": BETTER}, "better than b"),
        ({"b": BETTER._replace(difference=-0.1)}, "worse than b"),
        ({"b": EQUAL, "c": BETTER, "d": EQUAL}, "better than c, not significantly different from b and d"),
        ({"b": PairedTest(2, 0.4, None, None, None)}, "not tested against b (fewer than 3 splits of both)"),
        ({"b": PairedTest(3, -1, None, None, None)}, "not tested against b (a difference of -1.000 on each split)"),
        ({"b": PairedTest(3, 0.0, None, None, None)}, "not tested against b (no difference on any split)"),
    ],
)
def test_conclusion_groups_rivals_by_significance(tests: dict[str, PairedTest], said: str) -> None:
    assert conclusion("F1", "a", tests) == f"F1: a is {said}."


def test_splits_with_random_ranking_are_counted() -> None:
    runs = [made_up_run(fold=fold, roc_auc=auc) for fold, auc in enumerate((0.5, 1.0, 0.45))]
    said = "boosting is not shown to be better than guessing on {} splits (rank-sum test on the test part){}"
    assert chance_warning(runs) == said.format(
        "2 of 3", ": try other settings or larger test parts before you reject it."
    )
    assert chance_warning(runs[:2]) == said.format("1 of 2", ".")
    assert chance_warning(runs[1:2]) is None


def test_splits_without_a_threshold_are_named() -> None:
    runs = [made_up_run(fold=fold, validation_anomalies=n) for fold, n in enumerate((2, 3, 1))]
    (warning,) = size_warnings(runs)
    assert warning.startswith("The validation parts of splits 0 and 2 have fewer than 3 anomalous episodes")


def test_missing_class_matters_only_for_rules_that_use_it() -> None:
    for rule in ("fixed", "false-alarm-rate"):
        assert size_warnings([made_up_run(validation_anomalies=1, rule=rule)]) == []
    (warning,) = size_warnings([made_up_run(validation_anomalies=20, rule="false-alarm-rate")])
    assert warning.startswith("The validation part of split 0 has fewer than 3 normal episodes")


def test_small_test_parts_are_named_once_for_all_models() -> None:
    runs = [made_up_run(fold=fold, anomalous=n) for fold, n in enumerate((4, 5, 2))]
    (warning,) = size_warnings([*runs, made_up_run("tapnet", anomalous=4)])
    assert warning.startswith("The test parts of splits 0 and 2 have few anomalous episodes (4 and 2)")
    (warning,) = size_warnings([made_up_run(seed=seed, anomalous=2) for seed in (1, 0)])
    assert warning.startswith("The test parts of splits 0 of seed 0 and 0 of seed 1 have")


def test_models_not_above_the_leakage_check_are_named() -> None:
    runs = {
        "leakage": [made_up_run("leakage", f1=0.9, roc_auc=0.8)],
        "tapnet": [made_up_run("tapnet", f1=0.8)],
        "boosting": [made_up_run(f1=0.95), made_up_run(fold=1, f1=0.1)],  # leakage has no split 1
    }
    (said,) = leakage_warnings(runs)
    assert said.startswith("leakage ignores all sensor values: its F1 of 0.900")
    assert said.endswith("not above it: tapnet (0.800).")


def test_no_leakage_warning_where_the_check_ranks_at_random() -> None:
    constant = made_up_run("leakage", f1=0.5, roc_auc=0.5)
    assert leakage_warnings({"tapnet": [made_up_run("tapnet", f1=0.4)], "leakage": [constant]}) == []
    assert leakage_warnings({"tapnet": [made_up_run("tapnet")]}) == leakage_warnings({"leakage": []}) == []
