"""Webhooks: events are sent to an address, signed, and again until the receiver accepts them."""

from __future__ import annotations

import hashlib
import heapq
import hmac
import json
import random
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dfstrans.errors import DfstransError, option_name
from dfstrans.scale.journal import Journal

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0  # seconds after the first failed attempt, and at most; each wait is doubled
TIMEOUT = 10.0  # seconds
MOST_DOUBLINGS = 20
Row = dict[str, Any]
_Entry = tuple[float, int, int, Row]  # due, order, failed attempts, event


class Webhook:
    """Sends events in the background, and records what the receiver has accepted.

    An event is in the journal once it was answered with 2xx. Others are sent again: after a wait, or by the next
    process. `Idempotency-Key` is the same each time, so that a receiver can drop an event that it accepted just before
    this process was killed.
    """

    def __init__(self, url: str, secret: bytes, delivered: Journal, remark: Callable[[str], None]) -> None:
        if not is_web_address(url):
            raise DfstransError(
                f"expected an address such as https://example.com/alarms for {option_name('webhook')}, got {url}"
            )
        self._url, self._secret, self._journal, self._remark = url, secret, delivered, remark
        self._done = {row["event"] for row in delivered}
        self._queue: list[_Entry] = []
        self._order, self._failing = 0, False
        self._changed, self._stopping = threading.Condition(), False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def send(self, event: Row) -> None:
        """Queue an event, unless it is delivered."""
        with self._changed:
            if event["event"] not in self._done:
                self._order += 1
                heapq.heappush(self._queue, (0.0, self._order, 0, event))
                self._changed.notify()

    @property
    def waiting(self) -> int:
        """The number of events that are not delivered."""
        return len(self._queue)

    def check(self) -> None:
        """Raise the error that ended the sending, such as a full disk."""
        if self._error is not None:
            raise self._error

    def stop(self, attempts: int = 0) -> None:
        """Stop after the present attempt, or once each event was delivered or sent this often.

        What is not delivered is sent by the next process.
        """
        while any(one[2] < attempts for one in list(self._queue)) and self._thread.is_alive():
            time.sleep(0.02)
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT)
        self.check()

    def _run(self) -> None:
        try:
            while (first := self._next()) is not None:
                self._deliver(first)
        except Exception as error:  # such as a full disk: raised in the main thread
            self._error = error

    def _next(self) -> _Entry | None:
        """Wait until an event is due and return it, still in the queue; None to stop."""
        with self._changed:
            while not self._stopping:
                left = self._queue[0][0] - time.monotonic() if self._queue else None
                if left is not None and left <= 0:
                    return self._queue[0]
                self._changed.wait(left)
        return None

    def _deliver(self, entry: _Entry) -> None:
        *_, attempts, event = entry
        problem = post(self._url, self._secret, event)
        if problem is None:
            self._journal.append([{"event": event["event"], "attempts": attempts + 1, "delivered": time.time()}])
        elif not self._failing:
            self._remark(f"warning: {self._url} has not accepted an event ({problem.reason}); it is sent again")
        self._failing = problem is not None
        with self._changed:
            if problem is None:
                self._done.add(event["event"])
                self._queue.remove(entry)
            else:  # without an answer, the others would wait for one, too
                self._queue = [_later(one) if one is entry or not problem.answered else one for one in self._queue]
            heapq.heapify(self._queue)


class Refusal(NamedTuple):
    """Why an event was not accepted, and whether there was an answer."""

    reason: str
    answered: bool


def post(url: str, secret: bytes, event: Row) -> Refusal | None:
    """Send an event, signed if there is a secret; return None if it was accepted."""
    body, now = json.dumps(event, allow_nan=False).encode(), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "dfstrans",
        "Idempotency-Key": event["event"],
        "Dfstrans-Timestamp": now,
    }
    if secret:
        headers["Dfstrans-Signature"] = f"sha256={signature(secret, now, body)}"
    try:
        with _OPENER.open(Request(url, body, headers, method="POST"), timeout=TIMEOUT) as answer:
            return None if 200 <= answer.status < 300 else Refusal(f"HTTP {answer.status}", True)
    except HTTPError as error:
        error.close()
        return Refusal(f"HTTP {error.code}", True)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: the name of the host is too long
        return Refusal(f"{type(error).__name__}: {error}", False)


def _later(entry: _Entry) -> _Entry:
    """Return an entry that failed once more, due after a longer wait."""
    due, order, attempts, event = entry
    wait = seconds_to_wait(attempts, FIRST_WAIT) * random.uniform(0.75, 1.25)
    return max(due, time.monotonic() + wait), order, attempts + 1, event


def seconds_to_wait(failures: int, first: float) -> float:
    """Return how long to wait for a receiver that has failed some times before."""
    return min(first * 2.0 ** min(failures, MOST_DOUBLINGS), LONGEST_WAIT)


def is_web_address(url: str) -> bool:
    """Return whether an event can be sent there."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        return False
    return usable and url.isascii() and url.isprintable() and " " not in url


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of `timestamp.body` in hexadecimal digits."""
    return hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def read_secret(path: Path) -> bytes:
    """Read a secret from a file, without white space around it."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise DfstransError(f"expected a file with a secret at {path}, but: {error}; check the path") from error
    if not secret:
        raise DfstransError(f"expected a secret in {path}, got an empty file; write one, such as 32 random characters")
    return secret


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse: a redirected POST would lose its body."""


_OPENER = build_opener(_NoRedirect)
