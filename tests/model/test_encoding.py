"""Positional encodings, worked by hand and against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.errors import DfstransError
from dfstrans.model.encoding import faithful_encoding, positional_encoding, vanilla_encoding


def test_faithful_encoding_of_width_4_worked_by_hand() -> None:
    # √(2/4) · (1/√2, cos(πτ/2), sin(πτ/2), cos(πτ)/√2)
    h = math.sqrt(0.5)
    expected = [[0.5, h, 0, 0.5], [0.5, 0, h, -0.5], [0.5, -h, 0, 0.5], [0.5, 0, -h, -0.5]]
    assert_allclose(faithful_encoding(4, 4), expected, atol=1e-15)


def test_vanilla_encoding_places_neighbours_closer() -> None:
    encoding = vanilla_encoding(80, 256)
    assert np.linalg.norm(encoding[40] - encoding[41]) < 0.5 * np.linalg.norm(encoding[40] - encoding[75])


def test_vanilla_encoding_equals_its_formula() -> None:
    d, rho = 6, 100.0  # also for more segments than the width
    expected = [[f(rho ** (-k / d) * tau) for k in range(0, d, 2) for f in (math.sin, math.cos)] for tau in range(9)]
    assert_allclose(vanilla_encoding(9, d, rho), expected, atol=1e-15)
    assert_allclose(vanilla_encoding(2, 4)[1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])


@pytest.mark.parametrize("d_model", [-2, 0, 1, 7])
@pytest.mark.parametrize("encoding", [faithful_encoding, vanilla_encoding])
def test_an_odd_or_empty_width_is_refused(encoding: object, d_model: int) -> None:
    with pytest.raises(DfstransError, match=f"even d_model of at least 2, got {d_model}"):
        encoding(1, d_model)  # type: ignore[operator]


def test_encodings_are_found_by_name() -> None:
    assert_array_equal(positional_encoding("faithful", 3, 8), faithful_encoding(3, 8))
    assert_array_equal(positional_encoding("vanilla", 3, 8), vanilla_encoding(3, 8))
    assert_array_equal(positional_encoding("none", 30, 8), np.zeros((30, 8)))
