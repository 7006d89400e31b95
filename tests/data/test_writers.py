"""Every format restores the episodes exactly, and a failure leaves no half-written file."""

from __future__ import annotations

import errno
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dfstrans.data import writers
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError

SUFFIXES = (".h5", ".hdf5", ".parquet", ".npz")
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=8)
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
NAMES = TEXTS.map(str.strip).filter(lambda name: name not in ("", "NA", "?", "-"))


def assert_same_episodes(given: Episodes, expected: Episodes) -> None:
    """Raise unless everything within the lengths is the same, to the bit."""
    for name in ("sensors", "units", "interval", "time_unit", "faults", "time_zone"):
        assert getattr(given, name) == getattr(expected, name), name
    for name in ("lengths", "ids", "labels", "groups", "starts"):
        here, there = getattr(given, name), getattr(expected, name)
        assert (here is None) == (there is None), name
        if there is not None:
            assert_array_equal(here, there, err_msg=name)
    for one, other in zip(given, expected, strict=True):
        assert_array_equal(one.values, other.values, strict=True)


@st.composite
def episode_sets(draw: st.DrawFn) -> Episodes:
    n, n_sensors = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    series = [rng.standard_normal((n_sensors, length)).astype(np.float32) for length in lengths]
    for one in series:
        one[rng.random(one.shape) < draw(st.sampled_from([0, 0.3, 1]))] = np.nan
    reserved = st.sampled_from(["time", "label", "group"])
    sensors = draw(st.lists(NAMES | reserved, min_size=n_sensors, max_size=n_sensors, unique=True))
    severity = st.none() | st.floats(0, 1e3)
    fault = st.builds(
        Fault, st.integers(0, 3), st.integers(4, 9), st.just(tuple(sensors[:1])), st.just("wear"), severity
    )
    return Episodes.from_arrays(
        series,
        draw(st.none() | st.lists(st.integers(0, 1), min_size=n, max_size=n)),
        ids=draw(st.lists(TEXTS, min_size=n, max_size=n, unique=True)),
        sensors=sensors,
        units=draw(st.lists(st.sampled_from(["", "m/s", "°C"]), min_size=n_sensors, max_size=n_sensors)),
        interval=draw(st.none() | st.floats(1e-6, 1e6)),
        time_unit=draw(st.sampled_from(["", "s", "µs"])),
        groups=draw(st.none() | st.lists(TEXTS, min_size=n, max_size=n)),
        faults=draw(st.none() | st.lists(st.lists(fault, max_size=2), min_size=n, max_size=n)),
        starts=draw(st.none() | st.lists(st.none() | MOMENTS, min_size=n, max_size=n)),
        time_zone=draw(st.sampled_from(["", "UTC", "+02:00"])),
    )


@given(episode_sets())
@settings(max_examples=40, deadline=None)
def test_a_round_trip_restores_the_episodes_exactly(
    tmp_path_factory: pytest.TempPathFactory, episodes: Episodes
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    for suffix in SUFFIXES:
        assert_same_episodes(load_episodes(save_episodes(episodes, folder / f"set{suffix}")), episodes)


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_every_format_converts_to_every_other_in_small_batches(
    tmp_path: Path, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "_BATCH_BYTES", 200)
    rng = np.random.default_rng(0)
    series = [rng.standard_normal((2, length)).astype(np.float32) for length in (5, 3, 9, 9, 1, 4, 7)]
    episodes = Episodes.from_arrays(series, [0, 1, 0, 1, 0, 0, 1], groups=list("aabbccc"), interval=0.1)
    first = load_episodes(save_episodes(episodes, tmp_path / f"first{source}"))
    again = load_episodes(save_episodes(first, tmp_path / f"again{target}"))
    assert_same_episodes(again, episodes)
    chosen = first[[5, 2]].select_sensors(["sensor_2", "sensor_1"])
    assert_same_episodes(load_episodes(save_episodes(chosen, tmp_path / f"part{target}")), chosen)


def test_hdf5_is_read_lazily_with_one_chunk_per_episode(tmp_path: Path) -> None:
    values = np.ones((2, 3, 4), dtype=np.float32)
    path = save_episodes(Episodes.from_arrays(values, lengths=[4, 2]), tmp_path / "set.h5")
    assert load_episodes(path).is_stored
    with h5py.File(path) as file:
        assert file["values"].chunks == (1, 3, 4)
        assert file["values"].dtype == np.float32
        assert np.isnan(file["values"][1, :, 2:]).all()
        assert (file.attrs["format"], file.attrs["version"]) == ("dfstrans-episodes", 1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "episodes",
    [
        Episodes.from_arrays(np.ones((1, 3000, 2)), sensors=[f"temperature of the bearing {i}" for i in range(3000)]),
        Episodes.from_arrays(np.ones((3, 1, 2)), ids=["a", "a ", "NA"], groups=[" m", "m", "1.0"]),
        Episodes.from_arrays(np.full((1, 1, 3), np.nan), [1], units=["m"], faults=[[Fault(0, 2, ("sensor_1",))]]),
    ],
    ids=["thousands of sensors", "spaces in ids", "no value"],
)
def test_unusual_episodes_are_restored(tmp_path: Path, suffix: str, episodes: Episodes) -> None:
    assert_same_episodes(load_episodes(save_episodes(episodes, tmp_path / f"set{suffix}")), episodes)


def test_parquet_is_a_long_table_for_other_programs(tmp_path: Path) -> None:
    episodes = Episodes.from_arrays(np.ones((2, 1, 3)), [0, 1], ids=["x", "y"], sensors=["Ax"], interval=0.5)
    table = pq.read_table(save_episodes(episodes, tmp_path / "set.parquet"))
    assert table.column_names == ["episode_id", "time", "Ax", "label"]
    assert table.column("time").to_pylist() == [0.0, 0.5, 1.0] * 2
    assert pa.types.is_float32(table.schema.field("Ax").type)
    bare = table.replace_schema_metadata(None)
    pq.write_table(bare, tmp_path / "bare.parquet")
    assert_same_episodes(load_episodes(tmp_path / "bare.parquet"), episodes)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sensors_can_be_dropped_and_infinite_values_read_as_missing(tmp_path: Path, suffix: str) -> None:
    values = np.ones((2, 3, 3))
    values[1, 2, 0] = -np.inf
    episodes = Episodes.from_arrays(values, units=["m", "s", "V"])
    path = save_episodes(episodes, tmp_path / f"set{suffix}")
    assert np.isnan(np.asarray(load_episodes(path, infinite_as_missing=True).values)[1, 2, 0])
    kept = load_episodes(path, drop_sensors=("sensor_3",))
    assert kept.units == ("m", "s")
    assert np.isfinite(np.asarray(kept.values)).all()
    for names_given in (("nope",), episodes.sensors):
        with pytest.raises(DfstransError, match=r"drop_sensors.*; correct"):
            load_episodes(path, drop_sensors=names_given)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_truncated_file_gives_one_clear_error(tmp_path: Path, suffix: str, share: float) -> None:
    values = np.random.default_rng(0).standard_normal((20, 3, 50))
    path = save_episodes(Episodes.from_arrays(values), tmp_path / f"set{suffix}")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DfstransError, match="ends early"):
        load_episodes(path)


def test_newer_or_incomplete_file_is_refused(tmp_path: Path) -> None:
    path = save_episodes(Episodes.from_arrays(np.ones((2, 1, 3))), tmp_path / "set.h5")
    with h5py.File(path, "a") as file:
        file.attrs["version"] = 2
    with pytest.raises(DfstransError, match="got version 2; upgrade"):
        load_episodes(path)
    with h5py.File(path, "a") as file:
        file.attrs["version"] = 1
        del file["lengths"]
    with pytest.raises(DfstransError, match=r"set\.h5, but the file ends early, is damaged"):
        load_episodes(path)


def test_parquet_that_lost_a_group_is_refused(tmp_path: Path) -> None:
    path = save_episodes(Episodes.from_arrays(np.ones((1, 1, 2)), groups=["m"]), tmp_path / "set.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, table.schema.field("group"), pa.array(["m", None])), path)
    with pytest.raises(DfstransError, match=r"a name in each row of column 'group' of .*none in data row 2"):
        load_episodes(path)


def test_an_unknown_suffix_and_an_empty_set_are_refused(tmp_path: Path) -> None:
    episodes = Episodes.from_arrays(np.ones((2, 1, 3)))
    with pytest.raises(DfstransError, match=r"ends in \.h5, .*, got .*set\.csv"):
        save_episodes(episodes, tmp_path / "set.csv")
    with pytest.raises(DfstransError, match="at least one episode"):
        save_episodes(episodes[[]], tmp_path / "set.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_write_keeps_the_old_file(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_episodes(Episodes.from_arrays(np.ones((2, 1, 3))), tmp_path / f"set{suffix}")
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writers, "_batches", full)
    with pytest.raises(DfstransError, match="No space left on device"):
        save_episodes(Episodes.from_arrays(np.zeros((2, 1, 3))), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_no_file(tmp_path: Path, suffix: str) -> None:
    program = (
        "import resource, sys, numpy as np\n"
        "from dfstrans import Episodes, save_episodes\n"
        "from dfstrans.errors import DfstransError\n"
        "episodes = Episodes.from_arrays(np.random.default_rng(0).random((300, 5, 100)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try:\n    save_episodes(episodes, sys.argv[1])\n"
        "except DfstransError as error:\n    print(error)\n"
    )
    path = tmp_path / f"set{suffix}"
    run = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "the system refused" in run.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".h5", ".parquet"])
def test_converting_a_large_file_needs_little_memory(tmp_path: Path, suffix: str) -> None:
    with h5py.File(tmp_path / "paper.h5", "w") as file:
        file.create_dataset("dataset", (1000, 5 * 20000 + 1), dtype=np.float32, fillvalue=0)  # 400 MB when read
    program = (
        "import resource, sys\n"
        "from dfstrans import load_episodes, save_episodes\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "save_episodes(load_episodes(sys.argv[1], n_sensors=5), sys.argv[2])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    arguments = [str(tmp_path / "paper.h5"), str(tmp_path / f"set{suffix}")]
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 200
