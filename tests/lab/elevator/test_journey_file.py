"""The file of journeys: it resumes, is written by one run at a time, and appears complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from dfstrans import DfstransError, Episodes, Fault, load_episodes, save_episodes
from dfstrans.errors import settings_as_options
from dfstrans.lab.elevator.journey_file import (
    JourneyFile,
    interrupted_run,
    is_simulated,
    read_recipes,
    simulate_to_file,
)
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet, Journey

ROOT = Path(__file__).resolve().parents[3]
N, N_SENSORS, POINTS, SEGMENTS = 5, 20, 320, 80


def fleet(**changed: Any) -> Fleet:
    return Fleet(SimulationSettings(**{"normal": 4, "faulty": 1, "sampling_rate": 16, **changed}))


def journey(row: int, **changed: Any) -> Journey:
    """Random numbers in the shape of a journey."""
    rng, none = np.random.default_rng(row), np.empty((0, 0))
    values = rng.normal(size=(N_SENSORS, POINTS)).astype(np.float32)
    relevance = rng.uniform(0, 3, (SEGMENTS, N_SENSORS)).astype(np.float16)
    ratio = np.full((SEGMENTS, N_SENSORS), 1e5 + row, dtype=np.float32)
    faults = (Fault(2, 5, ("Ax",), "bump", 0.5),) if row == 4 else ()
    phases = np.arange(SEGMENTS, dtype=np.int8) % 6
    made = Journey((), values, none, none, relevance, ratio, phases, faults, 1 / 16, {"journey": row})
    return made._replace(**changed)


def write(file: JourneyFile, rows: Any = range(N)) -> None:
    for row in rows:
        file.write(row, journey(row))
    file.commit(list(rows))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grown.h5"


@pytest.fixture
def partial(path: Path) -> Path:
    """An interrupted run with journey 3."""
    with JourneyFile(path, fleet()) as file:
        write(file, [3])
    return file.partial


# ---- content --------------------------------------------------------------------------------------------------------


def test_journeys_written_in_any_order_are_read_in_order(path: Path) -> None:
    with JourneyFile(path, fleet()) as file:
        write(file, (3, 0, 4, 1, 2))
        assert file.finish() == path
    read = load_episodes(path)
    for row in range(N):
        np.testing.assert_array_equal(read.values[row], journey(row).values)
    assert read.require_labels().tolist() == [0, 0, 0, 0, 1]
    assert read.groups is not None
    assert read.groups.tolist() == fleet().groups
    assert (read.sensors, read.units, read.interval, read.time_unit) == (fleet().sensors, fleet().units, 1 / 16, "s")
    assert read.faults == ((), (), (), (), (Fault(2, 5, ("Ax",), "bump", 0.5),))
    assert read.truth is not None
    assert read.truth.noise_ratio is not None
    for row in range(N):
        np.testing.assert_array_equal(read.truth.relevance[row], journey(row).relevance)
        np.testing.assert_array_equal(read.truth.phases[row], journey(row).phases)
    assert read.truth.noise_ratio[:, 1, 0].tolist() == [1e5 + row for row in range(N)]
    assert [recipe["journey"] for recipe in read_recipes(path)] == list(range(N))


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("first.h5", "second.h5"):
        with JourneyFile(tmp_path / name, fleet()) as file:
            write(file)
            written.append(file.finish())
        time.sleep(1.1)  # HDF5 would store the time in seconds
    assert written[0].read_bytes() == written[1].read_bytes()


def test_a_text_that_does_not_fit_is_refused(path: Path) -> None:
    with JourneyFile(path, fleet()) as file, pytest.raises(DfstransError, match="at most 4096 bytes of recipes"):
        file.write(0, journey(0, recipe={"long": "x" * 5000}))


@pytest.mark.parametrize(
    ("at", "got"),
    [
        ("nothing", "nothing there"),
        ("text", "without recipes"),
        ("folder", "a folder"),
        ("episodes", "without recipes"),
    ],
)
def test_recipes_of_a_file_without_any_are_refused(path: Path, at: str, got: str) -> None:
    if at == "text":
        path.write_text("not HDF5")
    elif at == "folder":
        path.mkdir()
    elif at == "episodes":
        save_episodes(Episodes.from_arrays(np.zeros((2, 2, 8))), path)
    with pytest.raises(DfstransError, match=got):
        read_recipes(path)


# ---- resuming -------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_resumes_with_the_journeys_that_are_not_committed(path: Path, partial: Path) -> None:
    assert interrupted_run(path) == (partial, 1, N)
    with JourneyFile(path, fleet()) as file:
        file.write(2, journey(2))  # not committed
    with JourneyFile(path, fleet()) as file:
        assert file.missing() == [0, 1, 2, 4]
        with pytest.raises(DfstransError, match="4 are not"):
            file.finish()
    assert not path.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from dfstrans.lab.elevator import journey_file
from tests.lab.elevator.test_journey_file import fleet, journey

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moments = {
    "layout": (journey_file, "_reserve"), "space": (os, "posix_fallocate"), "rename": (journey_file, "replace_file"),
    "writing": (journey_file, "faults_to_json"), "commit": (os, "fsync"),
}
file = journey_file.JourneyFile(Path(sys.argv[2]), fleet())
if sys.argv[1] in ("layout", "space", "rename"):
    setattr(*moments[sys.argv[1]], kill)
with file:
    file.write(0, journey(0))
    file.commit([0])
    setattr(*moments[sys.argv[1]], kill)
    file.write(1, journey(1))
    file.commit([1])
"""


@pytest.mark.parametrize(
    ("moment", "done"), [("layout", 0), ("space", 0), ("rename", 0), ("writing", 1), ("commit", 1)]
)
def test_a_killed_run_resumes(path: Path, moment: str, done: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, moment, str(path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    with JourneyFile(path, fleet()) as file:
        assert file.missing() == list(range(done, N))
        write(file, range(done, N))
        file.finish()
    assert list(path.parent.iterdir()) == [path]
    np.testing.assert_array_equal(load_episodes(path).values[0], journey(0).values)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda partial: partial.write_text("not HDF5"), "remove it"),
        (lambda partial: _change(partial, lambda file: file.attrs.update(recipe='{"seed": 1')), "remove it"),
        (lambda partial: _change(partial, lambda file: file.pop("truth_noise_ratio")), "no truth_noise_ratio in it"),
    ],
)
def test_a_damaged_partial_file_is_refused(path: Path, partial: Path, damage: Any, said: str) -> None:
    damage(partial)
    with pytest.raises(DfstransError, match=said), JourneyFile(path, fleet()):
        pass
    assert list(path.parent.iterdir()) == [partial]


def _change(partial: Path, change: Any) -> None:
    with h5py.File(partial, "r+") as file:
        change(file)


def test_an_unreadable_partial_file_is_no_interrupted_run(path: Path, partial: Path) -> None:
    partial.write_text("not HDF5")
    assert interrupted_run(path) is None


def test_a_run_with_other_settings_is_refused_and_they_are_named_as_options(path: Path, partial: Path) -> None:
    with h5py.File(partial, "r+") as file:
        file.attrs["recipe"] = json.dumps({**json.loads(file.attrs["recipe"]), "simulator": "toy 1"})
    said = r"--longest 8 there, 7 now; --seed 0 there, 2 now; simulator 'toy 1' there"
    with settings_as_options(), pytest.raises(DfstransError, match=said), JourneyFile(path, fleet(seed=2, longest=7)):
        pass


def test_two_runs_do_not_write_the_same_file(path: Path) -> None:
    second = JourneyFile(path, fleet())
    with JourneyFile(path, fleet()), pytest.raises(DfstransError, match="another run does"), second:
        pass
    with JourneyFile(path, fleet()) as file:
        assert len(file.missing()) == N


# ---- the disk -------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_noticed_at_the_start_and_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(DfstransError, match="No space left on device"), JourneyFile(path, fleet()):
        pass
    assert list(path.parent.iterdir()) == []


def test_a_disk_that_fails_while_writing_is_explained(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with JourneyFile(path, fleet()) as file:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(DfstransError, match=r"Input/output error.* kept in"):
            write(file)


def test_too_large_for_the_disk_is_refused_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 0, 10**9))  # type: ignore[attr-defined]
    monkeypatch.setattr(Fleet, "trip", lambda *_: pytest.fail("drawn"))
    with pytest.raises(DfstransError, match=r"655\.8 GB .* 1,000,000 journeys, got 1\.0 GB"):
        simulate_to_file(path.parent / "new" / "a.h5", fleet(normal=1_000_000, faulty=0, sampling_rate=400))
    assert list(path.parent.iterdir()) == []


# ---- simulating into a file -----------------------------------------------------------------------------------------

NORMAL = {"normal": 3, "faulty": 0}


def test_journeys_that_exist_are_not_simulated_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_simulated(path, fleet(**NORMAL))
    before = simulate_to_file(path, fleet(**NORMAL)).read_bytes()
    assert is_simulated(path, fleet(**NORMAL))
    monkeypatch.setattr(Fleet, "journey", lambda *_: pytest.fail("simulated again"))
    done: list[int] = []
    simulate_to_file(path, fleet(**NORMAL), advance=done.append)
    assert path.read_bytes() == before
    assert done == [3]


@pytest.mark.parametrize("content", ["another seed", "text"])
def test_another_file_is_replaced_only_on_request(path: Path, content: str) -> None:
    if content == "text":
        path.write_text("precious")
    else:
        simulate_to_file(path, fleet(**NORMAL, seed=1))
    before = path.read_bytes()
    with pytest.raises(DfstransError, match=r"something else; .* overwrite=True"):
        simulate_to_file(path, fleet(**NORMAL))
    assert path.read_bytes() == before
    assert is_simulated(simulate_to_file(path, fleet(**NORMAL), overwrite=True), fleet(**NORMAL))
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "jobs", "said"),
    [("a folder", 1, "got the folder"), ("x" * 300, 1, "shorter name"), ("a.h5", 0, "jobs to be at least 1")],
)
def test_an_impossible_file_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, jobs: int, said: str
) -> None:
    (tmp_path / "a folder").mkdir()
    with pytest.raises(DfstransError, match=said):
        simulate_to_file(tmp_path / name, fleet(**NORMAL), jobs=jobs, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a folder"]


def test_journeys_finished_before_an_interruption_are_kept(path: Path) -> None:
    made = 0

    def interrupt(n: int) -> None:
        nonlocal made
        made += n
        if made == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_to_file(path, fleet(**NORMAL), advance=interrupt)
    run = interrupted_run(path)
    assert run is not None
    assert (run.done, run.total) == (2, 3)
    assert is_simulated(simulate_to_file(path, fleet(**NORMAL)), fleet(**NORMAL))
    assert interrupted_run(path) is None


MEMORY = """
import re, sys
from pathlib import Path
from dfstrans.lab.elevator import Fleet, simulate_to_file
from tests.lab.elevator.test_journey_file import fleet, journey, np

Fleet.journey = lambda _, row: journey(0, values=np.full((20, 8000), row, np.float32))
peaks = []
for n in (40, 240):
    simulate_to_file(Path(sys.argv[1]) / f"{n}.h5", fleet(normal=n, faulty=0, sampling_rate=400))
    peaks.append(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
print(peaks[1] - peaks[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure the memory in use")
def test_written_journeys_do_not_stay_in_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEMORY, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert int(done.stdout) < 30_000  # kB; 200 more journeys are 128 000 kB
