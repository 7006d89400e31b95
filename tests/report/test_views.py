from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfstrans.diagnosis.scores import AttentionTrust
from dfstrans.report.views import (
    between_sensors,
    chosen_moments,
    lanes,
    range_times,
    relevance_courses,
    shaded,
    signals,
    thinned,
    trust_boxes,
)
from tests.report.drawn import made_diagnosis


def test_thinning_keeps_extreme_values_in_place() -> None:
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
    short = thinned(np.arange(5.0), step=2.0, most=5)
    np.testing.assert_array_equal(short.time, [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(short.values, np.arange(5.0))


def test_the_first_signal_is_the_top_ranked_sensor_with_its_normal_range() -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 0))
    first = signals(diagnosis, recording)[0]
    assert first.title == "S0 [m]"
    np.testing.assert_array_equal(first.line.values, recording.episode.values[0])
    np.testing.assert_array_equal(first.normal_range, [[-2, 2]] * 8)
    np.testing.assert_array_equal(range_times(diagnosis), [0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30])
    assert first.nearest is not None
    bare = signals(replace(diagnosis, normal_range=None), replace(recording, nearest=None))[0]
    assert (bare.normal_range, bare.nearest) == (None, None)


def test_neighbouring_moments_are_shaded_as_one() -> None:
    deviation = np.ones((6, 4))
    deviation[[1, 4, 5], 0] = [7, 9, 8]
    assert shaded(replace(made_diagnosis()[0], deviation=deviation)) == [(20.0, 30.0)]


@pytest.mark.parametrize(
    ("values", "red"),
    [
        ([7, 1, 1, 9, 1, 8], [3, 5]),  # 8 + 7 beyond normal are more than half of 21
        ([2, 2, 2, 2, 2, 2], [0, 1, 2]),
        ([40, 2, 2, 2, 2, 2], [0]),
        ([9, 2, 2, 2, 2, 6], [0, 5]),
        ([5, 1.5, 1.5, 1.5, 1.5, 3.5], [0, 5]),
        ([0.9, 0.8, 0.9, 0.5, 0.5, 0.5], [0]),  # nothing is beyond normal
    ],
)
def test_the_fewest_moments_that_carry_half_of_the_evidence_are_red(values: list[float], red: list[int]) -> None:
    diagnosis = replace(made_diagnosis()[0], deviation=np.array(values)[:, None] * np.ones(4))
    assert sorted(one.segment for one in diagnosis.marked_segments) == red
    drops = replace(diagnosis, occlusion=np.array(values)[:, None] - np.array([1, 1.2, 1.2, 1.2]))
    assert sorted(one.segment for one in drops.marked_segments) == red


def test_every_sensor_stays_in_its_lane() -> None:
    _, recording = made_diagnosis()
    recording.episode.values[2] = np.nan
    recording.episode.values[3] = 4.0
    found = lanes(recording)
    for lane in (0, 1):
        assert (found[lane].values.min(), found[lane].values.max()) == pytest.approx((-lane, 0.9 - lane))
    assert np.isnan(found[2].values).all()
    np.testing.assert_array_equal(found[3].values, -3)


def test_chosen_moments_are_the_two_top_ranked_and_the_last_ranked() -> None:
    deviation = np.array([[5.0], [1], [2], [9], [3], [4]]) * np.ones(4)
    chosen = chosen_moments(replace(made_diagnosis()[0], deviation=deviation))
    assert chosen == {3: "segment 3: 15 – 20 s", 0: "segment 0: 0 – 5 s", 1: "segment 1: 5 – 10 s"}


def test_a_view_of_one_segment_has_its_attention_and_band() -> None:
    diagnosis, _ = made_diagnosis()
    view = between_sensors(diagnosis, 3)
    np.testing.assert_array_equal(view.attention, diagnosis.spatial_attention[3])
    np.testing.assert_array_equal(view.relevance, diagnosis.spatial_relevance[3])
    assert [place.tolist() for place in view.cells_beyond] == [[0], [1]]
    assert view.bars_beyond.tolist() == [True, False, False, False]


def test_relevance_over_the_signal_belongs_to_the_sensor() -> None:
    diagnosis, recording = made_diagnosis()
    (course,) = relevance_courses([(diagnosis, recording)], "S2")
    np.testing.assert_array_equal(course.relevance, diagnosis.temporal_relevance[2])
    np.testing.assert_allclose(course.edge, course.relevance + 0.05)
    np.testing.assert_allclose(course.centre, [2.5, 7.5, 12.5, 17.5, 22.5, 27.5])
    np.testing.assert_array_equal(course.line.values, recording.episode.values[2])


def test_trust_boxes_are_split_by_kind_of_fault() -> None:
    top = np.array([[1.0, 2], [3, 4], [5, 6]])
    trust = AttentionTrust(np.array([1.0, 5]), top, -top, np.stack([top, top + 2], axis=-1))
    boxes = trust_boxes(trust, ["bump", "", "bump"])
    assert list(boxes) == ["", "bump"]
    np.testing.assert_array_equal(boxes["bump"]["top"], [[1, 2], [5, 6]])
    np.testing.assert_array_equal(boxes[""]["random"], [[4, 5]])
    np.testing.assert_array_equal(boxes[""]["bottom"], [[-3, -4]])
