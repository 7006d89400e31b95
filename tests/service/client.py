"""A client of the service inside this process, and recordings to send."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import pandas as pd
from fastapi.testclient import TestClient

from dfstrans.data.episodes import Episodes
from dfstrans.data.writers import save_episodes
from dfstrans.service.app import create_app
from dfstrans.service.uploads import Limits, ReaderPool
from dfstrans.service.workspace import Workspace

API = "/api/v1"


class LastingPool(ReaderPool):
    """One process that reads for all tests."""

    def close(self) -> None:
        """Stay; the process ends with that of the tests."""


READERS = LastingPool(Limits(), size=1)


@contextmanager
def serving(workspace: Workspace, **options: Any) -> Iterator[TestClient]:
    """Serve a workspace to a client on this computer."""
    app = create_app(workspace, **{"readers": READERS, **options})
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def as_npz(episodes: Episodes) -> bytes:
    with TemporaryDirectory() as folder:
        return save_episodes(episodes, Path(folder) / "a.npz").read_bytes()


def as_csv(episodes: Episodes) -> bytes:
    """One recording as a table with its time."""
    frame = pd.DataFrame(dict(zip(episodes.sensors, episodes.values[0], strict=True)))
    frame.insert(0, "time", [point * (episodes.interval or 1) for point in range(len(frame))])
    target = io.StringIO()
    frame.to_csv(target, index=False)
    return target.getvalue().encode()


def send(client: TestClient, episodes: Episodes, **query: Any) -> dict[str, Any]:
    """Send recordings and return the answer."""
    answer = client.post(
        f"{API}/recordings", content=as_npz(episodes), params=query, headers={"Content-Type": "application/x-npz"}
    )
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def with_model(client: TestClient, model: Path) -> int:
    """Register and promote a model; return its version."""
    number = int(done(client.post(f"{API}/models", json={"folder": str(model)}))["id"])
    done(client.post(f"{API}/models/{number}/promote"))
    return number


def done(answer: Any) -> Any:
    """Return the content of an answer that is no error."""
    assert answer.status_code < 300, answer.text
    return answer.json()


class Caller:
    """A client of a service on a port."""

    def __init__(self, base: str) -> None:
        self.base = base + API

    def _ask(self, method: str, path: str, body: bytes | None, kind: str) -> Any:
        request = Request(self.base + path, body, {"Content-Type": kind}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None, "")

    def post(self, path: str, body: Any = None) -> Any:
        return self._ask("POST", path, json.dumps(body or {}).encode(), "application/json")

    def upload(self, content: bytes, asset: str, name: str) -> Any:
        """Send a CSV file."""
        return self._ask("POST", f"/recordings?asset={asset}&name={name}", content, "text/csv")
