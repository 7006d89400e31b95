"""Sinks: events are sent to webhooks, signed, or written to a folder, until each was accepted once."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dfstrans.errors import DfstransError
from dfstrans.files import atomic_write
from dfstrans.scale.webhook import FIRST_WAIT, LONGEST_WAIT, TIMEOUT, is_web_address, post, seconds_to_wait
from dfstrans.service.database import Delivery, Sink, now
from dfstrans.service.workspace import Workspace

logger = logging.getLogger(__name__)


def check_target(kind: str, target: str) -> None:
    """Reject a webhook without an address, or a folder that is not a plain name."""
    if kind == "webhook":
        if not is_web_address(target):
            raise DfstransError(f"expected an address such as https://example.com/alarms for a webhook, got {target!r}")
    elif target in (".", "..") or not all(one.isalnum() or one in "-_. " for one in target):
        raise DfstransError(
            f"expected the name of a folder in the workspace's folder of events, such as shift-desk, got {target!r}"
        )


def sink_facts(session: Session, sink: Sink) -> dict[str, Any]:
    """Return what is known of a sink, for JSON; never its secret."""
    waiting = select(func.count()).where(Delivery.sink_id == sink.id, Delivery.delivered.is_(None))
    return {
        "id": sink.id,
        "kind": sink.kind,
        "target": sink.target,
        "signed": sink.secret is not None,
        "created": sink.created,
        "waiting": session.scalar(waiting) or 0,
    }


class Sender:
    """A thread that sends what waits; a sink that fails is left alone for a while, longer each time."""

    def __init__(self, workspace: Workspace, first_wait: float = FIRST_WAIT) -> None:
        self.workspace, self._first_wait = workspace, first_wait
        self._due: dict[int, float] = {}  # by sink
        self._failures: dict[int, int] = {}
        self._wake, self._stopping = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="sinks", daemon=True)

    def start(self) -> None:
        """Begin to send, first what an earlier process left."""
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """Look for new events."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the present attempt; what is not sent is sent by the next process."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None)
            self._wake.clear()
            try:
                while not self._stopping and self._send_some():
                    pass
            except Exception:  # such as a database that is away
                logger.exception("sending events failed")
                self._due[0] = time.monotonic() + LONGEST_WAIT / 10

    def _send_some(self) -> bool:
        """Send the first waiting event of each sink that is due; return whether any was accepted."""
        self._due = {sink: due for sink, due in self._due.items() if due > time.monotonic()}
        first = (
            select(func.min(Delivery.id))
            .join(Sink, Sink.id == Delivery.sink_id)
            .where(Delivery.delivered.is_(None), Sink.removed.is_(None), Sink.id.not_in(list(self._due)))
            .group_by(Sink.id)
        )
        with self.workspace.reading() as session:
            chosen = session.execute(
                select(Delivery, Sink).join(Sink, Sink.id == Delivery.sink_id).where(Delivery.id.in_(first))
            ).all()
        accepted = False
        for delivery, sink in chosen:
            problem = self._deliver(sink, delivery)
            with self.workspace.writing() as session:
                row = session.get_one(Delivery, delivery.id)
                row.attempts += 1
                row.delivered = now() if problem is None else None
            if problem is None:
                self._failures.pop(sink.id, None)
                accepted = True
            else:
                failures = self._failures[sink.id] = self._failures.get(sink.id, 0) + 1
                self._due[sink.id] = time.monotonic() + seconds_to_wait(failures - 1, self._first_wait)
                if failures == 1:
                    logger.warning(
                        "a sink has not accepted an event; it is sent again",
                        extra={"sink": sink.id, "problem": problem},
                    )
        return accepted

    def _deliver(self, sink: Sink, delivery: Delivery) -> str | None:
        """Send an event; return why it was not accepted, None if it was."""
        if sink.kind == "webhook":
            refusal = post(sink.target, (sink.secret or "").encode(), delivery.content)
            return None if refusal is None else refusal.reason
        body = json.dumps(delivery.content, allow_nan=False).encode()
        try:
            write_event(self.workspace.events / sink.target, delivery.event, body)
        except DfstransError as error:
            return str(error)
        return None


def write_event(folder: Path, event: str, body: bytes) -> None:
    """Write an event to the file that it names, so that writing it again changes nothing."""
    with atomic_write(folder / f"{event.replace('/', '-')}.json") as temporary:
        temporary.write_bytes(body)
