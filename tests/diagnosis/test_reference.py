from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.bands import SCORES
from dfstrans.diagnosis.counterfactual import Counterfactual
from dfstrans.diagnosis.inspection import episode_scores
from dfstrans.diagnosis.reference import NormalCourse, NormalReference
from dfstrans.diagnosis.scores import EpisodeScores, global_spatial_relevance
from dfstrans.errors import DfstransError
from tests.tiny import TINY, tiny_episodes

WIDER = {**TINY, "epochs": 1, "segment_length": 8, "filters": 16}  # to tell sixteen segments apart


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser(**TINY).fit(tiny_episodes())


@pytest.fixture(scope="module")
def normal() -> Episodes:
    episodes = tiny_episodes()
    return episodes[episodes.require_labels() == 0]


@pytest.fixture(scope="module")
def reference(detector: Diagnoser, normal: Episodes) -> NormalReference:
    return NormalReference.fit(detector, normal)


def test_relevances_add_up_and_a_batch_equals_its_episodes(detector: Diagnoser, normal: Episodes) -> None:
    together = list(episode_scores(detector, normal[:5]))
    for row, scores in enumerate(together):
        (alone,) = episode_scores(detector, normal[row : row + 1])
        for name in ("temporal", "spatial", "embedding", "contribution", "level"):
            np.testing.assert_allclose(getattr(scores, name), getattr(alone, name), atol=1e-5)
        t, s = scores.cell.shape
        assert scores.segment.sum() == pytest.approx(t, rel=1e-5)
        assert scores.sensor.sum() == pytest.approx(s, rel=1e-5)
        np.testing.assert_allclose(scores.sensor, global_spatial_relevance(scores.spatial, scores.segment))
    np.testing.assert_allclose([scores.logit for scores in together], detector.decision_function(normal[:5]), atol=1e-5)


def test_padding_leaves_no_trace(detector: Diagnoser) -> None:
    values = tiny_episodes().values[0]
    short = values[:, : values.shape[1] // 2]
    first, _ = episode_scores(detector, detector.check_input([short, values]))
    (alone,) = episode_scores(detector, detector.check_input([short]))
    assert first.cell.shape == alone.cell.shape
    np.testing.assert_allclose(first.cell, alone.cell, atol=1e-5)


def test_normal_episodes_are_seldom_beyond_their_own_band(
    detector: Diagnoser, normal: Episodes, reference: NormalReference
) -> None:
    for name in SCORES:
        beyond = [reference.strangeness(one, name) > 1 for one in episode_scores(detector, normal)]
        assert np.mean(beyond) < 0.05
    deviations = [reference.deviation(one) for one in episode_scores(detector, normal)]
    assert np.mean(deviations) == pytest.approx(1, abs=0.3)


def test_a_strange_sensor_stands_out(detector: Diagnoser, normal: Episodes, reference: NormalReference) -> None:
    values = np.array(normal.values[:1])
    values[0, 1] += 5 * np.ptp(values[0, 1])
    (scores,) = episode_scores(detector, detector.check_input(values))
    deviation = reference.deviation(scores)
    assert deviation.max(axis=0).argmax() == 1
    assert (reference.strangeness(scores, "level")[:, 1] > 3).all()


def test_an_unusual_length_is_compared_with_all_moments(detector: Diagnoser, reference: NormalReference) -> None:
    values = tiny_episodes().values[0]
    (scores,) = episode_scores(detector, detector.check_input([values[:, : values.shape[1] // 2]]))
    assert len(scores.segment) != reference.n_segments
    for name in SCORES:
        assert reference.strangeness(scores, name).shape == getattr(scores, name).shape


def test_arrays_and_back(reference: NormalReference, detector: Diagnoser, normal: Episodes) -> None:
    again = NormalReference.from_arrays(reference.to_arrays())
    scores: EpisodeScores = next(episode_scores(detector, normal))
    assert (again.n_episodes, again.n_segments) == (reference.n_episodes, reference.n_segments)
    np.testing.assert_allclose(again.deviation(scores), reference.deviation(scores), rtol=2e-2)
    np.testing.assert_allclose(again.health.usual, reference.health.usual, rtol=1e-6)


def test_a_reference_from_before_there_were_examples_has_the_distance_from_the_mean(
    reference: NormalReference, detector: Diagnoser, normal: Episodes
) -> None:
    arrays = {name: values for name, values in reference.to_arrays().items() if ".examples." not in name}
    before = NormalReference.from_arrays(arrays)
    squares = np.mean([before.deviation(one) ** 2 for one in episode_scores(detector, normal)], axis=0)
    assert np.median(squares) == pytest.approx(1)
    assert squares.max() < 1.001  # less where no dimension of the embedding ever moves


def test_a_reference_from_before_all_scores_were_kept_has_the_bands_it_keeps(
    reference: NormalReference, detector: Diagnoser, normal: Episodes
) -> None:
    first = ("sensor", "segment", "spatial", "contribution", "level", "embedding")
    kept = {name: values for name, values in reference.to_arrays().items() if _quantity(name) in (None, *first)}
    older = NormalReference.from_arrays(kept)
    scores = next(episode_scores(detector, normal))
    assert set(older.bands(scores)) == {"sensor", "segment", "spatial"}
    np.testing.assert_allclose(older.deviation(scores), reference.deviation(scores), rtol=2e-2)


def _quantity(array: str) -> str | None:
    """The quantity that a stored array is about; None of what is no band."""
    return array.split(".")[1] if array.endswith((".centre", ".width")) else None


def test_an_unusual_length_has_examples_of_all_moments(reference: NormalReference, detector: Diagnoser) -> None:
    values = tiny_episodes().values[0]
    (scores,) = episode_scores(detector, detector.check_input([values[:, : values.shape[1] // 2]]))
    assert len(scores.segment) != reference.n_segments
    deviation = reference.deviation(scores)
    assert deviation.shape == scores.cell.shape
    assert 0 < deviation.mean() < 5


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
def test_what_is_the_same_in_every_episode_is_not_strange_in_a_shorter_one(of_two_lengths: Episodes, seed: int) -> None:
    detector = Diagnoser.from_settings(**WIDER, seed=seed).fit(of_two_lengths)
    reference = NormalReference.fit(detector, of_two_lengths[of_two_lengths.require_labels() == 0], seed)
    assert reference.n_segments == 16
    shorter = [one for one in episode_scores(detector, of_two_lengths) if len(one.segment) == 15]
    assert len(shorter) == 20
    assert max(reference.deviation(one)[:, 1:].max() for one in shorter) < 3


def test_what_happens_once_in_many_moments_has_its_examples() -> None:
    random = np.random.default_rng(0)
    series = [random.normal(size=(2, 960 if row % 3 else 952)).astype(np.float32) for row in range(24)]
    for values in series:
        values[1] = 0
        values[1, 880:884] = 1
    episodes = Episodes.from_arrays(series, np.arange(24) % 4 == 3)
    detector = Diagnoser.from_settings(**WIDER, encoding="vanilla").fit(episodes)
    normal = episodes[episodes.require_labels() == 0]
    reference = NormalReference.fit(detector, normal)
    (scores,) = (one for one in episode_scores(detector, normal[:1]))
    assert len(scores.segment) == 119 != reference.n_segments
    assert reference.deviation(scores)[110, 1] < 3


def test_a_shorter_episode_is_made_normal_with_its_own_places_in_time(of_two_lengths: Episodes) -> None:
    detector = Diagnoser.from_settings(**WIDER).fit(of_two_lengths)
    cells = Counterfactual.of(detector, of_two_lengths[:1], detector.reference_)
    assert cells.shape == (15, 3)
    np.testing.assert_allclose(cells.normal[:, 1], cells.embedding[:, 1], atol=1e-5)  # the sensor that never moves


def test_a_reference_from_before_content_was_kept_compares_with_embeddings_of_all_moments(
    of_two_lengths: Episodes,
) -> None:
    detector = Diagnoser.from_settings(**WIDER).fit(of_two_lengths)
    arrays = detector.reference_.to_arrays()
    renamed = {name.replace(".content.", ".embedding."): values for name, values in arrays.items()}
    older = NormalReference.from_arrays(renamed)
    scores = next(episode_scores(detector, of_two_lengths[:1]))
    assert older.deviation(scores).shape == (15, 3)
    assert older.usual_embedding(scores.encoding).shape == scores.embedding.shape[1:]


def test_no_normal_episodes_are_refused(detector: Diagnoser, normal: Episodes) -> None:
    with pytest.raises(DfstransError, match="label 0"):
        NormalReference.fit(detector, normal[:0])


def test_the_course_of_normal_recordings_is_kept_and_holds_nearly_all_of_them(
    normal: Episodes, reference: NormalReference
) -> None:
    assert reference.course is not None
    low, high = np.moveaxis(reference.course.of(3), -1, 0)  # (segment, sensor)
    cells = normal.values.reshape(len(normal), 3, 3, 16)  # episode, sensor, segment, point
    inside = (cells >= low.T[..., None]) & (cells <= high.T[..., None])
    assert 0.95 < inside.mean() < 1
    again = NormalReference.from_arrays(reference.to_arrays())
    assert again.course is not None
    np.testing.assert_allclose(again.course.of(3), reference.course.of(3), rtol=1e-6)
    older = {name: array for name, array in reference.to_arrays().items() if not name.startswith("course")}
    assert NormalReference.from_arrays(older).course is None


def test_a_recording_of_another_length_is_held_against_all_moments(reference: NormalReference) -> None:
    assert reference.course is not None
    band, by_moment = reference.course.of(5), reference.course.of(3)
    assert band.shape == (5, 3, 2)
    assert (band == band[0]).all()
    assert (band[0, :, 0] <= by_moment[..., 0].max(axis=0)).all()
    assert (band[0, :, 1] >= by_moment[..., 1].min(axis=0)).all()


def test_a_moment_that_no_normal_recording_has_gets_no_band() -> None:
    values = np.arange(2 * 1 * 8, dtype=np.float32).reshape(2, 1, 8)
    values[:, :, 4:] = np.nan
    course = NormalCourse.fit(Episodes.from_arrays(values), segment_length=4, n_segments=2)
    np.testing.assert_allclose(course.of(2)[:, 0], [[0.08, 10.92], [np.nan, np.nan]])
