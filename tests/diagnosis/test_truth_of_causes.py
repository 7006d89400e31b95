"""What is known of causes: from faults, from graded truth, and from the blamed sensors of the server machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.truth import GradedTruth
from dfstrans.diagnosis.metrics import KnownCause, known_causes, measure
from dfstrans.diagnosis.metrics.rankings import hit_rate
from dfstrans.errors import DfstransError


def episodes(*faults: list[Fault], truth: GradedTruth | None = None) -> Episodes:
    """Three sensors, 25 points each."""
    ids = [f"run_{row}" for row in range(len(faults))]
    return Episodes.from_arrays(
        np.zeros((len(faults), 3, 25)), ids=ids, sensors=["a", "b", "c"], faults=faults, truth=truth
    )


def known(*faults: Fault) -> KnownCause:
    (cause,) = known_causes(episodes(list(faults)), segment_length=10)
    return cause


def test_fault_sensors_are_relevant_in_the_segments_they_touch() -> None:
    cause = known(Fault(8, 12, ("a",), "bump"), Fault(10, 13, ("c",)))
    assert (cause.episode_id, cause.kind) == ("run_0", "bump")
    np.testing.assert_array_equal(cause.cells, [[True, False, False], [True, False, True], [False, False, False]])
    np.testing.assert_array_equal(cause.sensors, [True, False, True])
    assert cause.segments.tolist() == [True, True, False]
    assert (cause.faulty_points.tolist(), cause.points.tolist()) == ([2, 3, 0], [10, 10, 5])
    assert (cause.relevance, cause.sensor_relevance, cause.segment_relevance) == (None, None, None)


def test_fault_without_sensors_only_scores_segments() -> None:
    cause = known(Fault(8, 12, ("a",)), Fault(20, 99))
    assert (cause.sensors, cause.cells) == (None, None)
    assert cause.segments.tolist() == [True, True, True]


def test_episode_without_faults_has_no_relevant_cells() -> None:
    cause = known()
    np.testing.assert_array_equal(cause.cells, np.zeros((3, 3)))
    assert not cause.segments.any()


def test_graded_truth_is_relevant_from_one() -> None:
    cells = np.array([[[0.5, 0, 0], [2, 0.9, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0.2]]], dtype=np.float16)
    truth = GradedTruth(5, cells, np.zeros((1, 5), np.int8), ("rest",))
    whole = episodes([Fault(0, 25, ("b",), "rust")], truth=truth)
    (cause,) = known_causes(whole, segment_length=10)
    assert cause.kind == "rust"
    np.testing.assert_allclose(cause.relevance, [[2, 0.9, 0], [1, 0, 0], [0, 0, 0.2]], atol=1e-3)
    np.testing.assert_array_equal(cause.cells, whole.fault_cells(0, 10))
    np.testing.assert_array_equal(cause.sensors, [True, False, False])
    np.testing.assert_array_equal(cause.faulty_points, [5, 5, 0])
    np.testing.assert_allclose(cause.sensor_relevance, [2, 0.9, 0.2], atol=1e-3)
    np.testing.assert_allclose(cause.segment_relevance, [2, 1, 0.2], atol=1e-3)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(0, 5, ("a", "d", "e")), "sensors a, b, c, got unknown sensors in episode 'run_0': d, e"),
        (Fault(-3, 5, ("a",)), "25 points of episode 'run_0', got one from -3 to 5"),
        (Fault(5, 5, ("a",)), "25 points of episode 'run_0', got one from 5 to 5"),
        (Fault(25, 30, ("a",)), "25 points of episode 'run_0', got one from 25 to 30"),
    ],
)
def test_unknown_sensors_and_windows_outside_their_episode_are_named(fault: Fault, message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        known(fault)


def test_episodes_whose_causes_are_not_known_are_refused() -> None:
    with pytest.raises(DfstransError, match="neither faults nor graded truth"):
        known_causes(Episodes.from_arrays(np.zeros((1, 3, 25))), 10)


@pytest.mark.slow
def test_all_anomalous_server_episodes_but_one_name_sensors(smd_folder: Path) -> None:
    whole = load_episodes(smd_folder, length=500, stride=500)
    anomalous = whole[whole.require_labels() == 1]
    causes = known_causes(anomalous, segment_length=50)
    assert anomalous.faults is not None
    for cause, faults in zip(causes, anomalous.faults, strict=True):
        assert cause.sensors is not None
        named = {name for fault in faults for name in fault.sensors}
        assert {name for name, bad in zip(whole.sensors, cause.sensors, strict=True) if bad} == named
    by_episode = {cause.episode_id: cause.sensors for cause in causes if cause.sensors is not None}
    assert chance_of_hit_rates(by_episode) == pytest.approx((0.206, 0.295), abs=0.001)
    by_anomaly = {
        f"{name} {fault.start}": np.isin(whole.sensors, fault.sensors)
        for name, faults in zip(anomalous.ids, anomalous.faults, strict=True)
        for fault in faults
    }
    assert (len(by_anomaly), len(whole.sensors)) == (321, 38)
    assert chance_of_hit_rates(by_anomaly) == pytest.approx((0.19, 0.27), abs=0.005)


def chance_of_hit_rates(truths: dict[str, npt.NDArray[np.bool_]]) -> tuple[float | None, float | None]:
    """At 100 % and at 150 %; at most one truth blames nothing."""
    constant = [np.zeros(len(truth)) for truth in truths.values()]
    found = [
        measure(partial(hit_rate, percent=percent), list(truths), constant, list(truths.values()))
        for percent in (100, 150)
    ]
    assert len(found[0].skipped) <= 1
    return found[0].chance, found[1].chance
