"""Candidates are trained from feedback in a process of their own, and promoted by people only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from dfstrans.service.database import Job
from dfstrans.service.jobs import JobRunner, TrainRequest, labelled_recordings, run_job
from dfstrans.service.workspace import Workspace
from tests.service.client import API, done, send, serving, with_model
from tests.service.conftest import fleet
from tests.service.test_sinks import wait_until

TRAIN = {"kind": "train", "members": "trees"}


def job(client: TestClient, number: int) -> dict[str, Any]:
    return dict(done(client.get(f"{API}/jobs/{number}")))


def queue_without_running(client: TestClient) -> None:
    """Keep the service from running jobs, so that a test does it in this process."""
    client.app.state.service.jobs._next = lambda: None  # type: ignore[attr-defined]


def run(workspace: Workspace, number: int) -> None:
    """Run a job in this process."""
    with workspace.writing() as session:
        session.get_one(Job, number).state = "running"
    run_job(workspace.folder, workspace.database.engine.url.render_as_string(hide_password=False), number)


def test_candidate_is_trained_from_feedback_compared_and_recognises(workspace: Workspace, trees_model: Path) -> None:
    with serving(workspace) as client:
        queue_without_running(client)
        active = with_model(client, trees_model)
        send(client, fleet(1), labels=True)
        number = done(client.post(f"{API}/jobs", json=TRAIN))["id"]
        run(workspace, number)
        found = job(client, number)
        assert (found["state"], found["progress"]) == ("finished", 1.0), found["message"]
        result = found["result"]
        assert result["active"] == active
        assert result["learned_from"] == {"anomaly": 16, "no anomaly": 48, "other_sensors": 0}
        held_out, comparison = result["held_out"], result["comparison"]
        assert held_out["by"] in ("machine", "recording")
        assert 0 < held_out["recordings"] < 64
        for name in ("active", "candidate"):
            assert comparison[name]["false_positives"] is not None
        assert comparison["seen_by_active"] == 0
        models = {one["id"]: one for one in done(client.get(f"{API}/models"))}
        assert (models[active]["active"], models[result["version"]]["active"]) == (True, False)
        assert models[result["version"]]["about"]["known_faults"] == ["burst", "offset"]
        done(client.post(f"{API}/models/{result['version']}/promote"))
        scored = send(client, fleet(2, n_normal=10, n_anomalous=5))["recordings"]
        assert {one["model"] for one in scored} == {models[result["version"]]["checksum"]}


def test_feedback_becomes_labels_and_faults(workspace: Workspace, trees_model: Path) -> None:
    with serving(workspace) as client:
        with_model(client, trees_model)
        rows = send(client, fleet(1, n_normal=6, n_anomalous=2))["recordings"]
        normal = [one for one in rows if one["case_id"] is None]
        where = {"start": 0.1, "end": 0.25, "sensors": ["S2", "S9"]}
        verdicts = [
            {"label": "anomaly", "fault_code": "worn", "faults": [where]},
            {"label": "neutral"},
            {"label": "no anomaly"},
        ]
        for one, verdict in zip(normal[:3], verdicts, strict=True):
            done(client.post(f"{API}/recordings/{one['id']}/feedback", json=verdict))
    request = TrainRequest(unlabelled_as_normal=False)
    episodes, counts = labelled_recordings(workspace, request, lambda *_: None)
    assert counts == {"anomaly": 1, "no anomaly": 1, "other_sensors": 0}
    assert episodes.require_labels().tolist() == [1, 0]
    [fault] = episodes.known_faults[0]
    assert fault[:4] == (10, 25, ("S2",), "worn")
    everything, _ = labelled_recordings(workspace, TrainRequest(), lambda *_: None)
    assert len(everything) == len(normal) - 1


def test_job_without_feedback_fails_with_the_remedy(workspace: Workspace) -> None:
    with serving(workspace) as client:
        queue_without_running(client)
        number = done(client.post(f"{API}/jobs", json=TRAIN))["id"]
        run(workspace, number)
        assert "say of some whether they are anomalies" in job(client, number)["message"]
        assert client.post(f"{API}/jobs/{number}/cancel").status_code == 422


@pytest.mark.slow
def test_cancelled_job_does_nothing_more(workspace: Workspace, trees_model: Path) -> None:
    with serving(workspace) as client:
        with_model(client, trees_model)
        send(client, fleet(1), labels=True)
        number = done(client.post(f"{API}/jobs", json=TRAIN))["id"]
        assert done(client.post(f"{API}/jobs/{number}/cancel"))["state"] == "cancelled"
        queued = done(client.post(f"{API}/jobs", json={"kind": "commission", "asset": 9999}))["id"]
        wait_until(lambda: job(client, queued)["state"] == "failed")  # the queue goes on
        assert job(client, number)["state"] == "cancelled"
        assert len(done(client.get(f"{API}/models"))) == 1


def test_job_of_a_killed_service_has_failed(workspace: Workspace) -> None:
    with workspace.writing() as session:
        session.add(one := Job(kind="train", state="running", settings=TRAIN, author="a"))
    runner = JobRunner(workspace)
    runner.start()
    runner.stop()
    with workspace.reading() as session:
        found = session.get_one(Job, one.id)
    assert (found.state, "start the job again" in found.message) == ("failed", True)


def test_baseline_of_a_new_asset_is_a_version(workspace: Workspace, trees_model: Path) -> None:
    with serving(workspace) as client:
        queue_without_running(client)
        with_model(client, trees_model)
        rows = send(client, fleet(1, n_normal=12, n_anomalous=0), asset="lift-9")["recordings"]
        asset = done(client.get(f"{API}/assets", params={"search": "lift-9"}))["items"][0]["id"]
        number = done(client.post(f"{API}/jobs", json={"kind": "commission", "asset": asset}))["id"]
        run(workspace, number)
        found = job(client, number)
        assert found["state"] == "finished", found["message"]
        assert found["result"]["recordings"] == sum(one["case_id"] is None for one in rows)
        version = done(client.get(f"{API}/models/{found['result']['version']}"))
        assert (version["origin"], version["active"], "lift-9" in version["about"]["machines"]) == (
            "commissioned",
            False,
            True,
        )
    assert np.isfinite(found["progress"])
