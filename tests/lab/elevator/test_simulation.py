from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.ndimage import uniform_filter1d

from dfstrans import DfstransError, Episodes, load_episodes
from dfstrans.lab.elevator import simulation
from dfstrans.lab.elevator import simulation as simulated
from dfstrans.lab.elevator.growing_file import begun, read_recipes
from dfstrans.lab.elevator.sensors import NAMES, UNITS
from dfstrans.lab.elevator.settings import PRESETS, SEVERITIES, Preset, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet, simulate, simulate_to_file


@pytest.fixture(scope="module")
def journeys() -> Episodes:
    return simulate(3, 3, seed=7, sampling_rate=100, n_timepoints=2000)


def assert_same(first: Episodes, second: Episodes) -> None:
    np.testing.assert_array_equal(np.asarray(first.values), np.asarray(second.values))
    assert (first.ids.tolist(), first.faults) == (second.ids.tolist(), second.faults)
    assert first.truth is not None
    assert second.truth is not None
    np.testing.assert_array_equal(first.truth.relevance, second.truth.relevance)
    assert first.truth.noise_ratio is not None
    assert second.truth.noise_ratio is not None
    np.testing.assert_array_equal(first.truth.noise_ratio, second.truth.noise_ratio)


def test_journeys_are_labelled_episodes_with_names_units_groups_and_truth(journeys: Episodes) -> None:
    assert journeys.shape == (6, 20, 2000)
    assert (journeys.sensors, journeys.units, journeys.interval) == (NAMES, UNITS, 0.01)
    assert journeys.require_labels().tolist() == [0, 0, 0, 1, 1, 1]
    assert journeys.groups is not None
    assert all(group.startswith("installation_") for group in journeys.groups.tolist())
    assert journeys.truth is not None
    assert journeys.truth.relevance.shape == (6, 80, 20)
    assert (journeys.truth.relevance[:3] == 0).all()
    assert journeys.truth.affected[3:].any(axis=(1, 2)).all()
    assert journeys.faults is not None
    assert [{fault.kind for fault in faults} for faults in journeys.faults[3:]] == [
        {"lubrication"},
        {"misalignment"},
        {"bump"},
    ]
    assert all(fault.severity is not None for faults in journeys.faults for fault in faults)


def test_truth_tells_how_far_a_change_stands_out_of_the_noise() -> None:
    fleet = Fleet(SimulationSettings(normal=1, faulty=1, faults=("demagnetisation",), seed=7))
    assert (fleet.journey(0).noise_ratio == 0).all()
    journey = fleet.journey(1)
    iq = NAMES.index("Iq")
    change = uniform_filter1d((journey.clean - journey.twin)[:, iq], 5, mode="nearest").reshape(80, 100)
    np.testing.assert_allclose(journey.noise_ratio[:, iq], np.sqrt((change**2).mean(axis=1)) / 0.10, rtol=1e-5)
    assert journey.noise_ratio[:, iq].max() > 3  # a tenth of an ampere is the noise
    assert (journey.relevance <= 1.001 * journey.noise_ratio + 1e-6).all()  # the scale is never below the noise


def test_a_journey_does_not_depend_on_how_many_others_there_are(journeys: Episodes) -> None:
    more = simulate(5, 4, seed=7, sampling_rate=100, n_timepoints=2000)
    np.testing.assert_array_equal(more.values[:3], journeys.values[:3])
    np.testing.assert_array_equal(more.values[5:8], journeys.values[3:])


def test_a_journey_is_made_again_from_seed_and_number(journeys: Episodes) -> None:
    settings = SimulationSettings(normal=3, faulty=3, seed=7, sampling_rate=100, n_timepoints=2000)
    again = Fleet(settings).journey(5)
    np.testing.assert_array_equal(again.values, journeys.values[5])


def test_file_and_memory_hold_the_same_whatever_the_number_of_jobs(journeys: Episodes, tmp_path: Path) -> None:
    settings = SimulationSettings(normal=3, faulty=3, seed=7, sampling_rate=100, n_timepoints=2000)
    done: list[int] = []
    path = simulate_to_file(tmp_path / "journeys.h5", Fleet(settings), jobs=2, advance=done.append)
    assert_same(load_episodes(path), journeys)
    assert sum(done) == 6
    recipes = read_recipes(path)
    assert [recipe["fault"] and recipe["fault"]["kind"] for recipe in recipes] == [
        None,
        None,
        None,
        "lubrication",
        "misalignment",
        "bump",
    ]


def test_without_friction_sensors_the_others_are_the_same(journeys: Episodes) -> None:
    fewer = simulate(3, 3, seed=7, sampling_rate=100, n_timepoints=2000, sensors="no-friction")
    kept = [name for name in NAMES if not name.startswith("Friction")]
    assert fewer.sensors == tuple(kept)
    assert_same(fewer, _without_friction(journeys, kept, fewer))


def _without_friction(journeys: Episodes, kept: list[str], fewer: Episodes) -> Episodes:
    """The same journeys; of the faults' sensors those that are still there."""
    from dataclasses import replace

    selected = journeys.select_sensors(kept)
    assert selected.faults is not None
    faults = tuple(
        tuple(fault._replace(sensors=tuple(name for name in fault.sensors if name in kept)) for fault in found)
        for found in selected.faults
    )
    return replace(selected, faults=faults)


def test_a_slower_recording_is_the_same_journey(journeys: Episodes) -> None:
    fast = simulate(1, 0, seed=7)
    assert fast.shape == (1, 20, 8000)
    slow = journeys.values[0]
    averaged = np.asarray(fast.values)[0].reshape(20, 2000, 4).mean(axis=2)
    difference = np.abs(averaged - slow).mean(axis=1)
    noise = np.array(
        [0.05, *[0.015] * 3, 15, 15, 8, 8, 40, 0.1, 0.1, 0.004, 5e-4, 0.004, 0.003, 0.003, 0.8, 0.8, 1e-3, 1e-3]
    )
    assert (difference < 2 * noise).all()


@pytest.mark.parametrize("kind", SEVERITIES)
def test_every_kind_of_fault_gives_a_finite_journey_that_differs(kind: str) -> None:
    fleet = Fleet(SimulationSettings(normal=0, faulty=1, faults=(kind,), seed=7))
    journey = fleet.journey(0)
    assert np.isfinite(journey.values).all()
    assert np.abs(journey.clean - journey.twin).max() > 0
    assert journey.relevance.max() >= 1


def test_a_stuck_sensor_repeats_what_it_measured_and_its_truth_says_since_when() -> None:
    settings = SimulationSettings(normal=0, faulty=1, faults=("sensor-stuck",), seed=7)
    journey = Fleet(settings).journey(0)
    (fault,) = journey.faults
    column = NAMES.index(journey.recipe["fault"]["sensor"])
    assert fault.sensors == (NAMES[column],)
    assert fault.stop == settings.n_timepoints
    assert (journey.values[column, fault.start :] == journey.values[column, fault.start]).all()
    assert not (journey.values[column, : fault.start] == journey.values[column, fault.start]).all()
    assert (journey.relevance[: fault.start // 100] == 0).all()


def test_without_friction_sensors_it_is_a_recorded_sensor_that_errs() -> None:
    def sensor_of(sensors: str, row: int) -> str:
        settings = SimulationSettings(normal=0, faulty=120, faults=("sensor-stuck",), seed=0, sensors=sensors)
        fault = Fleet(settings).fault(row)
        assert fault is not None
        return fault.sensor

    fewer, whole = ([sensor_of(sensors, row) for row in range(120)] for sensors in ("no-friction", "all"))
    assert sum(name.startswith("Friction") for name in whole) == 11
    assert set(fewer) == {name for name in NAMES if not name.startswith("Friction")}
    kept = [(one, other) for one, other in zip(fewer, whole, strict=True) if not other.startswith("Friction")]
    assert all(one == other for one, other in kept)


def test_a_faulty_journey_without_friction_sensors_differs_from_a_sound_one() -> None:
    options = {"normal": 0, "faulty": 26, "faults": ("sensor-stuck",), "seed": 0, "sensors": "no-friction"}
    faulty = Fleet(SimulationSettings(**options)).journey(24)
    sound = Fleet(SimulationSettings(**options, severity=(0.0, 0.0))).journey(24)
    assert not np.array_equal(faulty.values, sound.values)
    assert faulty.relevance.max() >= 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"installations": 0}, "installations"),
        ({"n_timepoints": 4000}, "at least 19.1 s"),
        ({"severity": (-1.0, 1.0)}, "severity"),
        ({"severity": (2.0, 1.0)}, "from the smaller to the larger, got 2 to 1; exchange them"),
        ({"faults": ("demagnetisation",), "severity": (0.1, 0.9)}, "at most 0.35"),
        ({"sensors": "Az"}, "sensors"),
        ({"faults": ("rust",)}, "lubrication, misalignment"),
        ({"faults": ()}, "none"),
        ({"sampling_rate": 300}, r"divides 400 Hz .*\(400, 200, 100, 80, 40, 20, 16, 8, 4\), got 300"),
        ({"sampling_rate": 25}, "whole segments of 0.25 s"),
        ({"sampling_rate": 0}, "got 0"),
        ({"n_timepoints": 8001}, "multiple of 100"),
        ({"shortest": 8, "longest": 6}, "at most 6 floors, got shortest=8; lower shortest, too"),
        ({"longest": 12}, "longest"),
        ({"n_normal": 0, "n_faulty": 0}, "at least one journey, got n_normal=0 and n_faulty=0"),
        ({"n_normal": -1}, "n_normal to be a whole number from 0 to 10,000,000, got -1"),
        ({"n_faulty": 1.5}, r"n_faulty to be a whole number .*, got 1\.5"),
        ({"n_faulty": 10**9}, "n_faulty to be a whole number .*, got 1000000000"),
        ({"preset": "big"}, "preset to be paper or small, got 'big'"),
        ({"faults": ("lubricaton",)}, "did you mean lubrication?"),
        ({"faults": ("bump,inductance",)}, "name some of them, each by itself"),
        ({"faults": 5}, "faults to be a list, got 5"),
        ({"severity": (1.0, 2.0, 3.0)}, r"severity as two numbers \(from, to\), got \(1.0, 2.0, 3.0\)"),
        ({"severity": "12"}, r"severity as two numbers \(from, to\), got '12'"),
        ({"severity": (0.5, float("nan"))}, "severity as finite numbers of 0 or more, got 0.5 to nan"),
        ({"jobs": 0}, "jobs to be at least 1, got 0"),
        ({"installations": 10**7}, "installations"),
        ({"faults": ("sensor-gain",), "severity": (1.0, 1e9)}, r"at most 10 for sensor-gain, got 1e\+09"),
        ({"faults": ("sensor-drift",), "severity": (1.0, 51.0)}, "at most 50 for sensor-drift"),
        ({"faults": ("sensor-stuck",), "severity": (0.0, 2.0)}, "at most 1 for sensor-stuck"),
    ],
)
def test_an_impossible_request_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        simulate(**{"n_normal": 1, "n_faulty": 1, **wrong})  # type: ignore[arg-type]


MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
from dfstrans.lab.elevator import Fleet, Journey, SimulationSettings, simulate_to_file

def made(fleet, row):
    nothing = np.empty((0, 0))
    values, relevance = np.full((20, 8000), row, np.float32), np.zeros((80, 20), np.float16)
    ratio, phases = relevance.astype(np.float32), np.zeros(80, np.int8)
    return Journey(fleet.sensors, values, nothing, nothing, relevance, ratio, phases, (), 1, {})

Fleet.journey = made
peaks = []
for n in (40, 240):
    simulate_to_file(Path(sys.argv[1]) / f"{n}.h5", Fleet(SimulationSettings(normal=n, faulty=0)))
    peaks.append(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
print(peaks[1] - peaks[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to tell how much memory was in use")
def test_journeys_that_are_written_do_not_stay_in_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 30_000  # kB; 200 more journeys are 128 000 kB


def test_a_count_under_another_name_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'normal'"):
        simulate(normal=5)  # type: ignore[call-arg]


def test_a_single_kind_and_a_single_severity_stand_for_themselves() -> None:
    settings = SimulationSettings(faults="bump", severity=2)  # type: ignore[arg-type]
    assert settings.faults == ("bump",)
    assert settings.severity == (2.0, 2.0)


@pytest.mark.parametrize(("rate", "points"), [(400, 8000), (100, 2000), (16, 320)])
def test_a_recording_lasts_twenty_seconds_unless_it_is_said_otherwise(rate: int, points: int) -> None:
    assert SimulationSettings(sampling_rate=rate).n_timepoints == points
    assert SimulationSettings.of("small", {"sampling_rate": rate}).n_timepoints == points
    assert SimulationSettings(sampling_rate=rate, n_timepoints=2 * points).n_timepoints == 2 * points


def test_presets_are_of_the_sizes_that_the_document_says() -> None:
    paper, small = SimulationSettings.of("paper", {}), SimulationSettings.of("small", {"seed": 3})
    assert (paper.normal, paper.faulty, paper.sampling_rate, paper.n_timepoints) == (10_400, 387, 400, 8000)
    assert (small.normal, small.faulty, small.sampling_rate, small.n_timepoints) == (1000, 120, 100, 2000)
    assert small.seed == 3
    assert get_args(Preset) == tuple(PRESETS)


@pytest.mark.usefixtures("few_pairs")
def test_faults_of_no_severity_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="severity of 0, or near it, journeys that are labelled faulty"):
        simulate(0, 1, severity=(0.0, 1.0))


# ---- what stands at the path ----------------------------------------------------------------------------------------

NORMAL = {"normal": 2, "faulty": 0, "sampling_rate": 100}


def test_journeys_that_are_there_already_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, path = Fleet(SimulationSettings(**NORMAL)), tmp_path / "a.h5"
    assert not simulation.is_simulated(path, fleet)
    before = simulate_to_file(path, fleet).read_bytes()
    assert simulation.is_simulated(path, fleet)
    monkeypatch.setattr(Fleet, "journey", lambda *_: pytest.fail("made again"))
    done: list[int] = []
    simulate_to_file(path, fleet, advance=done.append)
    assert path.read_bytes() == before
    assert done == [2]


@pytest.mark.parametrize("content", ["another seed", "text"])
def test_something_else_at_the_path_is_replaced_only_when_it_may_be(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.h5"
    if content == "text":
        path.write_text("precious")
    else:
        simulate_to_file(path, Fleet(SimulationSettings(**NORMAL, seed=1)))
    before, fleet = path.read_bytes(), Fleet(SimulationSettings(**NORMAL))
    with pytest.raises(DfstransError, match=r"got something else; .* overwrite=True"):
        simulate_to_file(path, fleet)
    assert path.read_bytes() == before
    assert simulation.is_simulated(simulate_to_file(path, fleet, overwrite=True), fleet)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_at_the_path_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.h5").mkdir()
    with pytest.raises(DfstransError, match=r"got the folder .*; choose another name"):
        simulate_to_file(tmp_path / "a.h5", Fleet(SimulationSettings(**NORMAL)), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_a_name_that_is_too_long_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="choose a shorter name"):
        simulate_to_file(tmp_path / f"{'x' * 300}.h5", Fleet(SimulationSettings(**NORMAL)))


def test_more_than_the_disk_holds_is_refused_before_a_trip_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 0, 10**9))  # type: ignore[attr-defined]
    monkeypatch.setattr(Fleet, "trip", lambda *_: pytest.fail("drawn"))
    fleet = Fleet(SimulationSettings(normal=1_000_000, faulty=0))
    with pytest.raises(DfstransError, match=r"655\.8 GB of free disk for 1,000,000 episodes, got 1\.0 GB"):
        simulate_to_file(tmp_path / "new" / "a.h5", fleet)
    assert list(tmp_path.iterdir()) == []


def test_what_is_done_when_a_run_is_interrupted_is_kept(tmp_path: Path) -> None:
    fleet, path = Fleet(SimulationSettings(normal=5, faulty=0, sampling_rate=100)), tmp_path / "a.h5"

    def interrupt(n: int) -> None:
        nonlocal made
        made += n
        if made == 3:
            raise KeyboardInterrupt

    made = 0
    with pytest.raises(KeyboardInterrupt):
        simulate_to_file(path, fleet, advance=interrupt)
    left = begun(path)
    assert left is not None
    assert (left.done, left.total) == (3, 5)
    assert simulation.is_simulated(simulate_to_file(path, fleet), fleet)
    assert begun(path) is None


@pytest.mark.parametrize("row", [-1, 2, 5])
def test_a_journey_that_is_not_there_is_refused(row: int) -> None:
    fleet = Fleet(SimulationSettings(normal=2, faulty=0))
    for ask in (fleet.journey, fleet.trip, fleet.fault):
        with pytest.raises(DfstransError, match=f"from 0 to 1, got {row}"):
            ask(row)


def test_a_number_of_jobs_that_cannot_be_is_refused_before_a_file_is_begun(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="jobs to be at least 1"):
        simulate_to_file(tmp_path / "a.h5", Fleet(SimulationSettings(normal=1, faulty=0)), jobs=0)
    assert list(tmp_path.iterdir()) == []


def test_of_many_installations_only_some_stay_in_memory() -> None:
    simulated._member.cache_clear()
    fleet = Fleet(SimulationSettings(normal=200, faulty=0, installations=1_000_000))
    numbers = {fleet.trip(row).installation for row in range(200)}
    assert len(numbers) == 200
    for number in numbers:
        fleet.member(number)
    kept = simulated._member.cache_info()
    assert kept.currsize <= 64
    simulated._member.cache_clear()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dfstrans", "simulate", "elevator", "--normal", "120", "--faulty", "0"]
    command += ["--sampling-rate", "100", "--n-timepoints", "2000", "--seed", "5", "--out"]
    path = tmp_path / "killed.h5"
    process = subprocess.Popen([*command, str(path)], stderr=subprocess.DEVNULL)
    partial = tmp_path / ".killed.h5.partial"
    while not partial.exists() or not _some_done(partial):
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not path.exists()
    subprocess.run([*command, str(path)], check=True, stderr=subprocess.DEVNULL)
    whole = simulate(120, 0, seed=5, sampling_rate=100, n_timepoints=2000)
    assert_same(load_episodes(path), whole)
    assert not partial.exists()


def _some_done(partial: Path) -> bool:
    import h5py

    try:
        with h5py.File(partial, "r", locking=False) as file:
            return 0 < int(file["done"][:].sum()) < 120
    except OSError:
        return False
