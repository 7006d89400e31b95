from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, Fault, load_episodes
from dfstrans.data.growing import Contents, GrowingFile, read_recipes

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
    assert (read.units, read.interval) == (("mm", ""), 0.5)
    assert read.faults == ((), (), (), (), (Fault(2, 5, ("a",), "bump", 0.5),))
    assert read.truth is not None
    assert read.truth.phases.tolist() == [[0, 1]] * N
    assert [recipe["journey"] for recipe in read_recipes(path)] == list(range(N))


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    first = GrowingFile(path, contents())
    write(first, 1)
    first.commit([1])
    write(first, 2)  # written, but not committed: it does not count
    del first
    again = GrowingFile(path, contents())
    assert again.missing() == [0, 2, 3, 4]
    assert not path.exists()


def test_a_file_is_not_finished_before_all_is_there(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "grown.h5", contents()) as file:
        write(file, 0)
        file.commit([0])
    with pytest.raises(DfstransError, match="4 are not"):
        file.finish()


def test_a_run_with_other_settings_is_refused_and_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    GrowingFile(path, contents())
    with pytest.raises(DfstransError, match="seed 1 there, 2 now"):
        GrowingFile(path, contents(recipe={"seed": 2, "range": (1, 2)}))


def test_a_partial_file_that_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".grown.h5.partial").write_text("not HDF5")
    with pytest.raises(DfstransError, match="remove it"):
        GrowingFile(tmp_path / "grown.h5", contents())


def test_a_full_disk_is_noticed_at_the_beginning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(DfstransError, match="No space left on device"):
        GrowingFile(tmp_path / "grown.h5", contents())
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "grown.h5", contents())
    values, cells = np.zeros((2, POINTS), np.float32), np.zeros((2, 2), np.float16)
    with pytest.raises(DfstransError, match="4096 bytes"):
        file.write(0, values, [], cells, np.zeros(2, np.int8), {"long": "x" * 5000})


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
