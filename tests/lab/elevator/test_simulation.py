"""Journeys as episodes: the same from the same seed, each independent of the others, with truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy.ndimage import uniform_filter1d

from dfstrans import DfstransError, Episodes, load_episodes
from dfstrans.lab.elevator import simulation
from dfstrans.lab.elevator.faults import SENSOR_FAULTS
from dfstrans.lab.elevator.journey_file import read_recipes, simulate_to_file
from dfstrans.lab.elevator.machine import NOISE, RESOLUTION, SENSOR_NAMES, SENSORS
from dfstrans.lab.elevator.settings import PRESETS, SEVERITIES, Preset, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet, simulate

SMALL: dict[str, Any] = {"normal": 3, "faulty": 3, "seed": 7, "sampling_rate": 100}
WITHOUT_FRICTION = [name for name in SENSOR_NAMES if not name.startswith("Friction")]


@pytest.fixture(scope="module")
def journeys() -> Episodes:
    return simulate(**SMALL)


def fleet_of(kind: str, **settings: Any) -> Fleet:
    return Fleet(SimulationSettings(**{"normal": 0, "faulty": 1, "faults": (kind,), "seed": 7, **settings}))


def assert_same(first: Episodes, second: Episodes) -> None:
    np.testing.assert_array_equal(np.asarray(first.values), np.asarray(second.values))
    assert (first.ids.tolist(), first.faults) == (second.ids.tolist(), second.faults)
    assert first.truth is not None
    assert second.truth is not None
    for name in ("relevance", "noise_ratio", "phases"):
        np.testing.assert_array_equal(getattr(first.truth, name), getattr(second.truth, name))


# ---- episodes -------------------------------------------------------------------------------------------------------


def test_journeys_are_labelled_episodes_with_names_units_groups_and_truth(journeys: Episodes) -> None:
    assert journeys.shape == (6, 20, 2000)
    assert journeys.sensors == SENSOR_NAMES
    assert journeys.units == tuple(sensor.unit for sensor in SENSORS)
    assert journeys.interval == 0.01
    assert journeys.require_labels().tolist() == [0, 0, 0, 1, 1, 1]
    assert journeys.groups is not None
    assert all(group.startswith("installation_") for group in journeys.groups.tolist())
    assert journeys.truth is not None
    assert journeys.truth.relevance.shape == (6, 80, 20)
    assert (journeys.truth.relevance[:3] == 0).all()
    assert journeys.truth.affected[3:].any(axis=(1, 2)).all()
    assert journeys.faults is not None
    kinds = [{fault.kind for fault in faults} for faults in journeys.faults[3:]]
    assert kinds == [{"lubrication"}, {"misalignment"}, {"bump"}]
    assert all(fault.severity is not None for faults in journeys.faults for fault in faults)


def test_a_journey_depends_on_seed_and_number_alone(journeys: Episodes) -> None:
    more = Fleet(SimulationSettings(**{**SMALL, "normal": 5, "faulty": 4}))
    for row, same in ((2, 2), (5, 3), (7, 5)):
        np.testing.assert_array_equal(more.journey(row).values, journeys.values[same])


def test_file_and_memory_hold_the_same_with_one_job_or_two(journeys: Episodes, tmp_path: Path) -> None:
    done: list[int] = []
    fleet = Fleet(SimulationSettings(**SMALL))
    path = simulate_to_file(tmp_path / "journeys.h5", fleet, jobs=2, advance=done.append)
    assert_same(load_episodes(path), journeys)
    assert sum(done) == 6
    kinds = [recipe["fault"] and recipe["fault"]["kind"] for recipe in read_recipes(path)]
    assert kinds == [None, None, None, "lubrication", "misalignment", "bump"]


def test_without_friction_sensors_the_others_are_the_same(journeys: Episodes) -> None:
    fewer = simulate(**SMALL, sensors="no-friction")
    assert fewer.sensors == tuple(WITHOUT_FRICTION)
    selected = journeys.select_sensors(WITHOUT_FRICTION)
    assert selected.faults is not None
    faults = tuple(
        tuple(fault._replace(sensors=tuple(s for s in fault.sensors if s in WITHOUT_FRICTION)) for fault in found)
        for found in selected.faults
    )
    assert_same(fewer, replace(selected, faults=faults))


def test_a_slower_recording_is_the_same_journey(journeys: Episodes) -> None:
    fast = simulate(normal=1, faulty=0, seed=7)
    assert fast.shape == (1, 20, 8000)
    averaged = np.asarray(fast.values)[0].reshape(20, 2000, 4).mean(axis=2)
    assert (np.abs(averaged - journeys.values[0]).mean(axis=1) < 2 * NOISE).all()


@pytest.mark.parametrize("row", [-1, 2, 5])
def test_a_row_without_a_journey_is_refused(row: int) -> None:
    fleet = Fleet(SimulationSettings(normal=2, faulty=0))
    for ask in (fleet.journey, fleet.trip, fleet.fault):
        with pytest.raises(DfstransError, match=f"from 0 to 1, got {row}"):
            ask(row)


def test_only_some_of_many_installations_stay_in_memory() -> None:
    simulation._member.cache_clear()
    fleet = Fleet(SimulationSettings(normal=200, faulty=0, installations=1_000_000))
    numbers = {fleet.trip(row).installation for row in range(200)}
    assert len(numbers) == 200
    for number in numbers:
        fleet.member(number)
    assert simulation._member.cache_info().currsize <= 64
    simulation._member.cache_clear()


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SEVERITIES)
def test_every_kind_of_fault_gives_a_finite_journey_that_differs(kind: str) -> None:
    journey = fleet_of(kind).journey(0)
    assert np.isfinite(journey.values).all()
    assert np.abs(journey.clean - journey.twin).max() > 0
    assert journey.relevance.max() >= 1


def test_the_noise_ratio_is_the_change_relative_to_the_noise() -> None:
    fleet = fleet_of("demagnetisation", normal=1)
    assert (fleet.journey(0).noise_ratio == 0).all()
    journey = fleet.journey(1)
    iq = SENSOR_NAMES.index("Iq")
    change = uniform_filter1d((journey.clean - journey.twin)[:, iq], 5, mode="nearest").reshape(80, 100)
    np.testing.assert_allclose(journey.noise_ratio[:, iq], np.sqrt((change**2).mean(axis=1)) / 0.10, rtol=1e-5)
    assert journey.noise_ratio[:, iq].max() > 3
    assert (journey.relevance <= 1.001 * journey.noise_ratio + 1e-6).all()  # the scale is never below the noise


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("kind", ["bump", "demagnetisation"])
def test_twins_have_the_same_noise_and_differ_only_by_the_fault(kind: str) -> None:
    faulty, sound = fleet_of(kind, seed=4).journey(0), fleet_of(kind, seed=4, severity=0).journey(0)
    np.testing.assert_array_equal(sound.clean, faulty.twin)
    changed = np.flatnonzero((faulty.clean != faulty.twin).any(axis=1))
    assert 100 <= changed[0] < 7900
    np.testing.assert_array_equal(faulty.values[:, : changed[0]], sound.values[:, : changed[0]])
    # the measurements differ by the clean change, its calibration error, and rounding twice
    change = (faulty.clean - faulty.twin).T
    difference = faulty.values.astype(float) - sound.values
    tolerance = 1.001 * RESOLUTION[:, None] + 0.1 * np.abs(change) + 1e-5 * abs(sound.values)
    assert (np.abs(difference - change) <= tolerance).all()


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("rate", [400, 100, 20])
def test_stuck_sensor_repeats_its_value_from_the_true_onset(rate: int) -> None:
    options: dict[str, Any] = {"faulty": 6, "sampling_rate": rate, "seed": 0}
    stuck, sound = fleet_of("sensor-stuck", **options), fleet_of("sensor-stuck", **options, severity=0)
    for row in range(6):
        journey, twin = stuck.journey(row), sound.journey(row)
        (found,) = journey.faults
        assert found.stop == 20 * rate
        column = SENSOR_NAMES.index(found.sensors[0])
        np.testing.assert_array_equal(journey.values[column, : found.start + 1], twin.values[column, : found.start + 1])
        np.testing.assert_array_equal(journey.values[column, found.start :], twin.values[column, found.start])
        assert (journey.relevance[: found.start // (rate // 4)] == 0).all()


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("sensors", ["all", "no-friction"])
@pytest.mark.parametrize("seed", [0, 1])
def test_sensor_fault_names_only_that_sensor(sensors: str, seed: int) -> None:
    fleet = Fleet(SimulationSettings(normal=0, faulty=6, faults=SENSOR_FAULTS, seed=seed, sensors=sensors))
    for _, journey in fleet.journeys(range(6)):
        (found,) = journey.faults
        assert found.sensors == (journey.recipe["fault"]["sensor"],)
        others = [column for column, name in enumerate(journey.sensors) if name not in found.sensors]
        assert (journey.relevance[:, others] == 0).all()
        assert journey.relevance.max() > 0


def test_without_friction_sensors_a_recorded_sensor_is_faulty() -> None:
    def faulty_sensors(sensors: str) -> list[str]:
        fleet = fleet_of("sensor-stuck", faulty=120, seed=0, sensors=sensors)
        return [fault.sensor for row in range(120) if (fault := fleet.fault(row))]

    fewer, whole = faulty_sensors("no-friction"), faulty_sensors("all")
    assert sum(name.startswith("Friction") for name in whole) == 11
    assert set(fewer) == set(WITHOUT_FRICTION)
    assert all(one == other for one, other in zip(fewer, whole, strict=True) if other in WITHOUT_FRICTION)


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"installations": 0}, "installations"),
        ({"n_timepoints": 4000}, "at least 19.1 s"),
        ({"n_timepoints": 8001}, "multiple of 100"),
        ({"sampling_rate": 300}, r"\(400, 200, 100, 80, 40, 20, 16, 8, 4\), got 300"),
        ({"sampling_rate": 25}, "whole segments"),
        ({"sensors": "Az"}, "sensors"),
        ({"faults": ("rust",)}, "lubrication, misalignment"),
        ({"faults": ()}, "none"),
        ({"faults": ("lubricaton",)}, "did you mean lubrication?"),
        ({"faults": ("bump,inductance",)}, "separately"),
        ({"faults": 5}, "faults to be a list, got 5"),
        ({"severity": (-1.0, 1.0)}, "severity"),
        ({"severity": (2.0, 1.0)}, "got 2 to 1; swap them"),
        ({"severity": (1.0, 2.0, 3.0)}, r"two numbers \(from, to\), got \(1.0, 2.0, 3.0\)"),
        ({"severity": "12"}, r"two numbers \(from, to\), got '12'"),
        ({"severity": (0.5, float("nan"))}, "finite numbers of 0 or more, got 0.5 to nan"),
        ({"faults": ("demagnetisation",), "severity": (0.1, 0.9)}, "at most 0.35"),
        ({"faults": ("sensor-gain",), "severity": (1.0, 1e9)}, r"at most 10 for sensor-gain, got 1e\+09"),
        ({"faults": ("sensor-drift",), "severity": (1.0, 51.0)}, "at most 50 for sensor-drift"),
        ({"faults": ("sensor-stuck",), "severity": (0.0, 2.0)}, "at most 1 for sensor-stuck"),
        ({"shortest": 8, "longest": 6}, "at most 6 floors, got shortest=8"),
        ({"normal": 0, "faulty": 0}, "at least one journey, got normal=0 and faulty=0"),
        ({"n_normal": 1}, "n_normal"),
        ({"preset": "big"}, "preset to be paper, full, small, got 'big'"),
        ({"jobs": 0}, "jobs to be at least 1, got 0"),
    ],
)
def test_an_impossible_request_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        simulate(**{"normal": 1, "faulty": 1, **wrong})


def test_a_single_kind_and_a_single_severity_are_accepted() -> None:
    settings = SimulationSettings(faults="bump", severity=2)  # type: ignore[arg-type]
    assert (settings.faults, settings.severity) == (("bump",), (2.0, 2.0))


@pytest.mark.parametrize(("rate", "points"), [(400, 8000), (100, 2000), (16, 320)])
def test_a_recording_lasts_twenty_seconds_by_default(rate: int, points: int) -> None:
    assert SimulationSettings(sampling_rate=rate).n_timepoints == points
    assert SimulationSettings.of("small", {"sampling_rate": rate}).n_timepoints == points
    assert SimulationSettings(sampling_rate=rate, n_timepoints=2 * points).n_timepoints == 2 * points


def test_presets_have_the_sizes_in_the_document() -> None:
    paper, small = SimulationSettings.of("paper", {}), SimulationSettings.of("small", {"seed": 3})
    assert (paper.normal, paper.faulty, paper.sampling_rate, paper.n_timepoints) == (10_400, 387, 400, 8000)
    assert (small.normal, small.faulty, small.sampling_rate, small.n_timepoints) == (1000, 120, 100, 2000)
    assert small.seed == 3
    assert get_args(Preset) == tuple(PRESETS)


@pytest.mark.usefixtures("few_pairs")
def test_faults_without_severity_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="severity of or near 0"):
        simulate(normal=0, faulty=1, severity=(0.0, 1.0))
