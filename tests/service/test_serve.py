"""`dfstrans serve` as a process: what it acknowledged survives kill -9, and SIGTERM lets it finish."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from sqlalchemy import func, select

from dfstrans.service.database import Case, Recording
from dfstrans.service.workspace import Workspace
from tests.cli.command_line import output_of, run
from tests.service.client import API, as_csv
from tests.service.conftest import fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "service"


@contextmanager
def process(folder: Path, database: str | None, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a service on a free port; give its process and address once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "--workspace", str(folder), "--port", str(port), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({"DFSTRANS_DATABASE": database} if database else {})
    log = (folder.parent / "log").open("a")
    started = subprocess.Popen([sys.executable, "-m", "dfstrans", *words], stderr=log, text=True, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            assert started.poll() is None, (folder.parent / "log").read_text()[-2000:]
            try:
                urlopen(f"{url}/readyz", timeout=5).close()
                break
            except (URLError, OSError):
                time.sleep(0.05)
        yield started, url
    finally:
        started.kill()
        started.wait()
        log.close()


def upload(url: str, asset: str, name: str, content: bytes) -> list[int]:
    """Send a recording; return the numbers of the records that the service acknowledged."""
    place = f"{url}{API}/recordings?asset={asset}&name={name}"
    with urlopen(Request(place, content, {"Content-Type": "text/csv"}), timeout=60) as answer:
        return [one["id"] for one in json.load(answer)["recordings"]]


def killed_under_load(folder: Path, database: str | None, model: Path, times: int) -> None:
    """Kill the service while three clients send recordings; check that all it acknowledged are there, once each."""
    recordings = fleet(1, n_normal=20, n_anomalous=10)
    anomalous_first = np.argsort(-recordings.require_labels(), kind="stable")
    contents = [as_csv(recordings[[row]]) for row in anomalous_first]
    acknowledged: dict[tuple[str, str], int] = {}
    for turn in range(times):
        stop = threading.Event()
        with process(folder, database, "--model", str(model)) as (service, url):
            before = len(acknowledged)

            def send(client: int, turn: int = turn, url: str = url, stop: threading.Event = stop) -> None:
                number = 0
                while not stop.is_set():
                    asset, name = f"lift-{client}", f"run-{turn}-{number}"
                    try:
                        [record] = upload(url, asset, name, contents[number % len(contents)])
                    except (OSError, ValueError):  # killed meanwhile
                        return
                    acknowledged[asset, name] = record
                    number += 1

            clients = [threading.Thread(target=send, args=(one,)) for one in range(3)]
            for one in clients:
                one.start()
            while len(acknowledged) < before + 5 + turn % 7 and any(one.is_alive() for one in clients):
                time.sleep(0.01)
            service.send_signal(signal.SIGKILL)
            service.wait()
            stop.set()
            for one in clients:
                one.join()
            assert len(acknowledged) > before
    opened = Workspace(folder, database)
    with opened.reading() as session:
        rows = {(one.asset.name, one.episode): one for one in session.scalars(select(Recording))}
        assert session.scalar(select(func.count()).select_from(Recording)) == len(rows)  # none twice
        assert {key: rows[key].id for key in acknowledged} == acknowledged
        cases = session.scalars(select(Case)).all()
        for case in cases:
            evidence = session.scalar(select(func.count()).where(Recording.case_id == case.id))
            assert evidence == case.evidence
        assert len({case.asset_id for case in cases}) == len(cases) > 0
    for row in rows.values():
        assert row.probability is not None
        assert len(opened.signal(row.content, row.episode)) == 1
    opened.close()


def test_what_was_acknowledged_survives_kill(tmp_path: Path, trees_model: Path) -> None:
    killed_under_load(tmp_path / "workspace", None, trees_model, times=2)


@pytest.mark.slow
def test_what_was_acknowledged_survives_twenty_kills(tmp_path: Path, database: str | None, trees_model: Path) -> None:
    killed_under_load(tmp_path / "workspace", database, trees_model, times=20)


def test_service_finishes_what_it_accepted_and_logs_no_secret(tmp_path: Path, trees_model: Path) -> None:
    folder = tmp_path / "workspace"
    secret = output_of("serve", "token", "--workspace", folder, "--name", "plc", "--scope", "write")[0].strip()
    assert secret.startswith("dft_")
    content = as_csv(fleet(1, n_normal=1, n_anomalous=0))
    with process(folder, None, "--model", str(trees_model), "--tokens") as (service, url):
        head = {"Content-Type": "text/csv", "Authorization": f"Bearer {secret}"}
        place = f"{url}{API}/recordings?asset=lift-1&name=a"
        answers: list[Any] = []

        def send() -> None:
            with urlopen(Request(place, content, head), timeout=60) as answer:
                answers.append(json.load(answer))

        client = threading.Thread(target=send)
        client.start()
        time.sleep(0.3)  # it waits for the process that reads
        service.send_signal(signal.SIGTERM)
        client.join()
        service.wait(30)
    assert [one["episode"] for one in answers[0]["recordings"]] == ["a"]
    log = (tmp_path / "log").read_text()
    assert secret not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    request = next(one for one in lines if one["event"] == "request" and one.get("method") == "POST")
    assert (request["path"], request["status"], request["caller"]) == ("/api/v1/recordings", 201, "plc")
    assert re.fullmatch("[0-9a-f]{32}", request["request_id"])
    assert any(one["event"] == "stopped" for one in lines)


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    code, _, told = run("serve", "--workspace", tmp_path / "w", "--host", "0.0.0.0")
    assert (code, "dfstrans serve token" in told) == (2, True)


@pytest.mark.slow
def test_examples_send_recordings_and_confirm_a_case(tmp_path: Path, trees_model: Path) -> None:
    recordings = fleet(1, n_normal=0, n_anomalous=6)
    files = [tmp_path / f"run-{row}.csv" for row in range(len(recordings))]
    for row, file in enumerate(files):
        file.write_bytes(as_csv(recordings[[row]]))
    with process(tmp_path / "workspace", None, "--model", str(trees_model)) as (_, url):
        place = [url, *map(str, files), "--asset", "lift-1", "--confirm", "bearing"]
        told = subprocess.run(
            [sys.executable, str(EXAMPLES / "client.py"), *place], capture_output=True, text=True, check=True
        ).stdout
        assert told.count("run-") >= len(files)
        assert "confirmed and closed" in told
        shell = ["sh", str(EXAMPLES / "client.sh"), url, str(files[0]), "lift-1"]
        answers = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [one["episode"] for one in json.loads(answers[0])["recordings"]] == ["run-0"]
    assert json.loads(answers[1])["total"] == 0
