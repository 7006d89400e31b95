"""What systems that speak HTTP rely on, on both databases."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from dfstrans.data.episodes import Episodes
from dfstrans.detectors.registry import load_detector
from dfstrans.service.tokens import make_token, revoke_token
from dfstrans.service.uploads import JSON_EXAMPLE, Limits, ReaderPool
from dfstrans.service.workspace import Workspace
from tests.service.client import API, as_csv, done, send, serving, with_model
from tests.service.conftest import fleet

CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with serving(workspace) as opened:
        yield opened


@pytest.fixture
def scoring(client: TestClient, trees_model: Path) -> TestClient:
    with_model(client, trees_model)
    return client


@pytest.fixture(scope="module")
def recordings() -> Episodes:
    return fleet(1, n_normal=8, n_anomalous=4)


# ---- uploads --------------------------------------------------------------------------------------------------------


def test_recordings_get_the_scores_that_the_detector_gives(
    scoring: TestClient, trees_model: Path, recordings: Episodes
) -> None:
    answer = send(scoring, recordings)
    detector = load_detector(trees_model)
    assert [one["asset"] for one in answer["recordings"]] == recordings.require_groups().tolist()
    np.testing.assert_allclose(
        [one["probability"] for one in answer["recordings"]], detector.predict_proba(recordings)[:, 1], rtol=1e-9
    )
    assert [int(one["anomalous"]) for one in answer["recordings"]] == detector.predict(recordings).tolist()
    anomalous = next(one for one in answer["recordings"] if one["anomalous"])
    row = recordings.ids.tolist().index(anomalous["episode"])
    [diagnosis] = detector.diagnose(recordings[[row]], trust=True)  # type: ignore[attr-defined]
    expected = json.loads(json.dumps(diagnosis.to_dict()))
    assert anomalous["diagnosis"].keys() == expected.keys()
    assert anomalous["diagnosis"]["interpretation"][0]["sensor"] == expected["interpretation"][0]["sensor"]
    assert anomalous["diagnosis"]["summary"] == expected["summary"]


def test_same_recording_is_stored_once(scoring: TestClient, recordings: Episodes) -> None:
    first, second = send(scoring, recordings), send(scoring, recordings)
    assert [one["id"] for one in first["recordings"]] == [one["id"] for one in second["recordings"]]
    assert (first["known"], second["known"]) == (0, len(recordings))
    assert done(scoring.get(f"{API}/recordings"))["total"] == len(recordings)
    other = send(scoring, recordings[[0]], asset="lift-9")
    assert other["known"] == 0
    assert other["recordings"][0]["content"] == first["recordings"][0]["content"]


def test_uploads_at_the_same_time_are_stored_once(scoring: TestClient, recordings: Episodes) -> None:
    numbers: list[list[int]] = []

    def upload() -> None:
        numbers.append([one["id"] for one in send(scoring, recordings)["recordings"]])

    threads = [threading.Thread(target=upload) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(numbers) == len(threads)
    assert all(one == numbers[0] for one in numbers)
    assert done(scoring.get(f"{API}/recordings"))["total"] == len(recordings)
    cases = done(scoring.get(f"{API}/cases", params={"status": "all"}))["items"]
    assert len({one["asset"] for one in cases}) == len(cases)


def test_table_is_a_recording_with_the_name_of_its_file(scoring: TestClient, recordings: Episodes) -> None:
    query = {"asset": "lift 1/a", "name": "../run 7.csv"}
    answer = done(scoring.post(f"{API}/recordings", content=as_csv(recordings[[0]]), params=query, headers=CSV))
    [one] = answer["recordings"]
    assert (one["asset"], one["episode"]) == ("lift 1/a", "run 7")
    signals = done(scoring.get(f"{API}/recordings/{one['id']}/signals", params={"sensor": ["S2"]}))
    assert signals["sensors"] == ["S2"]
    np.testing.assert_allclose(signals["values"][0], recordings.values[0, 1], rtol=1e-5)


def test_recordings_are_kept_without_a_model_and_can_be_labelled(client: TestClient) -> None:
    [one] = done(client.post(f"{API}/recordings", json=JSON_EXAMPLE))["recordings"]
    assert (one["probability"], one["asset"], one["alarm"]) == (None, "lift-1", False)
    verdict = {"label": "anomaly", "fault_code": "bearing", "faults": [{"start": 0, "end": 0.02, "sensors": ["Ax"]}]}
    done(client.post(f"{API}/recordings/{one['id']}/feedback", json=verdict))
    found = done(client.get(f"{API}/recordings", params={"label": "anomaly"}))["items"]
    assert [(row["id"], row["fault_code"], row["faults"]) for row in found] == [
        (one["id"], "bearing", verdict["faults"])
    ]


def test_recording_that_does_not_suit_the_model_is_rejected_alone(scoring: TestClient, recordings: Episodes) -> None:
    values = {name: recordings.values[0, i].tolist() for i, name in enumerate(recordings.sensors)}
    silent = {name: [None] * 48 for name in recordings.sensors}
    upload = {"recordings": [{"id": "good", "values": values}, {"id": "silent", "values": silent}]}
    answer = done(scoring.post(f"{API}/recordings", json=upload, params={"asset": "lift-1"}))
    assert [one["episode"] for one in answer["recordings"]] == ["good"]
    assert [(one["episode"], "at least one value" in one["reason"]) for one in answer["rejected"]] == [("silent", True)]
    refused = scoring.post(f"{API}/recordings", json=JSON_EXAMPLE)
    assert refused.status_code == 422
    assert "missing: S1, S2, S3" in refused.json()["detail"]


# ---- cases ----------------------------------------------------------------------------------------------------------


def alarm(client: TestClient, asset: str, turn: int = 2) -> dict[str, Any]:
    """Send anomalous recordings; return the last that is an alarm."""
    answer = send(client, fleet(turn, n_normal=0, n_anomalous=6), asset=asset)
    return dict(next(one for one in reversed(answer["recordings"]) if one["alarm"]))


def test_detections_join_the_open_case_until_it_is_closed(scoring: TestClient) -> None:
    first = alarm(scoring, "lift-1")
    second = alarm(scoring, "lift-1", turn=3)
    assert second["case_id"] == first["case_id"]
    case = done(scoring.get(f"{API}/cases/{first['case_id']}"))
    assert case["evidence"] == len(case["recordings"]) >= 2
    assert case["probability"] == max(one["probability"] for one in case["recordings"])
    assert case["top_sensor"] in ("S1", "S2", "S3")
    verdict = {"label": "anomaly", "fault_code": "bearing 7", "note": "grease\nmissing"}
    done(scoring.post(f"{API}/cases/{case['id']}/feedback", json=verdict))
    closed = done(scoring.get(f"{API}/cases/{case['id']}"))
    assert closed["closed"] is not None
    assert {one["label"] for one in closed["recordings"]} == {"anomaly"}
    assert [(one["author"], one["note"]) for one in closed["feedback"]] == [("local", "grease\nmissing")]
    third = alarm(scoring, "lift-1", turn=4)
    assert third["case_id"] != case["id"]
    asset = done(scoring.get(f"{API}/assets", params={"search": "LIFT-1"}))["items"][0]
    assert (asset["open_case"], asset["closed_cases"]) == (third["case_id"], 1)


def test_cases_are_filtered_searched_and_paged(scoring: TestClient) -> None:
    numbers = [alarm(scoring, f"lift-{i}", turn=i)["case_id"] for i in range(3)]
    note = {"label": "no anomaly", "note": "changed 100% of the oil"}
    done(scoring.post(f"{API}/cases/{numbers[1]}/feedback", json=note))

    def found(**query: Any) -> list[int]:
        return [one["id"] for one in done(scoring.get(f"{API}/cases", params=query))["items"]]

    assert sorted(found()) == [numbers[0], numbers[2]]
    assert found(status="all", order="newest") == numbers[::-1]
    assert found(status="all", order="newest", limit=1, offset=1) == [numbers[1]]
    assert found(status="all", label="no anomaly") == [numbers[1]]
    assert found(status="all", asset="lift-2") == [numbers[2]]
    assert found(status="all", search="100% OF") == [numbers[1]]
    assert found(status="all", search="1_0%") == []
    page = done(scoring.get(f"{API}/cases", params={"status": "all", "limit": 1}))
    assert page["total"] == 3
    probabilities = [one["probability"] for one in done(scoring.get(f"{API}/cases", params={"status": "all"}))["items"]]
    assert probabilities == sorted(probabilities, reverse=True)


def test_feedback_on_a_recording_outlasts_that_on_its_case(scoring: TestClient) -> None:
    first, second = alarm(scoring, "lift-1"), alarm(scoring, "lift-1", turn=3)
    done(scoring.post(f"{API}/recordings/{second['id']}/feedback", json={"label": "neutral"}))
    done(scoring.post(f"{API}/cases/{first['case_id']}/feedback", json={"label": "anomaly"}, params={"close": False}))
    labels = {one: done(scoring.get(f"{API}/recordings/{one}"))["label"] for one in (first["id"], second["id"])}
    assert labels == {first["id"]: "anomaly", second["id"]: "neutral"}
    assert done(scoring.get(f"{API}/cases/{first['case_id']}"))["closed"] is None


# ---- models ---------------------------------------------------------------------------------------------------------


def test_promotion_and_rollback_are_recorded(client: TestClient, trees_model: Path, workspace: Workspace) -> None:
    first = with_model(client, trees_model)
    assert done(client.post(f"{API}/models", json={"folder": str(trees_model)}))["id"] == first
    detector = load_detector(trees_model)
    detector.commission(fleet(3), replace=True)  # type: ignore[attr-defined]
    detector.save(workspace.incoming / "other")
    second = with_model(client, workspace.incoming / "other")
    assert [one["active"] for one in done(client.get(f"{API}/models"))] == [True, False]
    again = client.post(f"{API}/models/{second}/promote")
    assert (again.status_code, "is not active" in again.json()["detail"]) == (422, True)
    assert done(client.post(f"{API}/models/rollback"))["version_id"] == first
    assert [one["active"] for one in done(client.get(f"{API}/models"))] == [False, True]
    assert client.post(f"{API}/models/rollback").status_code == 422
    history = [(one["action"], one["version_id"]) for one in done(client.get(f"{API}/promotions"))]
    assert history == [("rollback", first), ("promote", second), ("promote", first)]


def test_folder_without_a_model_is_refused(client: TestClient, tmp_path: Path) -> None:
    refused = client.post(f"{API}/models", json={"folder": str(tmp_path)})
    assert (refused.status_code, "expected a saved model" in refused.json()["detail"]) == (422, True)


# ---- errors, limits, tokens -----------------------------------------------------------------------------------------


def test_errors_have_one_shape(client: TestClient) -> None:
    answers = [
        client.get(f"{API}/cases/7"),
        client.get(f"{API}/nothing"),
        client.get(f"{API}/cases", params={"limit": "many"}),
        client.delete(f"{API}/cases"),
        client.post(f"{API}/recordings", content=b"x", headers={"Content-Type": "text/plain"}),
        client.post(f"{API}/recordings", content=b"", headers=CSV, params={"asset": "a"}),
        client.post(f"{API}/cases/1/feedback", content=b"[" * 100_000, headers={"Content-Type": "application/json"}),
        client.post(f"{API}/cases/1/feedback", content=b'{"label": NaN}', headers={"Content-Type": "application/json"}),
    ]
    assert [one.status_code for one in answers] == [404, 404, 422, 405, 415, 422, 400, 422]
    for one in answers:
        assert one.headers["content-type"] == "application/problem+json"
        content = one.json()
        assert {"type", "title", "status", "detail", "instance", "request_id"} <= content.keys()
        assert content["status"] == one.status_code
        assert content["request_id"] == one.headers["x-request-id"]


def test_request_id_of_the_caller_is_kept_if_it_is_harmless(client: TestClient) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "plc-7.1"}).headers["x-request-id"] == "plc-7.1"
    assert len(client.get("/healthz", headers={"X-Request-ID": 'a"b'}).headers["x-request-id"]) == 32


def test_upload_beyond_a_limit_is_refused_while_it_arrives(workspace: Workspace) -> None:
    with serving(workspace, readers=ReaderPool(Limits(megabytes=1))) as client:

        def endless() -> Iterator[bytes]:
            yield from (b"0.0,1.0,2.0\n" * 10_000 for _ in range(1000))

        answer = client.post(f"{API}/recordings", content=endless(), headers=CSV, params={"asset": "a"})
        assert (answer.status_code, answer.json()["title"]) == (413, "Too large")
        assert list(workspace.incoming.iterdir()) == []
        big = client.post(f"{API}/cases/1/feedback", json={"label": "anomaly", "note": "x" * (2 << 20)})
        assert big.status_code == 413


def test_too_many_uploads_at_a_time_are_refused_at_once(workspace: Workspace) -> None:
    with serving(workspace, uploads_at_once=1) as client:
        client.app.state.service.uploads = 1  # type: ignore[attr-defined]
        answer = client.post(f"{API}/recordings", content=b"x", headers=CSV)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.get("/readyz").status_code == 503
        client.app.state.service.uploads = 0  # type: ignore[attr-defined]
        assert done(client.get("/readyz")) == {
            "ready": True,
            "checks": {"scoring": True, "uploads": True, "database": True},
        }


def test_metrics_count_requests_and_recordings(scoring: TestClient, recordings: Episodes) -> None:
    send(scoring, recordings)
    send(scoring, recordings)
    text = scoring.get("/metrics").text
    assert f'dfstrans_recordings_total{{outcome="new"}} {len(recordings)}.0' in text
    assert f'dfstrans_recordings_total{{outcome="known"}} {len(recordings)}.0' in text
    assert 'dfstrans_requests_total{method="POST",path="/api/v1/recordings",status="200"} 1.0' in text


def test_tokens_allow_what_their_scope_says(workspace: Workspace) -> None:
    with workspace.writing() as session:
        tokens = {scope: make_token(session, scope, scope) for scope in ("read", "write", "admin")}  # type: ignore[arg-type]
        gone = make_token(session, "gone", "admin")
        revoke_token(session, "gone")
    with serving(workspace, require_tokens=True) as client:

        def statuses(secret: str | None) -> list[int]:
            headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
            return [
                client.get(f"{API}/cases", headers=headers).status_code,
                client.post(f"{API}/assets", json={"name": "a"}, headers=headers).status_code,
                client.post(f"{API}/models/rollback", headers=headers).status_code,
            ]

        assert statuses(tokens["read"]) == [200, 403, 403]
        assert statuses(tokens["write"]) == [200, 201, 403]
        assert statuses(tokens["admin"]) == [200, 201, 422]
        for wrong in (None, gone, "x", tokens["admin"][:-1]):
            assert statuses(wrong) == [401, 401, 401]
        assert client.get("/healthz").status_code == 200
    stored = b"".join(file.read_bytes() for file in workspace.folder.glob("dfstrans.db*"))
    assert tokens["admin"].encode() not in stored


def test_without_tokens_other_hosts_and_sites_are_refused(client: TestClient) -> None:
    assert client.get(f"{API}/cases", headers={"Host": "evil.example"}).status_code == 403
    headers = {"Origin": "http://evil.example"}
    assert client.post(f"{API}/assets", json={"name": "a"}, headers=headers).status_code == 403
    assert client.post(f"{API}/assets", json={"name": "a"}, headers={"Origin": "http://127.0.0.1"}).status_code == 201
