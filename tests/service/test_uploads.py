"""Uploads are read within limits, whatever they contain."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError
from dfstrans.service.uploads import JSON_EXAMPLE, Limits, ReaderPool, file_name, read_upload
from tests.service.conftest import fleet

LIMITS = Limits(recordings=100, points=1000, sensors=10, values=100_000, seconds=20, memory=2048)


@pytest.fixture(scope="module")
def pool() -> Iterator[ReaderPool]:
    opened = ReaderPool(LIMITS, size=1)
    yield opened
    opened.close()


def table(points: int = 50) -> pd.DataFrame:
    return pd.DataFrame({"time": np.arange(points) * 0.01, "Ax": np.arange(points) * 0.5, "Ay": 1.0})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_table_without_ids_is_one_recording_with_the_name_of_its_file(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"run 7{suffix}"
    table().to_csv(file, index=False) if suffix == ".csv" else table().to_parquet(file)
    found = read_upload(file, {}, LIMITS)
    assert found.ids.tolist() == ["run 7"]
    assert found.sensors == ("Ax", "Ay")
    assert found.values[0, 0, 3] == 1.5


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_of_this_project_keep_machines_and_interval(tmp_path: Path, suffix: str, pool: ReaderPool) -> None:
    episodes = fleet()
    save_episodes(episodes, tmp_path / f"fleet{suffix}")
    found = pool.read(tmp_path / f"fleet{suffix}", {})
    assert found.fingerprint() == episodes.fingerprint()
    assert found.interval == episodes.interval


def test_json_example_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(JSON_EXAMPLE))
    found = read_upload(tmp_path / "a.json", {}, LIMITS)
    assert (found.ids.tolist(), found.sensors, found.interval) == (["run 7"], ("Ax", "Ay"), 0.01)
    assert found.require_groups().tolist() == ["lift-1"]
    np.testing.assert_array_equal(np.isnan(found.values[0]), [[False, False, True], [False, False, False]])


def test_json_recording_keeps_its_start_in_utc(tmp_path: Path) -> None:
    one = {"id": "a", "start": "2026-03-01T10:00:00+02:00", "values": {"Ax": [1, 2]}}
    (tmp_path / "a.json").write_text(json.dumps({"recordings": [one]}))
    found = read_upload(tmp_path / "a.json", {}, LIMITS)
    assert found.starts is not None
    assert (str(found.starts[0])[:16], found.time_zone) == ("2026-03-01T08:00", "UTC")


# ---- hostile files --------------------------------------------------------------------------------------------------


def npz(arrays: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return target.getvalue()


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    target = io.BytesIO()
    np.lib.format.write_array_header_1_0(target, {"descr": kind, "fortran_order": False, "shape": shape})
    return target.getvalue()


def zip_bomb() -> bytes:
    """4 GB of zeros in a file of 4 MB."""
    target = io.BytesIO()
    archive = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("values.npy", "w", force_zip64=True) as member:
        member.write(npy_header((1, 1, 1 << 30)))
        for _ in range(256):
            member.write(bytes(1 << 24))
    return target.getvalue()


def parquet_bomb() -> bytes:
    """A name of 4 MB that stands in 2000 rows: 8 GB as text, a few kB as a dictionary."""
    target, rows = io.BytesIO(), 2000
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["x" * (4 << 20)]))
    columns = {"episode_id": names, "time": np.arange(rows) * 0.1, "Ax": np.zeros(rows)}
    pq.write_table(pa.table(columns), target, compression="zstd", store_schema=False)
    return target.getvalue()


def padding_bomb() -> bytes:
    """One recording of 900 points, and 99 of two points: harmless alone, but each is padded to the longest."""
    ids = np.repeat([f"e{i}" for i in range(100)], [900, *[2] * 99])
    time = np.concatenate([np.arange(900), *[np.arange(2)] * 99]) * 0.1
    frame = pd.DataFrame({"episode_id": ids, "time": time, "Ax": 1.0, "Ay": 2.0})
    return frame.to_csv(index=False).encode()


def in_json(values: str, **names: str) -> bytes:
    return f'{{"recordings": [{{"id": "{names.get("id", "a")}", "values": {values}}}]}}'.encode()


HOSTILE = {
    "zip that claims terabytes": (".npz", lambda: npz({"values": npy_header((1, 1, 1 << 40))}), ""),
    "python objects": (".npz", lambda: npz({"values": npy_header((1,), "|O") + b"\x80\x04N."}), "Python objects"),
    "too many points": (".csv", lambda: table(1001).to_csv(index=False).encode(), "at most 1000 points"),
    "padding": (".csv", padding_bomb, "at most 100000 values"),
    "deep json": (".json", lambda: b'{"recordings": ' + b"[" * 100_000, "recursion limit"),
    "deep json in values": (".json", lambda: in_json("[" * 5000), "recursion limit"),
    "not json": (".json", lambda: b"\xff\xfe\x00", "expected JSON"),
    "lone surrogate": (".json", lambda: in_json('{"Ax": [1]}', id="\\ud800"), "expected JSON"),
    "control character": (".json", lambda: in_json('{"Ax": [1, 2]}', id="a\\u0000b"), "control characters"),
    "infinity": (".json", lambda: in_json('{"Ax": [1e999, 2]}'), ""),
    "ragged": (".json", lambda: in_json('{"Ax": [1, 2], "Ay": [1]}'), "a value for each point"),
    "no values": (".json", lambda: in_json("{}"), ""),
    "nothing": (".csv", lambda: b"", "empty"),
    "text": (".csv", lambda: b"\x00" * 10_000, ""),
    "parquet that is none": (".parquet", lambda: b"PAR1" + b"\xff" * 5000 + b"PAR1", ""),
    "npz that is none": (".npz", lambda: b"PK\x03\x04" + b"\xff" * 5000, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_upload_is_refused_and_the_next_one_is_read(tmp_path: Path, pool: ReaderPool, name: str) -> None:
    suffix, content, message = HOSTILE[name]
    file = tmp_path / f"a{suffix}"
    file.write_bytes(content())
    with pytest.raises(DfstransError, match=message or "expected") as raised:
        pool.read(file, {})
    assert str(tmp_path) not in str(raised.value)
    (tmp_path / "b").mkdir()
    table().to_csv(tmp_path / "b" / "good.csv", index=False)
    assert len(pool.read(tmp_path / "b" / "good.csv", {})) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "bomb"), [(".npz", zip_bomb), (".parquet", parquet_bomb)])
def test_bomb_ends_its_reader_only(tmp_path: Path, pool: ReaderPool, suffix: str, bomb: object) -> None:
    (tmp_path / f"a{suffix}").write_bytes(bomb())  # type: ignore[operator]
    with pytest.raises(DfstransError, match=r"memory|at most|damaged"):
        pool.read(tmp_path / f"a{suffix}", {})
    (tmp_path / "b").mkdir()
    table().to_csv(tmp_path / "b" / "good.csv", index=False)
    assert len(pool.read(tmp_path / "b" / "good.csv", {})) == 1


def test_upload_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    pool = ReaderPool(Limits(seconds=0.001), size=1)
    table().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DfstransError, match="takes longer"):
        pool.read(tmp_path / "a.csv", {})
    pool.close()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\x", "/", "..", "", "a" * 1000, "a\x00b", "NUL:\n", ".csv"]
)
def test_name_of_an_upload_never_leaves_its_folder(tmp_path: Path, name: str) -> None:
    place = tmp_path / file_name(name, ".csv")
    assert place.resolve().parent == tmp_path.resolve()
    assert place.suffix == ".csv"
    place.write_bytes(b"x")
