"""The check of any encoding."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.fourier import check_faithfulness
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding

seeds = st.integers(0, 2**32 - 1)


def test_three_codes_worked_by_hand() -> None:
    check = check_faithfulness([[2, 0], [0, 1], [2, 0]])
    assert check.gram.tolist() == [[4, 0, 4], [0, 1, 0], [4, 0, 4]]
    assert check.collisions == ((0, 2),)
    assert (check.smallest_distance, check.closest) == (0, (0, 2))
    assert check.largest_distance == pytest.approx(math.sqrt(5))
    assert (check.rank, check.condition_number) == (2, math.inf)
    assert (check.verdict, check.injective, check.orthonormal) == ("ambiguous", False, False)
    assert "0 = 2" in check.explanation


def test_two_codes_worked_by_hand() -> None:
    check = check_faithfulness([[3, 0, 0], [0, 1, 0]])
    assert check.condition_number == pytest.approx(3)
    assert check.directions == pytest.approx((9 + 1) ** 2 / (81 + 1))
    assert check.verdict == "faithful"
    assert "3-fold" in check.explanation


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 24), st.integers(0, 12))
def test_the_faithful_encoding_is_faithful(n_segments: int, more: int) -> None:
    d = n_segments + more + (n_segments + more) % 2
    check = check_faithfulness(faithful_encoding(n_segments, d))
    assert check.verdict == "faithful"
    assert check.orthonormal
    assert_allclose(check.gram, np.eye(n_segments), atol=1e-12)
    assert check.condition_number == pytest.approx(1)
    assert check.directions == pytest.approx(n_segments)
    assert check.smallest_distance == pytest.approx(math.sqrt(2))


def test_the_faithful_encoding_is_faithful_in_single_precision() -> None:
    check = check_faithfulness(faithful_encoding(80, 240).astype(np.float32))
    assert (check.verdict, check.orthonormal) == ("faithful", True)


def test_a_faithful_encoding_that_wrapped_around_is_caught() -> None:
    wrapped = np.concatenate([faithful_encoding(8, 8), faithful_encoding(3, 8)])
    check = check_faithfulness(wrapped.astype(np.float32))
    assert check.verdict == "ambiguous"
    assert check.collisions == ((0, 8), (1, 9), (2, 10))


def test_the_vanilla_encoding_tells_positions_apart_but_blurs_them() -> None:
    check = check_faithfulness(vanilla_encoding(80, 240))
    assert (check.verdict, check.injective) == ("blurred", True)
    assert check.condition_number > 1e8
    assert check.directions == pytest.approx(2.51, abs=0.01)
    assert check.smallest_distance == pytest.approx(2.592, abs=1e-3)
    assert abs(check.closest[0] - check.closest[1]) == 1


def test_a_learned_encoding_of_random_numbers_is_faithful() -> None:
    check = check_faithfulness(np.random.default_rng(0).normal(size=(80, 240)))
    assert check.verdict == "faithful"
    assert check.condition_number < 5


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(1e-6, 1e6))
def test_the_verdict_does_not_depend_on_size_rotation_or_sign(seed: int, size: float) -> None:
    random = np.random.default_rng(seed)
    codes = random.normal(size=(5, 7))
    rotation, _ = np.linalg.qr(random.normal(size=(7, 7)))
    plain, turned = check_faithfulness(codes), check_faithfulness(-size * codes @ rotation)
    assert plain.verdict == turned.verdict
    assert turned.condition_number == pytest.approx(plain.condition_number, rel=1e-6)
    assert turned.smallest_distance == pytest.approx(size * plain.smallest_distance, rel=1e-6)
    assert turned.closest == plain.closest


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(2, 8), st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_copied_codes_are_found_whatever_the_others_are(seed: int, n: int, copied: list[int]) -> None:
    codes = np.random.default_rng(seed).normal(size=(n, 12))
    sources = [source % n for source in copied]
    check = check_faithfulness(np.concatenate([codes, codes[sources]]))
    expected = {(source, *(n + i for i, other in enumerate(sources) if other == source)) for source in set(sources)}
    assert set(check.collisions) == expected


def test_a_common_offset_does_not_make_codes_the_same() -> None:
    assert check_faithfulness(np.eye(4) * 1e-3 + 1e3).injective


@pytest.mark.parametrize("codes", [np.zeros((4, 3)), np.full((4, 3), 0.1)])
def test_the_same_code_everywhere_is_one_collision(codes: np.ndarray) -> None:
    assert check_faithfulness(codes).collisions == ((0, 1, 2, 3),)


def test_more_positions_than_columns_can_be_distinct_but_not_faithful() -> None:
    check = check_faithfulness(np.arange(10.0)[:, None])
    assert (check.injective, check.rank, check.verdict) == (True, 1, "blurred")


@pytest.mark.parametrize("encoding", [np.zeros((4, 3)), vanilla_encoding(80, 240), faithful_encoding(4, 4)])
def test_the_numbers_are_strict_json(encoding: np.ndarray) -> None:
    content = json.loads(json.dumps(check_faithfulness(encoding).to_dict(), allow_nan=False))
    assert content["positions"] == len(encoding)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (np.zeros(5), r"expected a matrix \(n_positions, d_model\) of real numbers, got shape \(5,\)"),
        (np.zeros((1, 4, 5)), r"got shape \(1, 4, 5\) of float64; .* without a batch axis"),
        (np.zeros((4, 5), dtype=complex), "of complex128"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        ([[1, 2], [3]], "rows that do not fit together"),
        (np.zeros((1, 4)), r"at least 2 positions and 1 column, got shape \(1, 4\)"),
        (np.zeros((3, 0)), "at least 2 positions and 1 column"),
        ([[0, 1], [2, np.nan], [np.inf, 1]], "got 2 that are nan or infinite, the first at position 1, column 1"),
        ([[0, 1e200], [1, 1]], r"in size, got 1e\+200; scale the encoding"),
        ([[0, 1e-200], [0, 0]], "in size, got 1e-200; scale the encoding"),
    ],
)
def test_what_is_no_encoding_is_refused(encoding: object, said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        check_faithfulness(encoding)  # type: ignore[arg-type]
