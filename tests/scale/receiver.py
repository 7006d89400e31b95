"""A receiver of webhooks, as tests need it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[int], int]  # from the number of a request to the status


class Receiver:
    """Answers requests; `accepted` counts the events answered with 200, and `bodies` has what each contained."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.requests = answer, 0
        self.accepted, self.bodies = Counter[str](), dict[str, Any]()
        self.headers: list[tuple[dict[str, str], bytes]] = []
        self.url = ""


@contextmanager
def receiver(answer: Answer = lambda _: 200) -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    found = Receiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests += 1
            found.headers.append((dict(self.headers), body))
            status = found.answer(found.requests)
            if status == 200:
                event = self.headers["Idempotency-Key"]
                found.accepted[event] += 1
                found.bodies[event] = json.loads(body)
            self.send_response(status)
            self.send_header("Location", found.url)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}/alarms"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
