"""`dfstrans score` within this process: addresses of the kind memory:// need no other one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dfstrans import load_episodes, save_episodes
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.scale import fleet
from dfstrans.scale import sources as sources_module
from dfstrans.scale.scoring import SCHEMA, Scorer
from dfstrans.scale.sources import find_sources
from tests.cli.command_line import output_of, refused, result_of, run
from tests.scale.fleet_files import part, rows_of, write_fleet
from tests.tiny import TINY, tiny_episodes


@pytest.fixture
def memory() -> Iterator[str]:
    """An address in the memory of this process."""
    address = f"memory://{uuid.uuid4().hex}"
    yield address
    fs = fsspec.filesystem("memory")
    if fs.exists(address):
        fs.rm(address, recursive=True)


def put(address: str, table: pd.DataFrame) -> None:
    fsspec.filesystem("memory").pipe_file(address, table.to_csv(index=False).encode())


def rejects_of(results: str) -> pd.DataFrame:
    return pd.read_parquet(f"{results}/_rejects").sort_values("file", ignore_index=True)


# ---- what is written ------------------------------------------------------------------------------------------------


def test_all_formats_are_read(exported: Path, tmp_path: Path, memory: str) -> None:
    episodes = tiny_episodes(1, 4, 2)
    for suffix in ("h5", "parquet"):
        save_episodes(episodes, tmp_path / f"one.{suffix}")
    np.savez(tmp_path / "one.npz", values=episodes.values)
    part(1).to_csv(tmp_path / "one.csv.gz", index=False)
    found = result_of("score", exported, tmp_path, "--out", f"{memory}/out")
    assert (found["rows"], found["rejected"]) == (24, 0)
    rows = rows_of(f"{memory}/out").groupby("file")["probability"].apply(sorted)
    assert all(one == pytest.approx(rows.iloc[0], abs=1e-5) for one in rows)


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_addresses_give_the_rows_of_predict(tiny_model: Path, tmp_path: Path, memory: str) -> None:
    for number in range(3):
        put(f"{memory}/in/m{number}/part.csv", part(number, f"m{number}"))
    found = result_of("score", tiny_model, f"{memory}/in", "--out", f"{memory}/out")
    assert (found["recordings"], found["rejected"], found["rows"]) == (18, 0, 18)
    rows = rows_of(f"{memory}/out")
    assert {*rows["machine"]} == {"m0", "m1", "m2"}
    part(1, "m1").to_csv(tmp_path / "part.csv", index=False)
    expected = result_of("predict", tiny_model, tmp_path / "part.csv")
    mine = rows[rows["machine"] == "m1"]
    assert mine["file"].unique().tolist() == [f"memory:///{memory.removeprefix('memory://')}/in/m1/part.csv"]
    assert mine["episode_id"].tolist() == [one["episode_id"] for one in expected["predictions"]]
    assert mine["anomalous"].tolist() == [one["anomalous"] for one in expected["predictions"]]
    assert mine["probability"].tolist() == [one["probability"] for one in expected["predictions"]]
    assert mine["threshold"].unique().tolist() == [expected["threshold"]]
    record = json.loads((tiny_model / "model.json").read_text())
    assert mine["model"].unique().tolist() == [record["own_checksum"][:16]] == [found["model"]]


def test_recordings_without_machine_and_date_have_rows_too(exported: Path, tmp_path: Path, memory: str) -> None:
    for number in (1, 2):
        table = part(number).assign(time=np.tile(np.arange(48) * 0.01, 6))
        table.rename(columns={"time": "time [s]"}).to_csv(tmp_path / f"{number}.csv", index=False)
    words = ("score", exported, tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "*.csv")
    found = result_of(*words, "--out", f"{memory}/out")
    assert found["rows"] == 12
    assert {*rows_of(f"{memory}/out")["machine"]} == {"unknown"}
    assert result_of(*words, "--out", f"{memory}/named", "--machine", "007")["rows"] == 12
    named = rows_of(f"{memory}/named")
    assert {*named["machine"]} == {"007"}
    assert {*named["date"]} == {"unknown"}


def test_a_file_without_ids_is_one_recording(exported: Path, tmp_path: Path, memory: str) -> None:
    """As in `dfstrans predict FOLDER`; folders may name the machine."""
    for machine in ("a", "b"):
        (tmp_path / machine).mkdir()
        for number, table in enumerate(part(1).groupby("episode_id")):
            table[1].drop(columns="episode_id").to_csv(tmp_path / machine / f"run{number}.csv", index=False)
    (tmp_path / "labels.csv").write_text("id,label\nrun0,0\n")
    (tmp_path / "readme.txt").write_text("nothing")
    assert result_of("score", exported, tmp_path, "--out", f"{memory}/plain")["rows"] == 12
    rows = rows_of(f"{memory}/plain")
    assert rows["episode_id"].tolist() == [f"{machine}/run{n}" for machine in "ab" for n in range(6)]
    assert {*rows["machine"]} == {"unknown"}
    found = result_of("score", exported, tmp_path, "--out", f"{memory}/named", "--folders", "group")
    assert found["rows"] == 12
    named = rows_of(f"{memory}/named")
    assert named["machine"].tolist() == ["a"] * 6 + ["b"] * 6
    assert named["probability"].tolist() == rows["probability"].tolist()


def test_anomalous_recordings_are_diagnosed(planted_model: tuple[Path, object], tmp_path: Path, memory: str) -> None:
    model, episodes = planted_model
    detector = Diagnoser.load(model)
    save_episodes(episodes[:20], tmp_path / "one.h5")  # type: ignore[index]
    diagnoses = sorted(detector.diagnose(episodes[:20], trust=True), key=lambda one: one.episode_id)  # type: ignore[index]
    expected = [one for one in diagnoses if one.is_anomaly]
    found = result_of("score", model, tmp_path / "one.h5", "--out", f"{memory}/out", "--diagnose")
    assert found["this_run"]["anomalous"] == len(expected) > 0
    rows = rows_of(f"{memory}/out")
    calm, diagnosed = (rows[rows["anomalous"] == value] for value in (0, 1))
    assert calm["diagnosis"].isna().all()
    assert diagnosed["probability"].tolist() == pytest.approx([one.probability for one in expected], abs=1e-6)
    for row, one in zip(diagnosed.itertuples(), expected, strict=True):
        content = json.loads(row.diagnosis)
        assert [*row.top_sensors] == [ranked.sensor for ranked in one.top_sensors()]
        assert [moment["start"] for moment in row.moments] == [ranked.start for ranked in one.top_segments()]
        assert (None if pd.isna(row.trust) else row.trust) == (one.trust and one.trust.support)
        assert content["is_anomaly"]


def test_row_groups_are_pieces_and_no_recording_is_torn(
    exported: Path, tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.concat([part(number, "m") for number in (1, 2, 3)])
    path = tmp_path / "long.parquet"
    with pq.ParquetWriter(path, pa.Table.from_pandas(table, preserve_index=False).schema) as writer:
        for start in range(0, len(table), 100):  # recordings have 48 points: most row groups tear one
            rows = pa.Table.from_pandas(table.iloc[start : start + 100], preserve_index=False)
            writer.write_table(rows, row_group_size=100)
    whole = Scorer.load(exported)(str(path)).to_pandas()
    monkeypatch.setattr(sources_module, "PIECE_BYTES", 1)
    pieces = find_sources([str(path)], ReadOptions(), memory)
    assert len(pieces) == 1 + sum(end % 48 == 0 for end in range(100, len(table), 100))
    assert [piece.row_groups[0] for piece in pieces[1:]] == [piece.row_groups[1] for piece in pieces[:-1]]  # type: ignore[index]
    assert result_of("score", exported, path, "--out", f"{memory}/out")["rows"] == 18
    rows = rows_of(f"{memory}/out")
    assert rows["episode_id"].tolist() == whole["episode_id"].tolist()
    assert rows["probability"].tolist() == pytest.approx(whole["probability"].tolist(), abs=1e-6)
    assert result_of("score", exported, path, "--out", f"{memory}/out", "--resume")["finished_before"] == len(pieces)


def test_changed_files_replace_their_rows(exported: Path, tmp_path: Path, memory: str) -> None:
    data = write_fleet(tmp_path / "data", 3)
    words = ("score", exported, data, "--out", f"{memory}/out")
    assert result_of(*words)["rows"] == 18
    part(1, "moved", n_normal=1).to_csv(data / "part001.csv", index=False)
    (data / "part002.csv").unlink()
    part(7, "new").to_csv(data / "part007.csv", index=False)
    found = result_of(*words, "--resume")
    assert (found["finished_before"], found["this_run"]["files"]) == (1, 2)
    rows = rows_of(f"{memory}/out")
    assert rows.groupby("machine").size().to_dict() == {"000": 12, "moved": 3, "new": 6}  # what was removed stays


def test_half_written_pieces_are_scored_again(exported: Path, tmp_path: Path, memory: str) -> None:
    both = pd.concat([part(1, "a"), part(2, "b")])
    both.to_csv(tmp_path / "both.csv", index=False)
    words = ("score", exported, tmp_path / "both.csv", "--out", f"{memory}/out")
    output_of(*words)
    fs = fsspec.filesystem("memory")
    parts = [path for path in fs.find(memory) if "of2" in path]
    assert len(parts) == 2
    fs.rm(parts[0])
    assert len(rows_of(f"{memory}/out")) == 6
    assert result_of(*words, "--resume")["finished_before"] == 0
    assert len(rows_of(f"{memory}/out")) == 12


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_scored_is_rejected_with_its_reason(exported: Path, tmp_path: Path, memory: str) -> None:
    good = part(1, "m")
    good.to_csv(tmp_path / "a_good.csv", index=False)
    (tmp_path / "b_empty.csv").write_bytes(b"")
    (tmp_path / "c_damaged.parquet").write_bytes(b"PAR1 and nothing else")
    good.drop(columns="S2").to_csv(tmp_path / "d_sensors.csv", index=False)
    slower = good.assign(time=good["time"].iloc[0] + (good["time"] - good["time"].iloc[0]) * 5)
    slower.to_csv(tmp_path / "e_slower.csv", index=False)
    short = good[good["episode_id"] == "1-run_0000"].iloc[:5].assign(episode_id="short")
    silent = good[good["episode_id"] == "1-run_0001"].assign(episode_id="silent", S1=None, S2=None, S3=None)
    huge = good[good["episode_id"] == "1-run_0002"].assign(episode_id="huge", S1=1e38)
    pd.concat([good.assign(episode_id="z" + good["episode_id"]), short, silent, huge]).to_csv(
        tmp_path / "f_some.csv", index=False
    )
    (tmp_path / "g_other.xyz").write_text("given by name")
    code, out, err = run("score", exported, tmp_path, tmp_path / "g_other.xyz", "--out", f"{memory}/out", "--json")
    assert code == 0, err
    found = json.loads(out)
    rejects = rejects_of(f"{memory}/out").fillna("").set_index(["file", "episode_id"])["reason"]
    reasons = {(Path(file).name, name): reason for (file, name), reason in rejects.items()}
    assert "got an empty file" in reasons["b_empty.csv", ""]
    assert "c_damaged.parquet" in reasons["c_damaged.parquet", ""]
    assert "missing: S2" in reasons["d_sensors.csv", ""]
    assert "expected a sampling interval of 0.01 s" in reasons["e_slower.csv", ""]
    assert "at least 16 points" in reasons["f_some.csv", "short"]
    assert "got none in episode 'silent'" in reasons["f_some.csv", "silent"]
    assert "unknown format" in reasons["g_other.xyz", ""]
    rows = rows_of(f"{memory}/out")
    assert found["rejected"] == len(reasons)
    assert found["rows"] == len(rows)
    assert found["recordings"] == found["rows"] + sum(name != "" for _, name in reasons)
    assert len(rows[rows["episode_id"].str.startswith("z1-")]) == 6
    assert "rejected" in err
    again = result_of("score", exported, tmp_path, tmp_path / "g_other.xyz", "--out", f"{memory}/out", "--resume")
    whole_files = sum(name == "" for _, name in reasons)  # are tried again
    counts = (again["rows"], again["rejected"], again["this_run"]["files"])
    assert counts == (found["rows"], found["rejected"], whole_files)
    assert len(rejects_of(f"{memory}/out")) == len(reasons)


def test_a_file_too_large_for_a_worker_is_rejected_until_there_is_more_memory(
    exported: Path, tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    part(1).to_csv(tmp_path / "in" / "one.csv", index=False)
    part(2, n_normal=100).to_csv(tmp_path / "in" / "large.csv", index=False)
    save_episodes(tiny_episodes(3, 200, 2), tmp_path / "in" / "large.h5")  # is read in parts
    words = ("score", exported, tmp_path / "in", "--out", f"{memory}/out", "--memory", "4GB")
    monkeypatch.setattr(fleet, "MEMORY_OF_CONTENT", 1e-4)
    found = result_of(*words)
    assert (found["rows"], found["rejected"]) == (6 + 202, 1)
    (reject,) = rejects_of(f"{memory}/out").itertuples()
    assert Path(reject.file).name == "large.csv"
    assert (
        "expected a file whose content takes at most 0.4 MB of a worker's memory, got one that takes about"
        in reject.reason
    )
    assert "dfstrans data convert" in reject.reason
    monkeypatch.undo()
    again = result_of(*words, "--resume")
    assert (again["rows"], again["rejected"], again["this_run"]["files"]) == (6 + 202 + 102, 0, 1)
    assert not fsspec.filesystem("memory").find(f"{memory}/out/_rejects")


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_values_out_of_range_are_warned_of_once_as_predict_does(
    exported: Path, tiny_model: Path, tmp_path: Path, memory: str
) -> None:
    for number in (1, 2):
        table = part(number)
        table.assign(S1=table["S1"] + 1000).to_csv(tmp_path / f"{number}.csv", index=False)
    for name, model in (("onnx", exported), ("torch", tiny_model)):
        code, out, err = run("score", model, tmp_path, "--out", f"{memory}/{name}", "--json")
        assert code == 0, err
        shares = json.loads(out)["this_run"]["out_of_range"]
        assert next(iter(shares.items())) == ("S1", 1.0)
        assert err.count("values outside the range seen in training: S1 (100 %)") == 1
        expected = [result_of("predict", tiny_model, tmp_path / f"{n}.csv")["out_of_range"] for n in (1, 2)]
        of_both = {sensor: np.mean([one.get(sensor, 0) for one in expected]) for sensor in shares}
        assert shares == pytest.approx(of_both)


def test_one_sensor_less_in_all_files_is_exit_code_1(exported: Path, tmp_path: Path, memory: str) -> None:
    part(1).drop(columns="S2").to_csv(tmp_path / "one.csv", index=False)
    code, out, _ = run("score", exported, tmp_path / "one.csv", "--out", f"{memory}/out", "--json")
    assert code == 1
    assert json.loads(out)["rejected"] == 1
    assert rows_of(f"{memory}/out").empty


def test_equal_ids_in_two_files_stay_two_recordings(exported: Path, tmp_path: Path, memory: str) -> None:
    for name, number in (("monday", 1), ("tuesday", 2)):
        table = part(number)
        table.assign(episode_id=table["episode_id"].str[2:]).to_csv(tmp_path / f"{name}.csv", index=False)
    _, err = output_of("score", exported, tmp_path, "--out", f"{memory}/out")
    assert "6 recordings with the id (and machine) of one in another file" in err
    rows = rows_of(f"{memory}/out")
    assert len(rows) == 12
    assert rows["episode_id"].nunique() == 6
    assert not rows.duplicated(["file", "episode_id"]).any()


def test_the_folder_of_results_must_be_unused_or_of_the_same_run(
    exported: Path, tiny_model: Path, tmp_path: Path, memory: str
) -> None:
    part(1, "m").to_csv(tmp_path / "one.csv", index=False)
    words = ("score", exported, tmp_path / "one.csv", "--out", f"{memory}/out")
    output_of(*words)
    assert "--resume" in refused(*words)
    assert "machine 'k' instead of None" in refused(*words, "--resume", "--machine", "k")
    Diagnoser.from_settings(**{**TINY, "epochs": 1}).fit(tiny_episodes(5)).save(tmp_path / "other")
    err = refused("score", tmp_path / "other", tmp_path / "one.csv", "--out", f"{memory}/out", "--resume")
    assert "got those of the model" in err
    assert "choose another --out" in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert "got something else" in refused("score", exported, tmp_path / "one.csv", "--out", tmp_path / "full")
    assert [one.name for one in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    assert len(rows_of(f"{memory}/out")) == 6


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (("no/such/folder",), "got nothing there; check the path"),
        (("no/such/*.csv",), "expected recordings in no/such/*.csv, got none"),
        (("nosuch://bucket/file.csv",), "expected a path, or an address such as s3://"),
        (("sftp://host/file.csv",), "expected the driver of sftp://host/file.csv, but it is not installed"),
    ],
)
def test_wrong_addresses_are_one_error(exported: Path, memory: str, data: tuple[str, ...], message: str) -> None:
    err = refused("score", exported, *data, "--out", f"{memory}/out")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not fsspec.filesystem("memory").exists(memory)


def test_options_that_need_more_than_one_file_are_refused(
    exported: Path, tiny_model: Path, tmp_path: Path, memory: str
) -> None:
    part(1).to_csv(tmp_path / "one.csv", index=False)
    words = ("score", exported, tmp_path / "one.csv", "--out", f"{memory}/out")
    assert "got --labels" in refused(*words, "--labels", tmp_path / "one.csv")
    assert "got --folders" in refused(*words, "--folders", "group,recording")
    assert "expected --engine torch with --diagnose" in refused(*words, "--diagnose")
    assert "give its folder" in refused(*words, "--engine", "torch")
    err = refused("score", exported, f"{memory}/x.csv", "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert "nothing there" in err
    put(f"{memory}/x.csv", part(1))
    err = refused("score", exported, f"{memory}/x.csv", "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert "got memory://, which only this process can" in err


# ---- the pure function ----------------------------------------------------------------------------------------------


def test_the_model_reads_recordings_as_in_training(tmp_path: Path, memory: str) -> None:
    from dfstrans.detectors.workflow import train_model

    table = part(1, n_normal=24, n_anomalous=12).rename(columns={"episode_id": "Takt", "S1": "junk"})
    labels = {f"1-{one.id}": one.label for one in tiny_episodes(1, 24, 12)}
    table.assign(label=table["Takt"].map(labels)).to_csv(tmp_path / "train.csv", index=False)
    read = {"id_column": "Takt", "drop_sensors": ["junk"]}
    train_model(
        Diagnoser.from_settings(**TINY), load_episodes(tmp_path / "train.csv", **read), tmp_path / "m", read=read
    )
    part(2).rename(columns={"episode_id": "Takt", "S1": "junk"}).to_csv(tmp_path / "new.csv", index=False)
    assert Scorer.load(tmp_path / "m")(str(tmp_path / "new.csv"))["reason"].null_count == 6
    found = result_of("score", tmp_path / "m", tmp_path / "new.csv", "--out", f"{memory}/out")
    assert found["rows"] == 6


def test_engines_agree(exported: Path, tiny_model: Path, tmp_path: Path) -> None:
    part(1, "m").to_csv(tmp_path / "one.csv", index=False)
    tables = [Scorer.load(exported)(str(tmp_path / "one.csv")), Scorer.load(tiny_model)(str(tmp_path / "one.csv"))]
    onnx, torch = (table.to_pandas() for table in tables)
    assert [table.schema.equals(SCHEMA) for table in tables] == [True, True]
    assert onnx["probability"].tolist() == pytest.approx(torch["probability"].tolist(), abs=1e-5)
    assert onnx["anomalous"].tolist() == torch["anomalous"].tolist()


@pytest.mark.slow
def test_a_saved_model_is_exported_for_onnx(exported: Path, tiny_model: Path, tmp_path: Path) -> None:
    part(1, "m").to_csv(tmp_path / "one.csv", index=False)
    from_folder = Scorer.load(tiny_model, "onnx")
    assert from_folder.version == Scorer.load(tiny_model).version
    assert (
        from_folder(str(tmp_path / "one.csv"))["probability"]
        == Scorer.load(exported)(str(tmp_path / "one.csv"))["probability"]
    )


def test_workers_need_no_torch_for_exported_models(exported: Path, tmp_path: Path) -> None:
    part(1, "m").to_csv(tmp_path / "one.csv", index=False)
    code = (
        "import sys; sys.modules['torch'] = sys.modules['lightning'] = None\n"
        "import dfstrans.scale.fleet, dfstrans.scale.scoring as scoring\n"
        f"table = scoring.Scorer.load({str(exported)!r})({str(tmp_path / 'one.csv')!r})\n"
        "assert table['reason'].null_count == 6, table['reason']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})
