from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from dfstrans import DfstransError, Episodes, Fault, load_episodes, save_episodes
from dfstrans.errors import settings_as_options
from dfstrans.lab.elevator.growing_file import Contents, GrowingFile, begun, read_recipes

ROOT = Path(__file__).resolve().parents[3]
N, SENSORS, POINTS = 5, ("a", "b"), 20


def contents(**changed: object) -> Contents:
    known = {
        "ids": [f"run_{i}" for i in range(N)],
        "labels": [0, 0, 0, 0, 1],
        "groups": ["m1", "m1", "m2", "m2", "m2"],
        "sensors": SENSORS,
        "units": ("mm", ""),
        "n_timepoints": POINTS,
        "interval": 0.5,
        "time_unit": "s",
        "segment_length": 10,
        "phase_names": ("rest", "work"),
        "recipe": {"seed": 1, "range": (1, 2)},
    }
    return Contents(**{**known, **changed})  # type: ignore[arg-type]


def write(file: GrowingFile, row: int) -> None:
    rng = np.random.default_rng(row)
    file.write(
        row,
        rng.normal(size=(len(SENSORS), POINTS)).astype(np.float32),
        [Fault(2, 5, ("a",), "bump", 0.5)] if row == 4 else [],
        rng.uniform(0, 3, (2, len(SENSORS))).astype(np.float16),
        np.full((2, len(SENSORS)), 1e5 + row, dtype=np.float32),
        np.array([0, 1], dtype=np.int8),
        {"journey": row},
    )


def test_what_was_written_in_any_order_is_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()) as file:
        for row in (3, 0, 4, 1, 2):
            write(file, row)
        file.commit(range(N))
    file.finish()
    read = load_episodes(path)
    for row in range(N):
        expected = np.random.default_rng(row).normal(size=(len(SENSORS), POINTS)).astype(np.float32)
        np.testing.assert_array_equal(read.values[row], expected)
    assert read.labels is not None
    assert read.labels.tolist() == [0, 0, 0, 0, 1]
    assert read.groups is not None
    assert read.groups.tolist() == ["m1", "m1", "m2", "m2", "m2"]
    assert (read.units, read.interval, read.time_unit) == (("mm", ""), 0.5, "s")
    assert read.faults == ((), (), (), (), (Fault(2, 5, ("a",), "bump", 0.5),))
    assert read.truth is not None
    assert read.truth.phases.tolist() == [[0, 1]] * N
    assert read.truth.noise_ratio is not None
    assert read.truth.noise_ratio[:, 1, 0].tolist() == [1e5 + row for row in range(N)]
    assert [recipe["journey"] for recipe in read_recipes(path)] == list(range(N))


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()) as first:
        write(first, 1)
        first.commit([1])
        write(first, 2)  # written, but not committed: it does not count
    with GrowingFile(path, contents()) as again:
        assert again.missing() == [0, 2, 3, 4]
    assert not path.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from dfstrans.lab.elevator import growing_file
from tests.lab.elevator.test_growing_file import contents

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moments = {
    "layout": (growing_file, "_reserve"), "room": (os, "posix_fallocate"), "name": (growing_file, "replace_file")
}
setattr(*moments[sys.argv[1]], kill)
growing_file.GrowingFile(Path(sys.argv[2]), contents())
"""


@pytest.mark.parametrize("moment", ["layout", "room", "name"])
def test_a_run_killed_while_its_file_is_begun_begins_again(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "grown.h5"
    killed = subprocess.run([sys.executable, "-c", KILLED, moment, str(path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) != []  # what is left is only a beginning
    with GrowingFile(path, contents()) as file:
        assert file.missing() == list(range(N))
        for row in range(N):
            write(file, row)
        file.commit(range(N))
        file.finish()
    assert list(tmp_path.iterdir()) == [path]
    assert load_episodes(path).ids.tolist() == [f"run_{i}" for i in range(N)]


def test_a_run_that_goes_on_takes_the_room_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()) as file:
        size = file.partial.stat().st_size
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _, start, length: taken.append((start, length)))
    with GrowingFile(path, contents()):
        assert taken == [(0, size)]


def test_two_runs_do_not_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()), pytest.raises(DfstransError, match="another one does; wait for it"):
        GrowingFile(path, contents())
    with GrowingFile(path, contents()) as file:
        assert len(file.missing()) == N


def test_a_file_that_another_run_has_just_finished_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()):
        pass
    lock = fcntl.flock

    def finished_meanwhile(file: object, kind: int) -> None:
        (tmp_path / ".grown.h5.partial").replace(path)
        lock(file, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", finished_meanwhile)
    with pytest.raises(DfstransError, match="another one does"):
        GrowingFile(path, contents())


def test_where_the_system_has_no_locks_a_run_goes_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        assert len(file.missing()) == N


def test_a_file_is_not_finished_before_all_is_there(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        write(file, 0)
        file.commit([0])
    with pytest.raises(DfstransError, match="4 are not"):
        file.finish()


def test_a_run_with_other_settings_is_refused_and_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()):
        pass
    with pytest.raises(DfstransError, match="seed 1 there, 2 now"):
        GrowingFile(path, contents(recipe={"seed": 2, "range": (1, 2)}))


def test_a_partial_file_that_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".grown.h5.partial").write_text("not HDF5")
    with pytest.raises(DfstransError, match="remove it"):
        GrowingFile(tmp_path / "grown.h5", contents())


def test_a_partial_file_whose_recipe_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()) as file, h5py.File(file.partial, "r+", locking=False) as damaged:
        damaged.attrs["recipe"] = '{"seed": 1'
    with pytest.raises(DfstransError, match="remove it"):
        GrowingFile(path, contents())


def test_a_partial_file_of_an_earlier_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents()) as file, h5py.File(file.partial, "r+", locking=False) as earlier:
        del earlier["truth_noise_ratio"]
    with pytest.raises(DfstransError, match=r"no truth_noise_ratio in it.*remove it"):
        GrowingFile(path, contents())


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_disk_that_fails_while_writing_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(DfstransError, match="Input/output error"):
            _write_and_commit(file)


def _write_and_commit(file: GrowingFile) -> None:
    write(file, 0)
    file.commit([0])


def test_what_the_system_writes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, place: whole(file, content[:7], place))
    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        for row in range(N):
            write(file, row)
        file.commit(range(N))
        read = load_episodes(file.finish())
    expected = np.random.default_rng(3).normal(size=(len(SENSORS), POINTS)).astype(np.float32)
    np.testing.assert_array_equal(read.values[3], expected)


def test_a_full_disk_is_noticed_at_the_beginning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(DfstransError, match="No space left on device"):
        GrowingFile(tmp_path / "grown.h5", contents())
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_its_place_is_refused(tmp_path: Path) -> None:
    values, cells = np.zeros((2, POINTS), np.float32), (np.zeros((2, 2), np.float16), np.zeros((2, 2), np.float32))
    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        with pytest.raises(DfstransError, match="at most 4096 bytes"):
            file.write(0, values, [], *cells, np.zeros(2, np.int8), {"long": "x" * 5000})
        with pytest.raises(DfstransError, match="at most 160 bytes of values"):
            file.write(0, np.zeros((2, POINTS + 1), np.float32), [], *cells, np.zeros(2, np.int8), {})


@pytest.mark.parametrize("left", ["nothing", "text", "a folder", "episodes"])
def test_recipes_of_a_file_that_has_none_are_refused(tmp_path: Path, left: str) -> None:
    path = tmp_path / "made.h5"
    if left == "text":
        path.write_text("not HDF5")
    elif left == "a folder":
        path.mkdir()
    elif left == "episodes":
        save_episodes(Episodes.from_arrays(np.zeros((2, 2, 8))), path)
    said = {"nothing": "nothing there", "a folder": "a folder"}.get(left, "a file without recipes")
    with pytest.raises(DfstransError, match=f"got {said}; name the file that was simulated"):
        read_recipes(path)


def test_a_setting_that_differs_is_named_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with GrowingFile(path, contents(recipe={"simulator": "toy 1", "n_timepoints": 20})):
        pass
    with settings_as_options(), pytest.raises(DfstransError, match=r"--n-timepoints 20 there.*; simulator 'toy 1'"):
        GrowingFile(path, contents(recipe={"simulator": "toy 2", "n_timepoints": 30}))


def test_a_run_that_was_begun_tells_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    assert begun(path) is None
    with GrowingFile(path, contents()) as file:
        write(file, 3)
        file.commit([3])
    assert begun(path) == (tmp_path / ".grown.h5.partial", 1, N)
    (tmp_path / ".grown.h5.partial").write_text("not HDF5")
    assert begun(path) is None


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("first.h5", "second.h5"):
        with GrowingFile(tmp_path / name, contents()) as file:
            for row in range(N):
                write(file, row)
            file.commit(range(N))
        written.append(file.finish().read_bytes())
        time.sleep(1.1)  # HDF5 would note the time in seconds
    assert written[0] == written[1]
