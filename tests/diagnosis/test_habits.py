from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.habits import Fleet

COUNTS = {"m1": 8, "m2": 6, "m3": 2}


@pytest.fixture(scope="module")
def normal() -> Episodes:
    """Three machines at their own level; sensor b of m1 always rests at its limit."""
    random = np.random.default_rng(0)
    groups = [name for name, count in COUNTS.items() for _ in range(count)]
    values = (
        random.uniform(-1, 1, size=(len(groups), 2, 80)) + 100 * np.array([int(g[1]) for g in groups])[:, None, None]
    )
    for row, group in enumerate(groups):
        if group == "m1":
            values[row, 1, : random.integers(20, 40)] = 102
    return Episodes.from_arrays(values, sensors=("a", "b"), groups=groups)


@pytest.fixture(scope="module")
def fleet(normal: Episodes) -> Fleet:
    return Fleet.fit(normal, normal, SensorScaler.fit(normal), segment_length=20, n_segments=4)


def test_a_machine_is_compared_with_its_own_recordings(fleet: Fleet) -> None:
    for name in ("m1", "m2"):
        own = fleet.of(name)
        assert (own.machine, own.recordings, own.why_all) == (name, COUNTS[name], "")
        assert np.ptp(own.course.of_length(80, 20, usual=4)) < 4
        assert np.ptp(own.course.of_length(140, 20, usual=4)) < 4


def test_a_machine_with_few_recordings_is_compared_with_all_and_it_says_why(fleet: Fleet) -> None:
    for name, why in (("m3", "fewer than 5 normal recordings of m3"), (None, "not known which machine")):
        everything = fleet.of(name)
        assert (everything.machine, everything.recordings) == ("", 16)
        assert why in everything.why_all
        assert np.ptp(everything.course.pooled) > 200


def test_without_groups_there_is_nothing_to_explain(normal: Episodes) -> None:
    one_machine = Episodes.from_arrays(normal.values)
    fleet = Fleet.fit(one_machine, one_machine, SensorScaler.fit(one_machine), segment_length=20, n_segments=4)
    assert fleet.of(None).why_all == fleet.of("m1").why_all == ""


def test_a_sensor_is_judged_by_the_habit_of_its_machine(normal: Episodes, fleet: Fleet) -> None:
    scaler, random = SensorScaler.fit(normal), np.random.default_rng(1)
    for machine, level, symptoms in (("m1", 101, []), ("m2", 201, ["clipped"]), ("m3", 301, [])):
        values = (random.uniform(-1, 0, size=(2, 80)) + level).astype(np.float32)
        values[1, ::2] = values[1, 1::2] = level + 0.5
        values[1, 60:] = level
        found = fleet.of(machine).health.examine(values, scaler)
        assert [one.symptom for one in found if one.sensor == "b" and one.symptom == "clipped"] == symptoms


def test_typical_distance_of_a_machine_is_known_over_a_recording_of_any_length(fleet: Fleet) -> None:
    habits = fleet.of("m1")
    assert (habits.typical_distance(4) == np.ones((4, 2))).all()
    recordings = [np.stack([np.repeat([3.0, 0.5], half), np.full(2 * half, 5.0)], axis=1) for half in (2, 5, 9)]
    far = habits.with_distances(recordings)
    np.testing.assert_array_equal(far.typical_distance(4), [[3, 5], [3, 5], [1, 5], [1, 5]])
    stored = Fleet.from_arrays(replace(fleet, machines={"m1": far}).to_arrays(), 16).of("m1")
    np.testing.assert_array_equal(stored.distance, far.distance)


def test_habits_survive_their_arrays(fleet: Fleet) -> None:
    again = Fleet.from_arrays(fleet.to_arrays(), 16)
    for machine in ("m1", "m2", "m3", None):
        before, after = fleet.of(machine), again.of(machine)
        assert (after.machine, after.recordings, after.why_all) == (before.machine, before.recordings, before.why_all)
        np.testing.assert_allclose(after.health.usual, before.health.usual, rtol=1e-6)
        np.testing.assert_allclose(after.course.by_segment, before.course.by_segment, rtol=1e-6)


def test_a_model_of_an_earlier_version_compares_with_all_machines_and_says_so(fleet: Fleet) -> None:
    earlier = {name: values for name, values in fleet.to_arrays().items() if not name.startswith("machine")}
    habits = Fleet.from_arrays(earlier, 16).of("m1")
    assert habits.machine == ""
    assert "train it again" in habits.why_all
