"""What pictures of a diagnosis show, as numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfstrans.diagnosis.trust import AttentionTrust
from dfstrans.errors import DfstransError
from dfstrans.report.views import (
    chosen_moments,
    edge_beside,
    lanes,
    relevance_courses,
    shaded,
    signals,
    thinned,
    trust_boxes,
)
from tests.report.drawn import made_diagnosis


def test_thinning_keeps_the_largest_and_the_smallest_value_in_their_place() -> None:
    values = np.zeros(8003)
    values[1234], values[4321] = 5.0, -7.0
    line = thinned(values, step=0.0025, most=1600)
    assert len(line.values) <= 1600
    assert (line.values.max(), line.values.min()) == (5.0, -7.0)
    assert line.time[line.values.argmax()] == pytest.approx(1234 * 0.0025, abs=0.02)
    assert line.time[line.values.argmin()] == pytest.approx(4321 * 0.0025, abs=0.02)


def test_thinning_worked_by_hand() -> None:
    line = thinned(np.array([1, 9, 3, 4, np.nan, 5, 2, 8]), step=1.0, most=4)
    np.testing.assert_array_equal(line.values, [1, 9, 2, 8])
    np.testing.assert_allclose(line.time, [0.5, 2.5, 4.5, 6.5])  # two in each stretch of four points


def test_a_short_signal_is_kept_as_it_is() -> None:
    values = np.arange(5.0)
    np.testing.assert_array_equal(thinned(values, step=2.0, most=5).time, [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(thinned(values, step=2.0, most=5).values, values)


def test_the_first_signal_is_the_first_of_the_ranking_with_what_is_usual() -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 0))
    first = signals(diagnosis, recording)[0]
    assert first.title == "S0 [m]"
    np.testing.assert_array_equal(first.line.values, recording.episode.values[0])
    assert first.usual is not None
    np.testing.assert_allclose(first.usual.edges, np.arange(7) * 5.0)
    assert first.nearest is not None


def test_without_a_reference_or_a_normal_recording_only_the_signal_is_left() -> None:
    diagnosis, recording = made_diagnosis()
    first = signals(replace(diagnosis, usual_course=None), replace(recording, nearest=None))[0]
    assert first.usual is None
    assert first.nearest is None


def test_neighbouring_moments_are_shaded_as_one() -> None:
    diagnosis, _ = made_diagnosis()
    deviation = np.ones((6, 4))
    deviation[[1, 4, 5], 0] = [7, 9, 8]
    assert shaded(replace(diagnosis, deviation=deviation)) == [(5.0, 10.0), (20.0, 30.0)]


def test_every_lane_stays_in_its_own_place() -> None:
    _, recording = made_diagnosis()
    recording.episode.values[2] = np.nan
    recording.episode.values[3] = 4.0
    found = lanes(recording)
    for lane in (0, 1):
        assert (found[lane].values.min(), found[lane].values.max()) == pytest.approx((-lane, 0.9 - lane))
    assert np.isnan(found[2].values).all()
    np.testing.assert_array_equal(found[3].values, -3)


def test_moments_to_show_are_the_strangest_two_and_a_quiet_one_or_those_asked_for() -> None:
    diagnosis, _ = made_diagnosis(strange=(3, 1))
    chosen = list(chosen_moments(diagnosis))
    assert chosen[0] == 3
    assert chosen[-1] == diagnosis.deviation.max(axis=1).argmin()
    assert chosen_moments(diagnosis, [5]) == {5: "segment 5: 25 – 30 s"}
    with pytest.raises(DfstransError, match="segments from 0 to 5, got 6"):
        chosen_moments(diagnosis, [6])


def test_relevance_over_the_signal_is_the_sensors_own() -> None:
    diagnosis, recording = made_diagnosis()
    (course,) = relevance_courses([(diagnosis, recording)], "S2")
    np.testing.assert_array_equal(course.relevance, diagnosis.temporal_relevance[2])
    np.testing.assert_allclose(course.centre, [2.5, 7.5, 12.5, 17.5, 22.5, 27.5])
    with pytest.raises(DfstransError, match="'Nobody'"):
        relevance_courses([(diagnosis, recording)], "Nobody")


def test_the_edge_beside_several_courses_is_that_of_the_length_most_have() -> None:
    usual, other = made_diagnosis(n_segments=6), made_diagnosis(n_segments=9)
    courses = relevance_courses([other, usual, usual], "S1")
    time, edge = edge_beside(courses)
    np.testing.assert_array_equal(time, courses[1].centre)
    np.testing.assert_array_equal(edge, courses[1].edge)
    unknown = [course._replace(edge=np.full_like(course.edge, np.nan)) for course in courses]
    assert len(edge_beside(unknown)[1]) == 0


def test_trust_boxes_are_split_by_kind_of_fault() -> None:
    top = np.array([[1.0, 2], [3, 4], [5, 6]])
    trust = AttentionTrust(np.array([1.0, 5]), top, -top, np.stack([top, top + 2], axis=-1))
    boxes = trust_boxes(trust, ["bump", "", "bump"])
    assert list(boxes) == ["", "bump"]
    np.testing.assert_array_equal(boxes["bump"]["top"], [[1, 2], [5, 6]])
    np.testing.assert_array_equal(boxes[""]["random"], [[4, 5]])
    np.testing.assert_array_equal(boxes[""]["bottom"], [[-3, -4]])
