"""`dfstrans compare --scheduler`: runs as tasks of Dask, none lost and none repeated."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Thread

import pytest
from distributed import Client, LocalCluster

from dfstrans import save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.runs import read_runs
from tests.cli.command_line import output_of, refused


@pytest.fixture
def command(tmp_path: Path, cluster: str) -> list[str]:
    save_episodes(planted_episodes(40, 20, n_sensors=2, n_timepoints=48), tmp_path / "data.h5")
    words = ["compare", tmp_path / "data.h5", "--out", tmp_path / "out", "--models", "mh1dcnn-lstm,boosting"]
    return [*map(str, words), "--folds", "2", "--epochs", "2", "--scheduler", cluster]


@pytest.mark.slow
def test_a_cluster_computes_the_runs_of_one_process_and_each_once(command: list[str], tmp_path: Path) -> None:
    output_of(*command[:3], str(tmp_path / "alone"), *command[4:-2])
    alone = {(run.model, run.fold): run.test for run in read_runs(tmp_path / "alone" / "runs.jsonl")}
    for _ in range(2):
        output_of(*command)
        runs = read_runs(tmp_path / "out" / "runs.jsonl")
        assert len(runs) == 4
        for run in runs:
            assert run.test == pytest.approx(alone[run.model, run.fold], abs=1e-6)


def test_a_killed_worker_costs_no_run_and_doubles_none(command: list[str], tmp_path: Path, cluster: str) -> None:
    def kill() -> None:
        while not list((tmp_path / "out").rglob("lock")):
            time.sleep(0.01)
        with Client(cluster) as client:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    output_of(*command)
    killer.join()
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
    runs = read_runs(tmp_path / "out" / "runs.jsonl")
    assert sorted((run.model, run.fold) for run in runs) == [
        (model, fold) for model in ("boosting", "mh1dcnn-lstm") for fold in (0, 1)
    ]


def test_unsuitable_clusters_and_paths_are_refused(command: list[str], tmp_path: Path) -> None:
    command[1] = os.path.relpath(command[1])
    assert "absolute paths" in refused(*command)
    command[1] = str(tmp_path / "data.h5")
    (tmp_path / "table.csv").touch()
    for option in ("--labels", "--faults"):
        assert "absolute paths" in refused(*command, option, os.path.relpath(tmp_path / "table.csv"))
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0") as threads:
        assert "--nthreads 1" in refused(*command[:-1], threads.scheduler_address)
