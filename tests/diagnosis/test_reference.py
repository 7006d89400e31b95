from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.counterfactual import Counterfactual
from dfstrans.diagnosis.inspection import episode_scores
from dfstrans.diagnosis.reference import NormalExamples, NormalReference
from dfstrans.diagnosis.scores import SCORES
from dfstrans.errors import DfstransError
from tests.tiny import TINY, tiny_episodes

WIDER = {**TINY, "epochs": 1, "segment_length": 8, "width": 16}  # to tell sixteen segments apart


@pytest.fixture(scope="module")
def normal() -> Episodes:
    episodes = tiny_episodes()
    return episodes[episodes.require_labels() == 0]


@pytest.fixture(scope="module")
def reference(tiny: Diagnoser, normal: Episodes) -> NormalReference:
    return NormalReference.fit(tiny, normal)


def test_normal_episodes_are_seldom_beyond_their_own_bands(
    tiny: Diagnoser, normal: Episodes, reference: NormalReference
) -> None:
    found = list(episode_scores(tiny, normal))
    for name, band in reference.bands(3).items():
        assert np.mean([band.excess(getattr(one, name)) > 1 for one in found]) < 0.05
    assert np.mean([reference.deviation(one) for one in found]) == pytest.approx(1, abs=0.3)


def test_a_deviating_sensor_stands_out(tiny: Diagnoser, normal: Episodes, reference: NormalReference) -> None:
    values = np.array(normal.values[:1])
    values[0, 1] += 5 * np.ptp(values[0, 1])
    (scores,) = episode_scores(tiny, tiny.check_input(values))
    assert reference.deviation(scores).max(axis=0).argmax() == 1


def test_an_unusual_length_is_compared_with_all_segments(tiny: Diagnoser, reference: NormalReference) -> None:
    (scores,) = episode_scores(tiny, tiny.check_input([tiny_episodes().values[0][:, :24]]))
    assert (scores.n_segments, reference.n_segments) == (2, 3)
    bands = reference.bands(2)
    assert {name: bands[name].excess(getattr(scores, name)).shape for name in SCORES} == {
        name: getattr(scores, name).shape for name in SCORES
    }
    deviation = reference.deviation(scores)
    assert deviation.shape == (2, 3)
    assert 0 < deviation.mean() < 5


def test_a_reference_survives_its_arrays(tiny: Diagnoser, normal: Episodes, reference: NormalReference) -> None:
    again = NormalReference.from_arrays(reference.to_arrays())
    scores = next(episode_scores(tiny, normal))
    assert (again.n_episodes, again.n_segments) == (reference.n_episodes, reference.n_segments)
    np.testing.assert_allclose(again.deviation(scores), reference.deviation(scores), rtol=2e-2)
    np.testing.assert_allclose(again.fleet.of(None).health.usual, reference.fleet.of(None).health.usual, rtol=1e-6)
    for n_segments in (3, 5):
        course, stored = (one.fleet.of(None).course.of_length(12 * n_segments, 12, 3) for one in (reference, again))
        np.testing.assert_allclose(stored, course, 1e-6)
        for name, band in reference.bands(n_segments).items():
            np.testing.assert_allclose(again.band(n_segments, name).edge, band.edge, rtol=1e-5, atol=1e-6)


def test_no_normal_episodes_are_refused(tiny: Diagnoser, normal: Episodes) -> None:
    with pytest.raises(DfstransError, match="label 0"):
        NormalReference.fit(tiny, normal[:0])


# ---- two lengths ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_two_lengths() -> Episodes:
    """Most of sixteen segments, some of fifteen; sensor 1 never moves, 2 does the same in each, a step up and down."""
    random = np.random.default_rng(0)
    series = [random.normal(size=(3, 128 if row % 3 else 120)).astype(np.float32) for row in range(60)]
    for values in series:
        values[1] = 24
        values[2] = (np.arange(values.shape[1]) // 24) % 2
    labels = np.arange(60) % 6 == 5
    for row in np.flatnonzero(labels):
        series[row][0, 48:80] += 6
    return Episodes.from_arrays(series, labels)


@pytest.mark.parametrize("seed", range(5))
def test_normal_behaviour_does_not_deviate_in_a_shorter_episode(of_two_lengths: Episodes, seed: int) -> None:
    detector = Diagnoser.from_settings(**WIDER, machine_features=False, seed=seed).fit(of_two_lengths)
    reference = NormalReference.fit(detector, of_two_lengths[of_two_lengths.require_labels() == 0], seed)
    assert reference.n_segments == 16
    shorter = [one for one in episode_scores(detector, of_two_lengths) if one.n_segments == 15]
    assert len(shorter) == 20
    assert max(reference.deviation(one)[:, 1:].max() for one in shorter) < 3
    cells = Counterfactual.of(detector, of_two_lengths[:1], reference)
    assert cells.shape == (15, 3)
    np.testing.assert_allclose(cells.normal[:, 1], cells.embedding[:, 1], atol=1e-5)  # the sensor that never moves


def test_rare_segment_has_its_own_examples() -> None:
    random = np.random.default_rng(0)
    series = [random.normal(size=(2, 960 if row % 3 else 952)).astype(np.float32) for row in range(24)]
    for values in series:
        values[1] = 0
        values[1, 880:884] = 1
    episodes = Episodes.from_arrays(series, np.arange(24) % 4 == 3)
    detector = Diagnoser.from_settings(**WIDER, encoding="vanilla").fit(episodes)
    normal = episodes[episodes.require_labels() == 0]
    reference = NormalReference.fit(detector, normal)
    (scores,) = episode_scores(detector, normal[:1])
    assert scores.n_segments == 119 != reference.n_segments
    assert reference.deviation(scores)[110, 1] < 3


# ---- examples -------------------------------------------------------------------------------------------------------

VARYING = np.full((3, 2), 6, np.float32)


def floats(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def one_cell(codes: list[list[float]], directions: list[list[float]]) -> NormalExamples:
    none = np.zeros((0, 1, 1, len(directions)), np.float32)
    return NormalExamples(floats(directions)[None], floats(codes)[None, None], floats([[1]]), none, floats([1]))


def random_normal(n: int = 40, t: int = 3, seed: int = 0) -> np.ndarray:
    return floats(np.random.default_rng(seed).normal(size=(n, t, 2, 6)))


def test_distance_uses_the_three_nearest_examples() -> None:
    examples = one_cell([[0, 0], [2, 0], [0, 2], [9, 9]], [[1, 0], [0, 1]])
    assert examples.distance(floats([[[1, 0]]]), floats([[2]])) == pytest.approx(np.sqrt((1 + 1 + 5) / 3 / 2))


def test_difference_outside_all_components_counts_fully() -> None:
    assert one_cell([[1], [1], [1]], [[1], [0]]).distance(floats([[[1, 3]]]), floats([[1]])) == pytest.approx(3)


def test_a_difference_along_a_principal_component_leaves_no_residual() -> None:
    component = np.full((1, 2, 1, 2), 0.5, np.float32)  # of length 1
    examples = NormalExamples(np.eye(2)[None], np.zeros((2, 1, 1, 2)), np.ones((2, 1)), component, np.ones(1))
    np.testing.assert_allclose(examples.residual(4 * component[0]), 0, atol=1e-6)
    np.testing.assert_allclose(examples.residual(floats([[[1, -1]], [[0, 0]]])), [[1], [0]], atol=1e-6)


def test_course_between_two_normal_ones_deviates_more() -> None:
    normal = 0.1 * random_normal(t=1)
    normal[::2] += 1
    normal[1::2] -= 1  # such as up and down: no episode has the mean, 0
    examples = NormalExamples.fit(normal, VARYING[:1])
    up, between = (examples.deviation(np.full((1, 2, 6), x, np.float32), VARYING[:1]) for x in (1, 0))
    assert (between > 3 * up).all()


def test_deviating_cell_ranks_first_and_raises_its_segment() -> None:
    examples = NormalExamples.fit(random_normal(), VARYING)
    others = random_normal(seed=1)
    assert np.mean([examples.deviation(one, VARYING) for one in others]) == pytest.approx(1, abs=0.15)
    before = examples.deviation(others[0], VARYING)
    others[0, 1, 0] += 5
    after = examples.deviation(others[0], VARYING)
    assert np.unravel_index(after.argmax(), after.shape) == (1, 0)
    assert before[1, 1] < after[1, 1] < 0.5 * after[1, 0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_normal_episodes_suffice(n: int) -> None:
    examples = NormalExamples.fit(random_normal(n), VARYING)
    assert np.isfinite(examples.deviation(random_normal(1, seed=5)[0], VARYING)).all()


def test_identical_normal_episodes_suffice() -> None:
    examples = NormalExamples.fit(np.zeros((8, 3, 2, 6), np.float32), 0 * VARYING)
    still = examples.deviation(np.zeros((3, 2, 6), np.float32), 0 * VARYING)
    np.testing.assert_allclose(still, 1, atol=1e-5)


def test_the_number_of_codes_is_limited() -> None:
    assert NormalExamples.fit(random_normal(), VARYING, max_codes=3 * 2 * 6 * 10).codes.shape == (3, 2, 10, 6)


def test_examples_survive_their_arrays_of_16_bits() -> None:
    examples, one = NormalExamples.fit(random_normal(), VARYING), random_normal(seed=1)[0]
    arrays = examples.to_arrays()
    assert {values.dtype for values in arrays.values()} == {np.dtype(np.float16)}
    assert all(values.flags.c_contiguous for values in arrays.values())
    again = NormalExamples.from_arrays(arrays).deviation(one, VARYING)
    np.testing.assert_allclose(again, examples.deviation(one, VARYING), rtol=0.01)
