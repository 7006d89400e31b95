from __future__ import annotations

import numpy as np
import pytest
from dfstrans.diagnosis.examples import NormalExamples

from dfstrans.diagnosis import examples as normal_examples

ONE_CELL = np.ones((1, 1), np.float32)


def floats(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def one_cell(codes: list[list[float]], directions: list[list[float]]) -> NormalExamples:
    none = np.zeros((0, 1, 1, len(directions)), np.float32)
    return NormalExamples(floats(directions)[None], floats(codes)[None, None], ONE_CELL, none, np.ones(1, np.float32))


def random_normal(n: int = 40, t: int = 3, s: int = 2, d: int = 6, seed: int = 0) -> np.ndarray:
    return floats(np.random.default_rng(seed).normal(size=(n, t, s, d)))


def test_the_distance_is_that_from_the_three_nearest_examples() -> None:
    examples = one_cell([[0, 0], [2, 0], [0, 2], [9, 9]], [[1, 0], [0, 1]])
    squares = (1 + 1 + 5) / 3
    found = examples.distance(floats([[[1, 0]]]), 2 * ONE_CELL)
    assert found == pytest.approx(np.sqrt(squares / 2))


def test_what_no_direction_shows_counts_in_full() -> None:
    examples = one_cell([[1], [1], [1]], [[1], [0]])
    assert examples.distance(floats([[[1, 3]]]), ONE_CELL) == pytest.approx(3)


def test_a_difference_along_a_main_way_leaves_no_rest() -> None:
    way = np.full((1, 2, 1, 2), 0.5, np.float32)  # of length 1
    examples = NormalExamples(np.eye(2)[None], np.zeros((2, 1, 1, 2)), np.ones((2, 1)), way, np.ones(1))
    np.testing.assert_allclose(examples.rest(4 * way[0]), 0, atol=1e-6)
    across = floats([[[1, -1]], [[0, 0]]])
    np.testing.assert_allclose(examples.rest(across), [[1], [0]], atol=1e-6)


def test_a_course_between_two_normal_ones_is_stranger_than_either() -> None:
    normal = 0.1 * random_normal(t=1)
    normal[::2] += 1
    normal[1::2] -= 1  # such as up and down: the mean, 0, is what no episode has
    examples = NormalExamples.fit(normal, np.full((1, 2), 6, np.float32))
    up, between = (examples.deviation(np.full((1, 2, 6), x, np.float32), np.full((1, 2), 6)) for x in (1, 0))
    assert (between > 3 * up).all()


def test_normal_episodes_have_a_deviation_around_one() -> None:
    varying = np.full((3, 2), 6, np.float32)
    examples = NormalExamples.fit(random_normal(), varying)
    found = np.array([examples.deviation(one, varying) for one in random_normal(seed=1)])
    assert found.mean() == pytest.approx(1, abs=0.15)


def test_a_strange_cell_is_the_strangest_and_makes_its_moment_a_little_stranger() -> None:
    varying = np.full((3, 2), 6, np.float32)
    examples = NormalExamples.fit(random_normal(), varying)
    one = random_normal(seed=1)[0]
    before = examples.deviation(one, varying)
    one[1, 0] += 5
    after = examples.deviation(one, varying)
    assert np.unravel_index(after.argmax(), after.shape) == (1, 0)
    assert before[1, 1] < after[1, 1] < 0.5 * after[1, 0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_normal_episodes_will_do(n: int) -> None:
    varying = np.full((3, 2), 6, np.float32)
    examples = NormalExamples.fit(random_normal(n), varying)
    assert np.isfinite(examples.deviation(random_normal(1, seed=5)[0], varying)).all()


def test_episodes_that_are_all_alike_will_do() -> None:
    examples = NormalExamples.fit(np.zeros((8, 3, 2, 6), np.float32), np.zeros((3, 2), np.float32))
    still = examples.deviation(np.zeros((3, 2, 6), np.float32), np.zeros((3, 2), np.float32))
    np.testing.assert_allclose(still, 1, atol=1e-5)


def test_what_is_kept_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_examples, "MOST_CODES", 3 * 2 * 6 * 10)
    examples = NormalExamples.fit(random_normal(), np.full((3, 2), 6, np.float32))
    assert examples.codes.shape == (3, 2, 10, 6)


def test_arrays_and_back() -> None:
    varying = np.full((3, 2), 6, np.float32)
    examples = NormalExamples.fit(random_normal(), varying)
    arrays = examples.to_arrays()
    assert {values.dtype for values in arrays.values()} == {np.dtype(np.float16)}
    assert all(values.flags.c_contiguous for values in arrays.values())
    one = random_normal(seed=1)[0]
    again = NormalExamples.from_arrays(arrays).deviation(one, varying)
    np.testing.assert_allclose(again, examples.deviation(one, varying), rtol=0.01)
