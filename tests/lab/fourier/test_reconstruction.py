"""Algorithm 1: what is left of a function after its Fourier coefficients were weighed."""

from __future__ import annotations

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
    faithful_distribution,
    position_functions,
    reconstruct,
    vanilla_distribution,
)

PAPER = (5, 40, 75)  # fig:reconstruction_comparison
values = st.floats(-10, 10).map(lambda value: round(value, 3))
functions = st.integers(1, 30).flatmap(lambda half: arrays(np.float64, 2 * half, elements=values))


def test_worked_by_hand_on_four_points() -> None:
    # δ_{t,0}: a_0 = 1/2, a_1 = 1/√2, b_1 = 0, b_0 = 1/2; weights 2, 1, 0 leave (1, 1/√2, 0, 0), of norm √1.5
    expected = [0.5 + 0.5, 0.5, 0.5 - 0.5, 0.5]
    assert_allclose(
        reconstruct(np.array([1.0, 0, 0, 0]), np.array([2.0, 1, 0])), np.array(expected) / math.sqrt(1.5), atol=1e-15
    )


def paper_algorithm(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """algo:reference_reconstruction, step by step with loops."""
    d = len(f)
    cos = [sum(f[t] * math.cos(2 * math.pi * k * t / d) for t in range(d)) for k in range(d // 2 + 1)]
    sin = [sum(f[t] * math.sin(2 * math.pi * k * t / d) for t in range(d)) for k in range(d // 2 + 1)]
    a = [c * math.sqrt((1 if k in (0, d // 2) else 2) / d) * g[k] for k, c in enumerate(cos)]
    b = [s * math.sqrt(2 / d) * g[k] for k, s in enumerate(sin)]
    out = np.zeros(d)
    for t in range(d):
        out[t] = (a[0] + a[d // 2] * math.cos(math.pi * t)) / math.sqrt(d)
        for k in range(1, d // 2):
            wave = 2 * math.pi * k * t / d
            out[t] += math.sqrt(2 / d) * (a[k] * math.cos(wave) + b[k] * math.sin(wave))
    return out * np.linalg.norm(f) / np.linalg.norm(out)


def test_equals_the_paper_s_steps_on_a_random_function() -> None:
    f = np.random.default_rng(0).normal(size=32)
    g = vanilla_distribution(32)
    assert_allclose(reconstruct(f, g), paper_algorithm(f, g), atol=1e-12)


def test_equals_the_fast_transform() -> None:
    f = np.random.default_rng(1).normal(size=(3, 64))
    g = vanilla_distribution(64)
    filtered = np.fft.irfft(np.fft.rfft(f) * g)
    expected = filtered * np.linalg.norm(f, axis=1, keepdims=True) / np.linalg.norm(filtered, axis=1, keepdims=True)
    assert_allclose(reconstruct(f, g), expected, atol=1e-12)


def test_the_faithful_encoding_reconstructs_positions_exactly() -> None:
    for d, positions in ((256, PAPER), (240, tuple(range(80)))):
        truth = position_functions(positions, d)
        assert np.abs(reconstruct(truth, as_density(faithful_distribution(d))) - truth).max() < 1e-10


def test_the_shares_themselves_would_lose_a_little_at_both_terminal_frequencies() -> None:
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


@settings(max_examples=30, deadline=None)
@given(functions)
def test_flat_weights_change_nothing(f: np.ndarray) -> None:
    assert_allclose(reconstruct(f, np.full(len(f) // 2 + 1, 0.3)), f, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(functions, st.integers(0, 2**32 - 1))
def test_the_norm_is_kept(f: np.ndarray, seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 1, len(f) // 2 + 1)
    assert np.linalg.norm(reconstruct(f, weights)) == pytest.approx(np.linalg.norm(f), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(functions, st.integers(0, 100))
def test_a_shifted_function_gives_a_shifted_reconstruction(f: np.ndarray, shift: int) -> None:
    weights = vanilla_distribution(len(f), bandwidth=2.0)
    assert_allclose(reconstruct(np.roll(f, shift), weights), np.roll(reconstruct(f, weights), shift), atol=1e-7)


def test_only_the_proportions_of_the_weights_matter() -> None:
    f, g = position_functions((3,), 16), vanilla_distribution(16)
    assert_allclose(reconstruct(f, g * 1e-250), reconstruct(f, g), atol=1e-14)


@pytest.mark.parametrize(
    ("f", "g", "said"),
    [
        (np.ones(5), np.ones(3), "even number d of points and d/2 \\+ 1 weights, got shapes \\(5,\\) and \\(3,\\)"),
        (np.ones(4), np.ones(4), "fill the functions up with zeros"),
        (np.array([1, np.nan]), np.ones(2), "finite values"),
        (np.ones(2), np.array([1, np.inf]), "finite weights of at least 0"),
        (np.ones(2), np.array([1, -1]), "finite weights of at least 0, got values from -1 to 1"),
        (np.ones(2), np.array([0, 1]), "nothing is left to reconstruct"),
        (np.ones(2), np.zeros(2), "nothing is left to reconstruct"),
    ],
)
def test_what_cannot_be_reconstructed_is_refused(f: np.ndarray, g: np.ndarray, said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        reconstruct(f, g)


def test_a_position_outside_the_lattice_is_named() -> None:
    with pytest.raises(DfstransError, match="positions from 0 to 7, got 8, -1; choose others"):
        position_functions((3, 8, -1), 8)
