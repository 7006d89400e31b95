"""Each metric of one episode: worked out by hand, averaged over every order of ties, and against random rankings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from math import comb, log2

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from dfstrans.diagnosis.metrics.rankings import (
    ac_at_k,
    auprc,
    auroc,
    avg_at_k,
    hit_rate,
    ndcg,
    rc_top_k,
    reciprocal_rank,
    time_overlap,
)
from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]
Metric = Callable[[Array, Array], float]


def overlap_in_tens(scores: Array, blamed: Array) -> float:
    """Time overlap where every segment has ten points, and a blamed one is faulty throughout."""
    return time_overlap(scores, 10 * np.asarray(blamed, dtype=int), np.full(len(scores), 10))


METRICS: dict[str, Metric] = {
    "hit_rate@100%": hit_rate,
    "hit_rate@150%": partial(hit_rate, percent=150),
    "rc_top_2": partial(rc_top_k, k=2),
    "ac@1": partial(ac_at_k, k=1),
    "ac@3": partial(ac_at_k, k=3),
    "avg@3": partial(avg_at_k, k=3),
    "reciprocal_rank": reciprocal_rank,
    "ndcg": ndcg,
    "auprc": auprc,
    "auroc": auroc,
    "time_overlap": overlap_in_tens,
}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())

# ranks:      2    5    1    4    3
SCORES = [0.8, 0.1, 0.9, 0.2, 0.5]
BLAMED = [1, 0, 0, 1, 1]  # ranks 2, 3 and 4
FAULTY, POINTS = [4, 10, 0, 3], [10, 10, 10, 5]  # of each segment


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (hit_rate(SCORES, BLAMED), 2 / 3),  # of the first three, two are blamed
        (hit_rate(SCORES, BLAMED, percent=150), 1),  # ⌊4.5⌋ = 4 of five
        (hit_rate([1, 2, 3, 4], [1, 1, 1, 0], percent=150), 1),  # no more than there are
        ([rc_top_k(SCORES, BLAMED, k) for k in (1, 2, 5, 9)], [0, 1, 1, 1]),
        # the first is innocent; the second and third place belong to two of three, of whom one is blamed
        (rc_top_k([9, 5, 5, 5, 1], [0, 1, 0, 0, 1], k=3), 2 / 3),
        ([ac_at_k(SCORES, BLAMED, k) for k in (1, 2, 3, 4, 5)], [0, 1 / 2, 2 / 3, 1, 1]),
        (avg_at_k(SCORES, BLAMED, 3), (0 + 1 / 2 + 2 / 3) / 3),
        (reciprocal_rank(SCORES, BLAMED), 1 / 2),
        # one ahead; then the first of two blamed among three: at place 2 with probability 2/3, else at place 3
        (reciprocal_rank([9, 5, 5, 5], [0, 1, 1, 0]), 2 / 3 / 2 + 1 / 3 / 3),
        (ndcg(SCORES, BLAMED), (1 / log2(3) + 1 / log2(4) + 1 / log2(5)) / (1 + 1 / log2(3) + 1 / log2(4))),
        (ndcg([0.5, 0.9, 0.1], [3, 1, 0]), (3 / log2(3) + 1 / log2(2)) / (3 + 1 / log2(3))),
        (ndcg([1, 1, 0], [3, 1, 0]), (4 * (1 + 1 / log2(3)) / 2) / (3 + 1 / log2(3))),
        (auprc(SCORES, BLAMED), (1 / 2 + 2 / 3 + 3 / 4) / 3),
        (auprc([2, 2, 1], [1, 0, 0]), (1 + 1 / 2) / 2),  # two share the first place: the blamed one is first or second
        (auroc(SCORES, BLAMED), 3 / 6),  # three of the six pairs in the right order
        (auroc([2, 2, 1], [1, 0, 0]), (1 / 2 + 1) / 2),
        (time_overlap([4, 3, 2, 1], FAULTY, POINTS), 14 / (30 + 17 - 14)),
        (time_overlap([4, 3, 1, 2], FAULTY, POINTS), 17 / 25),  # the best that segments allow
        (time_overlap([4, 3, 1, 1], FAULTY, POINTS), (14 / 33 + 17 / 25) / 2),  # third: 0 of 10 faulty points or 3 of 5
    ],
)
def test_metrics_by_hand(value: float, expected: float) -> None:
    assert value == pytest.approx(expected)


def test_cells_are_ranked_as_one_list() -> None:
    cells, blamed = np.reshape([*SCORES, 0.0], (3, 2)), np.reshape([*BLAMED, 0], (3, 2))
    for metric in (auprc, auroc, ndcg):
        assert metric(cells, blamed) == metric(cells.ravel(), blamed.ravel())


# ---- ties and chance ------------------------------------------------------------------------------------------------


def mean_over_orders(metric: Metric, scores: Array, truth: Array) -> float:
    """The slow obvious value: every order of the items breaks the ties once."""
    orders = permutations(range(len(scores)))
    ranks = {tuple(np.lexsort((order, scores)).argsort().tolist()) for order in orders}  # each equally often
    return float(np.mean([metric(np.array(rank, dtype=float), truth) for rank in ranks]))


@every_metric
@pytest.mark.parametrize("scores", [[3, 1, 1, 1, 0], [2, 2, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 2, 2]])
@pytest.mark.parametrize("blamed", [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 0]])
def test_ties_count_as_the_mean_over_every_order(metric: Metric, scores: list[float], blamed: list[float]) -> None:
    given_scores, truth = np.array(scores, dtype=float), np.array(blamed, dtype=float)
    assert metric(given_scores, truth) == pytest.approx(mean_over_orders(metric, given_scores, truth))


@pytest.mark.parametrize("scores", [[3, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 2, 2, 0, 0]])
def test_ties_count_as_the_mean_for_graded_and_partial_truth(scores: list[float]) -> None:
    given_scores, grades = np.array(scores, dtype=float), np.array([0.0, 2.5, 0.3, 7.0, 0.0])
    assert ndcg(given_scores, grades) == pytest.approx(mean_over_orders(ndcg, given_scores, grades))
    overlap = partial(time_overlap, points=[10, 10, 10, 10, 4])
    faulty = np.array([0.0, 10.0, 3.0, 0.0, 4.0])
    assert overlap(given_scores, faulty) == pytest.approx(mean_over_orders(overlap, given_scores, faulty))


@pytest.mark.parametrize(("n", "g"), [(38, 7), (20, 3), (5, 4)])
def test_chance_has_the_closed_forms_of_the_docstrings(n: int, g: int) -> None:
    constant, truth = np.ones(n), np.arange(n) < g
    harmonic = sum(1 / i for i in range(1, n + 1))
    assert hit_rate(constant, truth) == pytest.approx(g / n)
    assert hit_rate(constant, truth, percent=150) == pytest.approx(min(3 * g // 2, n) / n)
    assert rc_top_k(constant, truth, 3) == pytest.approx(1 - comb(n - g, 3) / comb(n, 3))
    assert ac_at_k(constant, truth, 3) == pytest.approx(3 * g / n / min(3, g))
    first = [comb(n - j, g - 1) / comb(n, g) for j in range(1, n + 1)]
    assert reciprocal_rank(constant, truth) == pytest.approx(sum(p / (j + 1) for j, p in enumerate(first)))
    discounts = 1 / np.log2(np.arange(n) + 2)
    assert ndcg(constant, truth) == pytest.approx(g * discounts.mean() / discounts[:g].sum())
    assert auprc(constant, truth) == pytest.approx((g - 1) / (n - 1) + (n - g) / (n * (n - 1)) * harmonic)
    assert auroc(constant, truth) == pytest.approx(1 / 2)


# ---- properties -----------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, Array]:
    """Scores with ties, and some but not all blamed."""
    n = draw(st.integers(2, 9))
    scores = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    blamed = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda mask: 0 < sum(mask) < len(mask)))
    return np.array(scores, dtype=float), np.array(blamed, dtype=float)


@every_metric
@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_perfect_ranking_scores_one_and_reversed_is_worst(metric: Metric, case: tuple[Array, Array]) -> None:
    scores, truth = case
    value = metric(scores, truth)
    assert metric(truth, truth) == pytest.approx(1)
    assert metric(-truth, truth) - 1e-12 <= value <= 1 + 1e-12
    assert metric(np.exp(scores) * 7 - 2, truth) == pytest.approx(value)
    shuffled = np.random.default_rng(0).permutation(len(scores))
    assert metric(scores[shuffled], truth[shuffled]) == pytest.approx(value)


@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_without_ties_areas_and_gains_are_those_of_scikit_learn(case: tuple[Array, Array]) -> None:
    scores, truth = case
    distinct = scores + np.linspace(0, 0.5, len(scores))
    assert auprc(distinct, truth) == pytest.approx(average_precision_score(truth, distinct))
    assert auroc(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
    assert ndcg(scores, 2 * truth) == pytest.approx(ndcg_score([truth], [scores]))


# ---- refusals -------------------------------------------------------------------------------------------------------


@every_metric
def test_degenerate_truth_and_missing_scores_are_refused(metric: Metric) -> None:
    for truth in (np.zeros(3), np.ones(3)):
        with pytest.raises(DfstransError, match="for all of 3" if metric is ndcg else "(none|all) of 3 blamed"):
            metric(np.arange(3.0), truth)
    with pytest.raises(DfstransError, match="got NaN for 1 of 3"):
        metric(np.array([0.0, np.nan, 1.0]), np.array([1.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hit_rate([1, 2], [1, 0, 0]), "each of 3 items, got 2 scores"),
        (lambda: hit_rate([3, 2, 1], [1, 0, 0], percent=0), "at least 1, got 0"),
        (lambda: rc_top_k([3, 2, 1], [1, 0, 0], k=0), "at least 1, got 0"),
        (lambda: ac_at_k([3, 2, 1], [1, 0, 0], k=0), "at least 1, got 0"),
        (lambda: avg_at_k([3, 2, 1], [1, 0, 0], k=0), "at least 1, got 0"),
        (lambda: ndcg([1, 2, 3], [-1, 0, 1]), "gains of 0 or more"),
        (lambda: ndcg([1, 2, 3], [0, 1, np.inf]), "gains of 0 or more"),
        (lambda: ndcg([], []), "none at all"),
        (lambda: time_overlap([1, 2], [11, 0], [10, 10]), "at most as many faulty points"),
    ],
)
def test_impossible_arguments_are_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        call()
