"""The OpenAPI document describes the service, and no request that it allows, or nearly allows, makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from dfstrans.service.workspace import Workspace
from tests.service.client import API, done, send, serving, with_model
from tests.service.conftest import fleet
from tests.service.test_api import alarm

schemathesis = pytest.importorskip("schemathesis", reason="needs the extra dev")


@pytest.fixture
def described(workspace: Workspace, trees_model: Path) -> Iterator[Any]:
    """The schema of a service that has something of everything."""
    with serving(workspace) as client:
        with_model(client, trees_model)
        alarm(client, "lift-1")
        send(client, fleet(1, n_normal=4, n_anomalous=0))
        done(client.post(f"{API}/sinks", json={"kind": "folder", "target": "desk"}))
        client.app.state.service.jobs._next = lambda: None  # type: ignore[attr-defined]
        yield client


def test_every_operation_is_described(workspace: Workspace) -> None:
    with serving(workspace) as client:
        document = done(client.get(f"{API}/openapi.json"))
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len(operations) >= 30
    assert all(one.get("description") or one.get("summary") for one in operations)
    assert all(one["tags"] for one in operations)
    upload = document["paths"][f"{API}/recordings"]["post"]["requestBody"]["content"]
    assert upload["application/json"]["example"]["recordings"][0]["id"] == "run 7"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_request_makes_the_service_fail(described: Any) -> None:
    schema = schemathesis.openapi.from_dict(done(described.get(f"{API}/openapi.json")))
    asked = 0
    for operation in schema.get_all_operations():
        operation = operation.ok()

        @hypothesis.settings(
            max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
        )
        @hypothesis.given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            sent = case.as_transport_kwargs(base_url="http://127.0.0.1")
            answer = described.request(**{name: value for name, value in sent.items() if name != "cookies"})
            assert answer.status_code < 500, (case.method, case.path, answer.text)

        ask()
    assert asked > 500
