"""Frequencies of encodings, reconstruction of positions, and the check of any encoding."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.fourier import (
    as_density,
    blur_of,
    check_faithfulness,
    faithful_distribution,
    lowest_bin_crossing,
    lowest_bin_entries,
    position_functions,
    reconstruct,
    vanilla_distribution,
)
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding

seeds = st.integers(0, 2**32 - 1)
even_widths = st.integers(1, 150).map(lambda half: 2 * half)
values = st.floats(-10, 10).map(lambda value: round(value, 3))
functions = st.integers(1, 30).flatmap(lambda half: arrays(np.float64, 2 * half, elements=values))
PAPER = (5, 40, 75)  # fig:reconstruction_comparison

# ---- is it faithful? ------------------------------------------------------------------------------------------------


def test_three_codes_equal_a_hand_calculation() -> None:
    check = check_faithfulness([[2, 0], [0, 1], [2, 0]])
    assert check.gram.tolist() == [[4, 0, 4], [0, 1, 0], [4, 0, 4]]
    assert check.collisions == ((0, 2),)
    assert (check.smallest_distance, check.closest) == (0, (0, 2))
    assert check.largest_distance == pytest.approx(math.sqrt(5))
    assert (check.rank, check.condition_number) == (2, math.inf)
    assert (check.verdict, check.injective, check.orthonormal) == ("ambiguous", False, False)
    assert "0 = 2" in check.explanation


def test_two_codes_equal_a_hand_calculation() -> None:
    check = check_faithfulness([[3, 0, 0], [0, 1, 0]])
    assert check.condition_number == pytest.approx(3)
    assert check.directions == pytest.approx((9 + 1) ** 2 / (81 + 1))
    assert check.verdict == "faithful"
    assert "3-fold" in check.explanation


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 24), st.integers(0, 12))
def test_faithful_encoding_is_faithful(n_segments: int, more: int) -> None:
    d = n_segments + more + (n_segments + more) % 2
    check = check_faithfulness(faithful_encoding(n_segments, d))
    assert check.verdict == "faithful"
    assert check.orthonormal
    assert_allclose(check.gram, np.eye(n_segments), atol=1e-12)
    assert check.condition_number == pytest.approx(1)
    assert check.directions == pytest.approx(n_segments)
    assert check.smallest_distance == pytest.approx(math.sqrt(2))


def test_faithful_encoding_is_faithful_in_single_precision() -> None:
    check = check_faithfulness(faithful_encoding(80, 240).astype(np.float32))
    assert (check.verdict, check.orthonormal) == ("faithful", True)


def test_faithful_encoding_that_repeats_is_ambiguous() -> None:
    wrapped = np.concatenate([faithful_encoding(8, 8), faithful_encoding(3, 8)])
    check = check_faithfulness(wrapped.astype(np.float32))
    assert check.verdict == "ambiguous"
    assert check.collisions == ((0, 8), (1, 9), (2, 10))


def test_vanilla_encoding_separates_but_blurs_positions() -> None:
    check = check_faithfulness(vanilla_encoding(80, 240))
    assert (check.verdict, check.injective) == ("blurred", True)
    assert check.condition_number > 1e8
    assert check.directions == pytest.approx(2.51, abs=0.01)
    assert check.smallest_distance == pytest.approx(2.592, abs=1e-3)
    assert abs(check.closest[0] - check.closest[1]) == 1


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(1e-6, 1e6))
def test_verdict_does_not_depend_on_scale_rotation_or_sign(seed: int, size: float) -> None:
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
def test_equal_codes_are_found(seed: int, n: int, copied: list[int]) -> None:
    codes = np.random.default_rng(seed).normal(size=(n, 12))
    sources = [source % n for source in copied]
    check = check_faithfulness(np.concatenate([codes, codes[sources]]))
    expected = {(source, *(n + i for i, other in enumerate(sources) if other == source)) for source in set(sources)}
    assert set(check.collisions) == expected


def test_common_offset_does_not_make_codes_equal() -> None:
    assert check_faithfulness(np.eye(4) * 1e-3 + 1e3).injective


@pytest.mark.parametrize("codes", [np.zeros((4, 3)), np.full((4, 3), 0.1)])
def test_equal_code_everywhere_is_one_collision(codes: np.ndarray) -> None:
    assert check_faithfulness(codes).collisions == ((0, 1, 2, 3),)


def test_more_positions_than_columns_are_blurred() -> None:
    check = check_faithfulness(np.arange(10.0)[:, None])
    assert (check.injective, check.rank, check.verdict) == (True, 1, "blurred")


@pytest.mark.parametrize("encoding", [np.zeros((4, 3)), vanilla_encoding(80, 240), faithful_encoding(4, 4)])
def test_numbers_of_a_check_are_strict_json(encoding: np.ndarray) -> None:
    content = json.loads(json.dumps(check_faithfulness(encoding).to_dict(), allow_nan=False))
    assert content["positions"] == len(encoding)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (np.zeros(5), r"expected a matrix \(n_positions, d_model\) of real numbers, got shape \(5,\)"),
        (np.zeros((1, 4, 5)), r"got shape \(1, 4, 5\) of float64; .* without a batch axis"),
        (np.zeros((4, 5), dtype=complex), "of complex128"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        ([[1, 2], [3]], "rows of different lengths"),
        (np.zeros((1, 4)), r"at least 2 positions and 1 column, got shape \(1, 4\)"),
        (np.zeros((3, 0)), "at least 2 positions and 1 column"),
        ([[0, 1], [2, np.nan], [np.inf, 1]], "got 2 that are nan or infinite, the first at position 1, column 1"),
        ([[0, 1e200], [1, 1]], r"in size, got 1e\+200; scale the encoding"),
        ([[0, 1e-200], [0, 0]], "in size, got 1e-200; scale the encoding"),
    ],
)
def test_invalid_encoding_is_refused(encoding: object, said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        check_faithfulness(encoding)  # type: ignore[arg-type]


# ---- frequencies ----------------------------------------------------------------------------------------------------


def paper_distribution(d: int) -> list[float]:
    """The printed sum over l = 0, 2, …, d − 2 at each ω_k, number by number."""
    sigma = 4 * 2 * math.pi / d
    weights = [
        sum(math.exp(-((2 * math.pi * k / d - 10_000 ** (-l / d)) ** 2) / (2 * sigma**2)) for l in range(0, d, 2))  # noqa: E741
        for k in range(d // 2 + 1)
    ]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("d", [8, 64, 256])
def test_vanilla_distribution_equals_the_printed_sum(d: int) -> None:
    assert_allclose(vanilla_distribution(d), paper_distribution(d), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(("d", "crossing", "entries"), [(256, 103, 152), (512, 245, 266)])
def test_crossing_equals_the_paper_and_entries_beyond_it_are_counted(d: int, crossing: int, entries: int) -> None:
    assert round(lowest_bin_crossing(d)) == crossing
    assert_allclose(lowest_bin_crossing(d), d / 4 * math.log10(d / (2 * math.pi)))
    slow = [index for index in range(0, d, 2) if 10_000 ** (-index / d) < 2 * math.pi / d]
    assert min(slow) == 2 * math.ceil(lowest_bin_crossing(d) / 2)
    assert lowest_bin_entries(d) == 2 * len(slow) == entries


def test_vanilla_distribution_is_skewed_towards_zero() -> None:
    shares = vanilla_distribution(256)
    assert shares.argmax() == 1
    assert shares[:16].sum() == pytest.approx(0.8385, abs=1e-4)  # an eighth of the frequencies
    assert shares[64:].max() < 1e-9


@settings(max_examples=30, deadline=None)
@given(even_widths)
def test_shares_are_a_distribution_over_d_half_plus_one_frequencies(d: int) -> None:
    for shares in (vanilla_distribution(d), faithful_distribution(d), as_density(faithful_distribution(d))):
        assert shares.shape == (d // 2 + 1,)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(even_widths)
def test_the_density_of_the_faithful_encoding_is_flat(d: int) -> None:
    assert_allclose(as_density(faithful_distribution(d)), 1 / (d // 2 + 1))


@pytest.mark.parametrize("d", [-2, 0, 1, 7])
def test_odd_width_is_refused(d: int) -> None:
    for function in (vanilla_distribution, faithful_distribution, lowest_bin_crossing, lowest_bin_entries):
        with pytest.raises(DfstransError, match=rf"even d_model of at least 2, got {d}, .* use \d"):
            function(d)


# ---- reconstruction [algo:reference_reconstruction] -----------------------------------------------------------------


def test_reconstruction_equals_a_hand_calculation() -> None:
    # δ_{t,0}: a_0 = 1/2, a_1 = 1/√2, b_1 = 0, b_0 = 1/2; weights 2, 1, 0 leave (1, 1/√2, 0, 0), of norm √1.5
    expected = [0.5 + 0.5, 0.5, 0.5 - 0.5, 0.5]
    assert_allclose(
        reconstruct(np.array([1.0, 0, 0, 0]), np.array([2.0, 1, 0])), np.array(expected) / math.sqrt(1.5), atol=1e-15
    )


@settings(max_examples=60, deadline=None)
@given(functions, seeds)
def test_reconstruction_equals_the_fast_transform(f: np.ndarray, seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 1, len(f) // 2 + 1)
    filtered = np.fft.irfft(np.fft.rfft(f) * weights, len(f))
    expected = filtered * (np.linalg.norm(f) / (np.linalg.norm(filtered) or 1.0))
    assert_allclose(reconstruct(f, weights), expected, atol=1e-9)


def test_the_faithful_encoding_reconstructs_positions_exactly() -> None:
    for d, positions in ((256, PAPER), (240, tuple(range(80)))):
        truth = position_functions(positions, d)
        assert np.abs(reconstruct(truth, as_density(faithful_distribution(d))) - truth).max() < 1e-10


def test_shares_instead_of_a_density_do_not_reconstruct_exactly() -> None:
    truth = position_functions(PAPER, 256)
    error = np.abs(reconstruct(truth, faithful_distribution(256)) - truth).max()
    assert error == pytest.approx(1 / 256, rel=0.01)


def test_the_vanilla_encoding_spreads_positions() -> None:
    rows = reconstruct(position_functions(PAPER, 256), vanilla_distribution(256))
    for row, position in zip(rows, PAPER, strict=True):
        blur = blur_of(row, position)
        assert row.argmax() == position
        assert blur.height == pytest.approx(0.340, abs=1e-3)
        assert blur.kept == pytest.approx(0.116, abs=1e-3)
        assert blur.reach == 33  # "not sensitive to the difference in the location up to about 30"


def test_only_proportions_of_weights_matter() -> None:
    f, g = position_functions((3,), 16), vanilla_distribution(16)
    assert_allclose(reconstruct(f, g * 1e-250), reconstruct(f, g), atol=1e-14)
