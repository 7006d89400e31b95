"""Values in files behave like the array they hold, in this process and in others."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.storage import ChangedRows, StoredArray, StoredValues
from dfstrans.errors import DfstransError

VALUES = np.random.default_rng(0).standard_normal((6, 3, 4)).astype(np.float32)


@pytest.fixture
def stored(tmp_path: Path) -> StoredValues:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["values"] = VALUES
    return StoredValues.whole(StoredArray(tmp_path / "set.h5", "values", VALUES.shape))


def test_indexing_reads_what_an_array_would_give(stored: StoredValues) -> None:
    assert stored.shape == VALUES.shape
    assert len(stored) == 6
    assert_array_equal(stored[2], VALUES[2])
    assert_array_equal(stored[1:4], VALUES[1:4])
    assert_array_equal(stored[np.array([5, 0, 0])], VALUES[[5, 0, 0]])
    assert_array_equal(np.asarray(stored), VALUES)
    assert_array_equal(np.asarray(stored, dtype=np.float64), VALUES.astype(np.float64))


def test_selections_compose_without_reading(stored: StoredValues) -> None:
    part = stored.select(np.array([4, 2, 0])).select_sensors(np.array([2, 0])).select(np.array([1]))
    again = part.select_sensors(np.array([1]))
    assert_array_equal(np.asarray(part), VALUES[[2]][:, [2, 0]])
    assert_array_equal(np.asarray(again), VALUES[[2]][:, [0]])


def test_arrays_and_files_of_different_lengths_are_joined(stored: StoredValues) -> None:
    short = np.ones((2, 3, 2), dtype=np.float32)
    joined = StoredValues.join([short, stored])
    assert joined.shape == (8, 3, 4)
    assert_array_equal(np.asarray(joined)[2:], VALUES)
    assert np.isnan(np.asarray(joined)[:2, :, 2:]).all()
    assert_array_equal(joined.select_sensors(np.array([1]))[np.array([0, 3])][1], VALUES[1, [1]])


def test_episodes_are_returned_in_the_requested_order(stored: StoredValues) -> None:
    twice = StoredValues.join([stored, VALUES[::-1].copy(), stored])  # row 5 of one source, then row 0 of the next
    everything = np.concatenate([VALUES, VALUES[::-1], VALUES])
    for rows in ([3, 4, 5, 6, 7, 12, 13], [17, 0, 1, 1, 2, 5, 4], [], [11]):
        assert_array_equal(twice[np.array(rows, dtype=np.intp)], everything[rows])
    assert_array_equal(twice.select(np.arange(18)[::2])[1:7], everything[::2][1:7])


def _read_one(stored: StoredValues) -> list[float]:
    return [float(value) for value in stored[3].ravel()]


def test_another_process_opens_the_file_itself(stored: StoredValues) -> None:
    np.asarray(stored)  # open here first
    assert_array_equal(np.asarray(pickle.loads(pickle.dumps(stored))), VALUES)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_read_one, (stored,)) == VALUES[3].ravel().tolist()


def test_a_missing_or_damaged_file_gives_one_clear_error(stored: StoredValues, tmp_path: Path) -> None:
    for spoil in (lambda path: path.write_bytes(b""), Path.unlink):
        spoil(tmp_path / "set.h5")
        with pytest.raises(DfstransError, match=r"expected to read episode 0 of .*set\.h5"):
            stored[0]


def test_infinite_values_can_be_read_as_missing(stored: StoredValues) -> None:
    values = VALUES.copy()
    values[1, 2, 3] = np.inf
    joined = StoredValues.join([values, stored]).with_infinite_as_missing().select_sensors(np.array([2, 0]))
    values[1, 2, 3] = np.nan
    assert_array_equal(np.asarray(joined), np.concatenate([values, VALUES])[:, [2, 0]])


def test_rows_are_changed_as_they_are_read(stored: StoredValues) -> None:
    changed = StoredValues.whole(ChangedRows(stored.select(np.array([4, 2])), lambda row, values: values + row))
    assert_array_equal(np.asarray(changed), [VALUES[4], VALUES[2] + 1])
