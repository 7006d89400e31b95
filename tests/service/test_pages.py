"""The pages of the service: over plain HTTP, and in a browser."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import uvicorn
from fastapi.testclient import TestClient

from dfstrans.data.episodes import Episodes
from dfstrans.data.writers import save_episodes
from dfstrans.detectors.registry import load_detector
from dfstrans.report.views import spans
from dfstrans.service.app import create_app
from dfstrans.service.evidence import spans_to_look_at
from dfstrans.service.workspace import Workspace
from tests.report.test_pages_in_browser import CHROMIUM, PATIENCE, QUIET
from tests.service.client import API, READERS, Caller, as_csv, done, send, serving, with_model
from tests.service.conftest import fleet


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:  # one database suffices: the queries are those of the interface
    opened = Workspace(tmp_path / "workspace", None)
    yield opened
    opened.close()


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with serving(workspace) as opened:
        yield opened


@pytest.fixture(scope="module")
def recordings() -> Episodes:
    return fleet(1, n_normal=8, n_anomalous=4)


def shown(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    assert not re.search(r"\sstyle=|<style|<script(?! src)|\son[a-z]+=", answer.text)  # which the policy forbids
    return answer.text


def cases_of(client: TestClient) -> list[dict[str, Any]]:
    return list(done(client.get(f"{API}/cases"))["items"])


# ---- over HTTP ------------------------------------------------------------------------------------------------------


def test_inbox_lists_what_its_twin_does_in_the_same_order(
    client: TestClient, trees_model: Path, recordings: Episodes
) -> None:
    assert "No open case" in shown(client, "/")
    with_model(client, trees_model)
    send(client, recordings)
    cases = cases_of(client)
    assert cases
    text = shown(client, "/")
    assert re.findall(r'id="case-(\d+)"', text) == [str(one["id"]) for one in cases]
    for one in cases:
        assert one["asset"] in text
        assert one["top_sensor"] in text
    one = cases[-1]
    assert re.findall(r'id="case-(\d+)"', shown(client, f"/?asset={one['asset']}&search=")) == [str(one["id"])]
    assert "No case matches" in shown(client, "/?status=closed")
    assert "order" in shown(client, "/?order=shuffled", 422)
    for found in re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', text):
        assert done(client.get(found))["total"] == len(cases)


def test_spark_line_is_a_picture(client: TestClient, trees_model: Path, recordings: Episodes) -> None:
    with_model(client, trees_model)
    send(client, recordings)
    answer = client.get(f"{API}/cases/{cases_of(client)[0]['id']}/spark.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.text.count("L") > 20
    assert "<rect" in answer.text


def test_case_says_what_the_report_of_its_recording_says(
    client: TestClient, trees_model: Path, recordings: Episodes
) -> None:
    with_model(client, trees_model)
    send(client, recordings)
    one = cases_of(client)[0]
    text = shown(client, f"/cases/{one['id']}")
    whole = done(client.get(f"{API}/cases/{one['id']}"))
    first = max(whole["recordings"], key=lambda row: row["probability"])
    row = recordings.ids.tolist().index(first["episode"])
    [diagnosis] = load_detector(trees_model).diagnose(recordings[[row]], trust=True)  # type: ignore[attr-defined]
    assert spans_to_look_at(first["diagnosis"]) == spans(diagnosis)
    assert f"probability {100 * diagnosis.probability:.1f} %" in text
    assert diagnosis.clock.span(spans(diagnosis)[0].start, spans(diagnosis)[0].end, " to ") in text
    assert diagnosis.trees_words in text
    report = client.get(f"{API}/recordings/{first['id']}/report")
    assert report.status_code == 200
    for words in (f"probability {100 * diagnosis.probability:.1f} %", diagnosis.trees_words):
        assert words in report.text


def test_signals_keep_their_peaks_and_have_the_range_of_the_diagnosis(
    client: TestClient, trees_model: Path, recordings: Episodes
) -> None:
    with_model(client, trees_model)
    [first, *_] = [one for one in send(client, recordings)["recordings"] if one["anomalous"]]
    row = recordings.ids.tolist().index(first["episode"])
    values = np.asarray(recordings.values)[row]
    plot = done(client.get(f"{API}/recordings/{first['id']}/plot"))
    assert [one["sensor"] for one in plot["series"]] == list(recordings.sensors)
    np.testing.assert_allclose([one["values"] for one in plot["series"]], values, rtol=1e-5)
    few = done(client.get(f"{API}/recordings/{first['id']}/plot?most=10"))["series"]
    assert max(len(one["values"]) for one in few) <= 10
    np.testing.assert_allclose([max(one["values"]) for one in few], values.max(axis=1), rtol=1e-5)
    [diagnosis] = load_detector(trees_model).diagnose(recordings[[row]])  # type: ignore[attr-defined]
    step = recordings.interval or 1.0
    for sensor, one in enumerate(plot["series"]):
        at = np.arange(values.shape[1]) * step
        np.testing.assert_allclose(
            one["low"], np.interp(at, diagnosis.places, diagnosis.normal_range[:, sensor, 0]), rtol=1e-5
        )
    part = done(client.get(f"{API}/recordings/{first['id']}/plot", params={"start": 10 * step, "end": 20 * step}))
    assert part["series"][0]["start"] == pytest.approx(10 * step)
    assert len(part["series"][0]["values"]) == 11
    assert client.get(f"{API}/recordings/{first['id']}/plot?sensor=nothing").status_code == 422


def test_recording_without_a_model_can_be_labelled(client: TestClient, recordings: Episodes) -> None:
    [one] = send(client, recordings[[0]])["recordings"]
    text = shown(client, f"/recordings/{one['id']}")
    assert "it can be labelled all the same" in text
    assert f'data-to="{API}/recordings/{one["id"]}/feedback"' in text


def test_what_people_write_is_shown_as_text(client: TestClient, trees_model: Path, recordings: Episodes) -> None:
    with_model(client, trees_model)
    hostile = '"><script>alert(1)</script>'
    send(client, replace(recordings, groups=np.array([hostile] * len(recordings))))
    [one] = cases_of(client)
    done(
        client.post(
            f"{API}/cases/{one['id']}/feedback", json={"label": "anomaly", "note": hostile, "fault_code": hostile}
        )
    )
    for address in (f"/cases/{one['id']}", "/?status=all"):
        assert "<script>alert" not in shown(client, address)


def test_asset_shows_its_baseline_its_cases_and_its_recordings(
    client: TestClient, trees_model: Path, recordings: Episodes
) -> None:
    assert "The first recording of a machine makes one" in shown(client, "/assets")
    send(client, recordings[[0]])
    assert "No model is active" in shown(client, "/assets/1")
    with_model(client, trees_model)
    send(client, recordings)
    send(client, recordings[[0]], asset="new one")
    assert "with its own baseline" in shown(client, "/assets/1")
    for asset in done(client.get(f"{API}/assets"))["items"]:
        assert f'<a href="/assets/{asset["id"]}">{asset["name"]}</a>' in shown(client, "/assets")
        text = shown(client, f"/assets/{asset['id']}")
        assert ("has no baseline of new one" in text) == (asset["name"] == "new one")
        mine = done(client.get(f"{API}/recordings", params={"asset": asset["name"]}))["items"]
        assert re.findall(r'href="/recordings/(\d+)"', text) == [str(one["id"]) for one in mine]
    assert "lift-0" not in shown(client, "/assets?search=new")


def test_models_show_their_metrics_and_which_one_is_active(client: TestClient, trees_model: Path) -> None:
    assert "There is no model yet" in shown(client, "/models")
    with_model(client, trees_model)
    text = shown(client, "/models")
    [one] = done(client.get(f"{API}/models"))
    assert f"{one['about']['metrics']['test']['pr_auc']:.3f}" in text
    assert one["about"]["threshold_note"] in text
    assert text.count(">active<") == 1


def test_errors_are_pages_too(client: TestClient) -> None:
    assert "expected the number of a case, got 77" in shown(client, "/cases/77", 404).replace("Expected", "expected")
    assert "To the inbox" in shown(client, "/cases/none", 422)


def test_pages_require_the_token_that_their_twins_require(workspace: Workspace) -> None:
    with serving(workspace, require_tokens=True) as client:
        for address in ("/", "/cases/1", f"{API}/cases", f"{API}/events"):
            assert client.get(address).status_code == 401


# ---- in a browser ---------------------------------------------------------------------------------------------------


@contextmanager
def on_a_port(workspace: Workspace) -> Iterator[str]:
    """Serve on a free port, for clients outside this process."""
    app = create_app(workspace, readers=READERS)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    app.state.service.leaving = lambda: server.should_exit
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{free.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'dfstrans[dev]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split(), timeout=PATIENCE)
        yield browser
        browser.close()


def raise_alarm(api: Caller, model: Path, recordings: Episodes) -> None:
    """Send the recording that a model is surest of."""
    worst = int(load_detector(model).predict_proba(recordings)[:, 1].argmax())
    asset = recordings.require_groups()[worst]
    [one] = api.upload(as_csv(recordings[[worst]]), asset, "run-1.csv")["recordings"]
    assert one["alarm"]


class Visit:
    """A page in the browser, with what it complains about and what it asks others for."""

    def __init__(self, chromium: Any, base: str, *, width: int = 1280, scheme: str = "light") -> None:
        self.base, self.complaints, self.foreign = base, list[str](), list[str]()
        self.page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=base)
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.base):
            self.foreign.append(request.url)

    def open(self, address: str) -> None:
        self.page.goto(address)
        if "/cases/" in address or "/recordings/" in address:
            self.page.wait_for_selector("#signals[data-drawn]")

    def drag(self, panel: int, start: float, end: float) -> None:
        """Drag over a signal, from one share of its width to another."""
        place = self.page.locator(".u-over").nth(panel)
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + start * box["width"], y)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + end * box["width"], y, steps=4)
        self.page.mouse.up()

    def check(self) -> None:
        assert not self.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert (self.complaints, self.foreign) == ([], [])


def test_an_alarm_appears_by_itself_and_is_confirmed_in_five_clicks(
    chromium: Any, workspace: Workspace, trees_model: Path, recordings: Episodes
) -> None:
    with on_a_port(workspace) as base:
        api = Caller(base)
        api.post("/models", {"folder": str(trees_model)})
        api.post("/models/1/promote")
        visit = Visit(chromium, base)
        page = visit.page
        visit.open("/")
        page.wait_for_selector("body[data-listening]")
        raise_alarm(api, trees_model, recordings)
        page.wait_for_selector("a.case")  # it came by itself
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.id") == "case-1"
        page.keyboard.press("Enter")  # the first click
        page.wait_for_selector("#signals[data-drawn]")
        page.click("label.choice >> nth=0")  # the second one
        visit.drag(0, 0.25, 0.5)  # the third one
        assert page.locator("#marks li").count() == 1
        page.fill("[name=fault_code]", "bearing")
        page.fill("[name=note]", "it\nrattles")
        page.click("#feedback button.main")  # the fourth one
        page.wait_for_url(f"{base}/")
        page.wait_for_selector("text=No open case")
        visit.check()
        case = api.get("/cases/1")
        assert (case["label"], case["fault_code"], case["closed"] is None) == ("anomaly", "bearing", False)
        [said] = case["feedback"]
        [fault] = said["faults"]
        length = recordings.n_timepoints * (recordings.interval or 1.0)
        assert fault["start"] == pytest.approx(0.25 * length, abs=0.02 * length)
        assert fault["end"] == pytest.approx(0.5 * length, abs=0.02 * length)
        assert fault["sensors"] == [case["top_sensor"]]
        assert said["note"] == "it\nrattles"
        visit.open("/cases/1")
        assert "rattles" in page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_and_signals_zoom_together(
    chromium: Any, workspace: Workspace, trees_model: Path, recordings: Episodes, scheme: str
) -> None:
    with on_a_port(workspace) as base:
        api = Caller(base)
        api.post("/models", {"folder": str(trees_model)})
        api.post("/models/1/promote")
        raise_alarm(api, trees_model, recordings)
        visit = Visit(chromium, base, width=400, scheme=scheme)
        for address in ("/", "/assets", "/assets/1", "/models"):
            visit.open(address)
            visit.check()
        visit.open("/cases/1")
        whole = visit.page.get_attribute("#signals", "data-range")
        visit.drag(1, 0.5, 0.75)
        visit.page.wait_for_selector(f"#signals:not([data-range='{whole}'])")
        start, end = json.loads(visit.page.get_attribute("#signals", "data-range"))
        assert start > 0
        assert end - start == pytest.approx(0.25 * json.loads(whole)[1], rel=0.1)
        visit.page.focus("#signals")
        visit.page.keyboard.press("0")
        visit.page.wait_for_selector(f"#signals[data-range='{whole}']")
        visit.check()


def test_files_are_uploaded_and_a_candidate_is_trained_promoted_and_rolled_back(
    chromium: Any, workspace: Workspace, trees_model: Path, tmp_path: Path
) -> None:
    with on_a_port(workspace) as base:
        api = Caller(base)
        api.post("/models", {"folder": str(trees_model)})
        api.post("/models/1/promote")
        visit = Visit(chromium, base)
        page = visit.page
        page.set_default_timeout(PATIENCE)
        page.on("dialog", lambda dialog: dialog.accept())
        visit.open("/assets")
        page.set_input_files("[name=files]", str(save_episodes(fleet(1), tmp_path / "fleet.npz")))
        page.wait_for_selector("text=64 received, 0 known before")
        page.wait_for_selector("#assets a >> text=lift-3")  # without a reload
        for one in api.get("/recordings?limit=100")["items"]:
            label = "anomaly" if one["anomalous"] else "no anomaly"
            api.post(f"/recordings/{one['id']}/feedback", {"label": label})
        visit.open("/models")
        page.wait_for_selector("body[data-listening]")
        page.click("#train-trees")
        page.wait_for_selector("#version-2")  # without a reload
        assert "active then" in page.inner_text("#version-2")
        page.click("#promote-2")
        page.wait_for_selector("#version-2 >> text=active >> nth=0")
        page.wait_for_selector("#promote-1")
        assert [one["active"] for one in api.get("/models")] == [True, False]
        page.click("#rollback")
        page.wait_for_selector("#promote-2")
        assert [one["active"] for one in api.get("/models")] == [False, True]
        visit.check()


def test_a_page_that_listens_does_not_keep_the_service_from_stopping(workspace: Workspace) -> None:
    with on_a_port(workspace) as base:
        stream = urlopen(f"{base}{API}/events", timeout=10)
        assert stream.headers["content-type"].startswith("text/event-stream")
        line = stream.readline().decode()
        assert line.startswith("data: ")
        assert json.loads(line[6:])["recordings"] is None
        began = time.monotonic()
    assert time.monotonic() - began < 10
    stream.close()
