"""Where the frequencies of encodings lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.fourier import (
    as_density,
    faithful_distribution,
    frequency_distribution,
    lowest_bin_crossing,
    lowest_bin_entries,
    vanilla_distribution,
)

even_widths = st.integers(1, 150).map(lambda half: 2 * half)


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
def test_the_crossing_is_the_paper_s_and_what_lies_beyond_it_is_counted(d: int, crossing: int, entries: int) -> None:
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


def test_faithful_distribution_has_the_printed_terms() -> None:
    assert_allclose(faithful_distribution(256), [1 / 256, *[2 / 256] * 127, 1 / 256])


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


@settings(max_examples=30, deadline=None)
@given(even_widths, st.floats(1.5, 1e6))
def test_the_entries_of_the_lowest_bin_are_those_beyond_the_crossing(d: int, rho: float) -> None:
    beyond = d - lowest_bin_crossing(d, rho)
    assert abs(lowest_bin_entries(d, rho) - np.clip(beyond, 0, d)) <= 2


def test_a_narrow_bandwidth_counts_frequencies_where_they_are() -> None:
    lattice = 2 * np.pi / 16 * np.array([0, 3, 3, 8])
    assert_allclose(frequency_distribution(lattice, 16, bandwidth=1e-3), np.array([1, 0, 0, 2, 0, 0, 0, 0, 1]) / 4)


def test_a_bandwidth_far_below_the_lattice_still_gives_a_distribution() -> None:
    assert frequency_distribution(np.array([1.0]), 16, bandwidth=1e-9).sum() == pytest.approx(1)


@pytest.mark.parametrize("d", [-2, 0, 1, 7])
def test_an_odd_width_is_refused_with_a_remedy(d: int) -> None:
    for function in (vanilla_distribution, faithful_distribution, lowest_bin_crossing, lowest_bin_entries):
        with pytest.raises(DfstransError, match=rf"even d_model of at least 2, got {d}; .* take \d"):
            function(d)


@pytest.mark.parametrize("rho", [1.0, 0.0, -5.0, math.nan, math.inf])
def test_a_base_that_gives_no_waves_is_refused(rho: float) -> None:
    with pytest.raises(DfstransError, match=r"greater than 1, got .*; the usual value"):
        vanilla_distribution(16, rho)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_bandwidth_is_refused(bandwidth: float) -> None:
    with pytest.raises(DfstransError, match=r"bandwidth greater than 0, got .*; leave it out"):
        vanilla_distribution(16, bandwidth=bandwidth)


@pytest.mark.parametrize("frequencies", [[], [math.nan], [-0.1], [3.2], [[1.0]]])
def test_frequencies_outside_the_lattice_are_refused(frequencies: list[float]) -> None:
    with pytest.raises(DfstransError, match="frequencies from 0 to π, got shape"):
        frequency_distribution(np.array(frequencies), 16)
