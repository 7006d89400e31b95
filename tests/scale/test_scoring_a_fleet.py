from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

from dfstrans.errors import DfstransError
from dfstrans.scale import fleet as fleet_module
from dfstrans.scale.fleet import KEPT_MEMORY, Summary, connected, require_same_versions, score_fleet
from dfstrans.scale.results import ResultsFolder
from dfstrans.scale.scoring import Scorer
from dfstrans.scale.sources import Source, find_sources
from tests.cli.command_line import refused, result_of
from tests.scale.fleet_files import part, rows_of, write_fleet


def in_one_process(sources: list[Source], scorer: Scorer) -> pd.DataFrame:
    """The slow obvious loop."""
    table = pa.concat_tables([scorer(source).replace_schema_metadata(None) for source in sources])
    return table.to_pandas().sort_values(["file", "episode_id"], ignore_index=True)


def run(
    address: str,
    exported: Path,
    data: Path,
    out: Path,
    at: Callable[[int, Client], None] = lambda _n, _c: None,
    machine: str | None = None,
) -> Summary:
    """Score with a cluster, and call `at` with the number of finished files and the client."""
    scorer = Scorer.load(exported, machine=machine)
    sources = find_sources([str(data)], scorer.options, str(out))
    results = ResultsFolder.of(str(out), scorer, resume=out.exists())
    with connected(address, scorer.engine) as client:

        @contextmanager
        def progress(_what: str, _total: int) -> Iterator[Callable[[int], None]]:
            done = 0

            def advance(n: int) -> None:
                nonlocal done
                done += n
                at(done, client)

            yield advance

        return score_fleet(sources, scorer, results, client, progress)


def test_a_killed_worker_costs_no_row_and_doubles_none(
    cluster: str, exported: Path, fleet: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(done: int, client: Client) -> None:
        if done == 5:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    found = run(cluster, exported, fleet, tmp_path / "out", kill)
    assert killed
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        assert killed[0] not in client.run(os.getpid).values()
    rows = rows_of(tmp_path / "out")
    scorer = Scorer.load(exported)
    expected = in_one_process(find_sources([str(fleet)], scorer.options, ""), scorer)
    assert len(rows) == 240 == found.counts.rows == found.rows
    assert not rows.duplicated(["file", "episode_id"]).any()
    for name in ("file", "episode_id", "machine", "date", "probability", "threshold", "anomalous", "model"):
        assert rows[name].astype(expected[name].dtype).tolist() == expected[name].tolist()
    assert {*rows["machine"]} == {"000", "001"}
    assert {str(one) for one in rows["date"]} == {f"2026-11-{day:02}" for day in range(1, 21)}


def test_a_killed_run_is_resumed_and_nothing_is_computed_twice(cluster: str, exported: Path, tmp_path: Path) -> None:
    data, out = write_fleet(tmp_path / "data", 150, n_normal=2, n_anomalous=1), tmp_path / "out"
    words = ("score", exported, data, "--out", out, "--scheduler", cluster)
    started = subprocess.Popen(
        [sys.executable, "-m", "dfstrans", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stopped = time.monotonic() + 60
    while len(list(out.rglob("*of*.parquet"))) < 10 and time.monotonic() < stopped:
        time.sleep(0.005)
    started.kill()
    assert started.wait() == -signal.SIGKILL
    with Client(cluster) as client:
        while any(client.processing().values()) or any(client.run(_executing).values()):  # what workers had begun
            time.sleep(0.01)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in out.rglob("*of*.parquet")}
    assert 10 <= len(before) < 150
    found = result_of(*words, "--resume")
    assert found["finished_before"] == len(before)
    assert found["this_run"]["files"] == 150 - len(before)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in before} == before
    assert (found["rows"], found["recordings"], found["rejected"]) == (450, 450, 0)
    rows = rows_of(out)
    assert len(rows) == len(rows.drop_duplicates(["file", "episode_id"])) == 450
    again = result_of(*words, "--resume")
    assert (again["rows"], again["this_run"]["files"]) == (450, 0)


def _executing(dask_worker: Any) -> int:
    """How many tasks a worker still computes, also if nobody waits for them."""
    return int(dask_worker.state.executing_count)


class Poisonable(Scorer):
    """Dies of one file, as a process that needs more memory than there is."""

    def __call__(self, source: Source | str) -> pa.Table:
        if "poison" in str(source):
            os._exit(1)
        return super().__call__(source)


@pytest.mark.slow
def test_a_file_that_kills_workers_is_rejected_and_stops_nobody(
    local_cluster: LocalCluster, cluster: str, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_fleet(tmp_path / "data", 12)
    (data / "part005.csv").rename(data / "part005-poison.csv")
    monkeypatch.setattr(local_cluster.scheduler, "allowed_failures", 0)  # so that files that waited are suspected, too
    monkeypatch.setitem(globals(), "Scorer", Poisonable)
    found = run(cluster, exported, data, tmp_path / "out")
    assert (found.counts.rows, found.counts.rejected) == (66, 1)
    assert len(rows_of(tmp_path / "out")) == 66
    rejects = pd.read_parquet(tmp_path / "out" / "_rejects")
    assert [Path(file).name for file in rejects["file"]] == ["part005-poison.csv"]
    assert "every worker that scored it died" in rejects["reason"].iloc[0]


@pytest.mark.slow
def test_memory_of_workers_stays_flat_however_many_files(tiny_model: Path, tmp_path: Path) -> None:
    data, text = tmp_path / "data", part(1, "m").to_csv(index=False)
    for number in range(5000):
        (data / f"{number // 500}").mkdir(parents=True, exist_ok=True)
        (data / f"{number // 500}" / f"{number}.csv").write_text(text.replace("1-run", f"{number}-run"))
    used: dict[int, dict[int, int]] = {}

    def measure(done: int, client: Client) -> None:
        if done % 1000 == 0:
            used[done] = dict(client.run(_memory).values())

    with connected(None, "torch", workers=2, memory="1GB", most=2) as limited:
        found = run(limited.scheduler.address, tiny_model, data, tmp_path / "out", measure)
    assert found.counts == (30_000, 0, 30_000)
    rows = rows_of(tmp_path / "out")
    assert len(rows) == rows["episode_id"].nunique() == 30_000
    assert len({*used[1000]} & {*used[5000]}) == 2  # no worker was killed
    assert max(rss for one in used.values() for rss in one.values()) < 1e9
    assert all(used[5000][pid] - used[1000][pid] < 1e8 for pid in used[1000])


def _memory() -> tuple[int, int]:
    """The process and the bytes that it holds in memory."""
    import psutil

    return os.getpid(), psutil.Process().memory_info().rss


def test_unknown_scheduler_is_one_error(
    exported: Path, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "SECONDS_TO_CONNECT", 0.5)
    err = refused("score", exported, fleet, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert "expected a Dask scheduler at tcp://127.0.0.1:9" in err
    assert err.count("\n") == 1
    assert "such as" in refused("score", exported, fleet, "--out", tmp_path / "out", "--scheduler", "no such://thing")
    assert not (tmp_path / "out").exists()


def test_a_scheduler_without_workers_is_one_error(
    exported: Path, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "SECONDS_FOR_WORKERS", 0.5)
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as idle:
        err = refused("score", exported, fleet, "--out", tmp_path / "out", "--scheduler", idle.scheduler_address)
    assert "got none; start some (dask worker" in err
    assert not (tmp_path / "out").exists()
    err = refused("score", exported, fleet, "--out", tmp_path / "out", "--memory", "much")
    assert "expected --memory such as 1GB, got 'much'" in err


def test_two_models_on_one_cluster_do_not_mix(cluster: str, exported: Path, fleet: Path, tmp_path: Path) -> None:
    other: list[Summary] = []

    def begin_another(done: int, _: Client) -> None:
        if done == 1:
            other.append(run(cluster, exported, fleet, tmp_path / "other", machine="other"))

    run(cluster, exported, fleet, tmp_path / "out", begin_another)
    assert {*rows_of(tmp_path / "other")["machine"]} == {"other"}
    assert {*rows_of(tmp_path / "out")["machine"]} == {"000", "001"}


def test_workers_with_other_versions_are_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(cluster) as client:
        require_same_versions(client, "onnx")
        monkeypatch.setattr(fleet_module, "_ALWAYS", ("numpy", "no-such-package"))
        require_same_versions(client, "onnx")  # nowhere installed
        here = fleet_module._version_report

        def of_another_numpy(packages: tuple[str, ...]) -> Callable[[], dict[str, str | None]]:
            report = here(packages)
            me = os.getpid()
            return lambda: report() | ({} if os.getpid() == me else {"numpy": "1.0"})

        monkeypatch.setattr(fleet_module, "_version_report", of_another_numpy)
        with pytest.raises(DfstransError, match=r"has numpy 1\.0 instead of"):
            require_same_versions(client, "onnx")


def test_local_workers_keep_the_memory_that_they_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they take twice as long as prediction without Dask."""
    for name in KEPT_MEMORY:  # an earlier cluster of this process has set them
        monkeypatch.delenv(name, raising=False)
    with connected(None, "onnx", workers=1) as client:
        (environment,) = client.run(lambda: dict(os.environ)).values()
    assert {name: str(value) for name, value in KEPT_MEMORY.items()}.items() <= environment.items()
