"""Events reach their sinks, signed, once each, whatever fails in between."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from dfstrans.errors import DfstransError
from dfstrans.scale.webhook import signature
from dfstrans.service.cases import announce
from dfstrans.service.database import Asset, Delivery, Sink
from dfstrans.service.sinks import Sender, check_target
from dfstrans.service.workspace import Workspace
from tests.service.client import API, done, serving, with_model
from tests.service.test_api import alarm


class Receiver:
    """A web server that refuses the first requests and keeps the others."""

    def __init__(self, refuse: int = 0) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        receiver = self
        left = [refuse]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                left[0] -= 1
                if left[0] < 0:
                    receiver.requests.append((dict(self.headers), body))
                self.send_response(503 if left[0] >= 0 else 204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alarms"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    opened = Receiver(refuse=2)
    yield opened
    opened.close()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within 12 s")


def waiting(workspace: Workspace) -> int:
    with workspace.reading() as session:
        return len(session.scalars(select(Delivery.id).where(Delivery.delivered.is_(None))).all())


def test_event_is_signed_and_sent_until_it_is_accepted_once(workspace: Workspace, receiver: Receiver) -> None:
    with workspace.writing() as session:
        session.add(Sink(kind="webhook", target=receiver.url, secret="s", author="a"))
        session.flush()
        for number in range(3):
            announce(session, "case.opened", str(number), {"case": {"id": number}})
    for _ in range(2):  # the second finds nothing to send
        sender = Sender(workspace, first_wait=0.02)
        sender.start()
        wait_until(lambda: waiting(workspace) == 0)
        sender.stop()
    assert [json.loads(body)["event"] for _, body in receiver.requests] == [f"case.opened/{n}" for n in range(3)]
    headers, body = receiver.requests[0]
    assert headers["Idempotency-Key"] == "case.opened/0"
    assert headers["Dfstrans-Signature"] == f"sha256={signature(b's', headers['Dfstrans-Timestamp'], body)}"
    with workspace.reading() as session:
        assert session.scalars(select(Delivery.attempts).order_by(Delivery.id)).all() == [3, 1, 1]


def test_event_of_a_failed_transaction_is_not_sent(workspace: Workspace) -> None:
    with workspace.writing() as session:
        session.add(Sink(kind="folder", target="desk", author="a"))

    def announced_and_failed() -> None:
        with workspace.writing() as session:
            announce(session, "case.opened", "1", {})
            session.add_all([Asset(name="lift-1"), Asset(name="lift-1")])

    with pytest.raises(IntegrityError):
        announced_and_failed()
    assert waiting(workspace) == 0
    with workspace.writing() as session:
        announce(session, "case.opened", "1", {})
    assert waiting(workspace) == 1


def test_alarm_reaches_a_folder_as_a_file(workspace: Workspace, trees_model: Path) -> None:
    with serving(workspace) as client:
        with_model(client, trees_model)
        added = done(client.post(f"{API}/sinks", json={"kind": "folder", "target": "shift desk"}))
        assert added["secret"] is None
        found = alarm(client, "lift-1")
        done(client.post(f"{API}/cases/{found['case_id']}/feedback", json={"label": "anomaly"}))
        wait_until(lambda: waiting(workspace) == 0)
        assert done(client.get(f"{API}/sinks"))[0]["waiting"] == 0
        assert client.delete(f"{API}/sinks/{added['id']}").status_code == 204
        assert done(client.get(f"{API}/sinks")) == []
    folder = workspace.events / "shift desk"
    opened = json.loads((folder / f"case.opened-{found['case_id']}.json").read_text())
    assert opened["case"]["probability"] > 0
    assert (folder / f"case.closed-{found['case_id']}.json").exists()
    assert len(list(folder.glob("case.evidence-*"))) == len(list(folder.iterdir())) - 2


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("webhook", "ftp://x/y"),
        ("webhook", "alarms"),
        ("webhook", "http://"),
        ("webhook", "http://x:99999/"),
        ("folder", ".."),
        ("folder", "../x"),
        ("folder", "/etc"),
    ],
)
def test_unusable_target_is_refused(kind: str, target: str) -> None:
    with pytest.raises(DfstransError, match="expected"):
        check_target(kind, target)
