"""Every number on a page is recomputed from the JSON of the same diagnosis, over many generated diagnoses."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.schema import HealthFinding
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.report.figures import ANOMALOUS
from dfstrans.report.index import diagnoses_table
from tests.report.drawn import made_diagnosis

N_GENERATED = 24
ROW = re.compile(r"<tr><td>(.*?)</tr>", re.DOTALL)
BAR = re.compile(r'class="bar( calm)?"><i style="width: (\d+)%"></i></span>([\d.]+)')


def generated(seed: int) -> tuple[Diagnosis, Recording]:
    """A diagnosis of random shape, size of deviations and way of ranking."""
    random = np.random.default_rng(seed)
    s, t = int(random.integers(1, 9)), int(random.integers(1, 30))
    strange = int(random.integers(t)), int(random.integers(s))
    diagnosis, recording = made_diagnosis(s, t, strange=strange, probability=random.random(), name=f"run {seed}")
    deviation = np.exp(random.normal(0, random.choice([0.1, 0.5, 2.0]), (t, s)))
    occlusion = random.normal(0.2, 1.0, (t, s)) if seed % 2 and random.random() < 0.9 else None
    if occlusion is not None:
        occlusion[strange] = abs(occlusion).max() + 0.1
    finding = HealthFinding(f"S{random.integers(s)}", "stuck", random.random(), 0.01)
    changed = replace(diagnosis, deviation=deviation, occlusion=occlusion, health=(finding,))
    assert changed.trust is not None
    support = "supported" if occlusion is None else "not supported"
    return replace(changed, trust=replace(changed.trust, support=support)), recording


def span(one: dict[str, Any]) -> str:
    return f"{one['start']:g} – {one['end']:g} s"


def shown(content: dict[str, Any], value: float) -> str:
    if content["ranked_by"] == "occlusion":
        return f"{value:.2f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def evidence(content: dict[str, Any]) -> np.ndarray:
    """What each segment has beyond normal, from the raw cells of the JSON: (segment,)."""
    by_distance = content["ranked_by"] == "deviation"
    cells = np.array(content["raw"]["deviation" if by_distance else "drop"])
    return np.maximum(cells.max(axis=1) - by_distance, 0)


def figures(page: str) -> Iterator[dict[str, Any]]:
    for text in re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.DOTALL):
        yield json.loads(text.replace("<\\/", "</"))


def array(values: Any) -> np.ndarray:
    """Decode an array of a figure, which plotly may write as bytes."""
    if not isinstance(values, dict):
        return np.array(values, dtype=np.float64)
    flat = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).astype(np.float64)
    return flat.reshape([int(n) for n in str(values["shape"]).split(",")]) if "shape" in values else flat


@pytest.fixture(scope="module", params=range(N_GENERATED))
def page_and_json(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    diagnosis, recording = generated(request.param)
    path: Path = tmp_path_factory.mktemp("page") / "run.html"
    page = write_diagnosis(path, diagnosis, recording, script_file="plotly.min.js").read_text(encoding="utf-8")
    return page, json.loads(json.dumps(diagnosis.to_dict(raw=True), allow_nan=False))


def test_json_agrees_with_its_own_cells(page_and_json: tuple[str, Any]) -> None:
    _, content = page_and_json
    raw = content["raw"]
    cells = np.array(raw["deviation" if content["ranked_by"] == "deviation" else "drop"])
    names = raw["sensors"]
    for one in content["interpretation"]:
        own, most = cells[:, names.index(one["sensor"])], one["segments"][0]
        assert one["value"] == most["value"] == pytest.approx(own.max(), abs=1e-5)
        assert most["segment"] == own.argmax()
        assert [found["value"] for found in one["segments"]] == pytest.approx(np.sort(own)[::-1][:3], abs=1e-5)
        assert all(found["sensors"] == [one["sensor"]] for found in one["segments"])
    for one in content["segments"]:
        own = cells[one["segment"]]
        assert one["value"] == pytest.approx(own.max(), abs=1e-5)
        values = [own[names.index(sensor)] for sensor in one["sensors"]]
        assert values == sorted(values, reverse=True)
        assert values[0] == own.max()
    first, moment = content["interpretation"][0], content["segments"][0]
    assert (first["sensor"], first["value"]) == (moment["sensors"][0], moment["value"])
    assert first["segments"][0]["segment"] == moment["segment"]


def test_tables_and_headline_are_those_of_the_json(page_and_json: tuple[str, Any]) -> None:
    page, content = page_and_json
    assert f"probability {100 * content['probability']:.1f} %" in page
    where, when = page.split("<h2>Where?")[1].split("<h2>When?")
    rows = ROW.findall(where)
    assert len(rows) == len(content["interpretation"])
    by_distance = content["ranked_by"] == "deviation"
    for row, one in zip(rows, content["interpretation"], strict=True):
        assert one["sensor"] in row
        what = one["direction"] if one["material"] else "immaterial: the score hardly changes without it"
        assert one["material"] == (by_distance or one["drop"] >= 0.25)
        assert f'{what}, strongest at <span class="when">{span(one["segments"][0])}</span>' in row
        assert BAR.findall(row)[0][2] == shown(content, one["value"])
    by_number = {one["segment"]: one for one in content["segments"]}
    red: set[int] = set()
    made_by: set[str] = set()
    for row in ROW.findall(when.split("<h2>")[0]):
        named, segments = row.split("<small>")[1].split("</small>")[0].split("; ")
        numbers = [int(n) for n in re.findall(r"\d+", segments)]
        inside = [by_number[n] for n in range(numbers[0], numbers[-1] + 1)]
        strongest = max(inside, key=lambda one: one["value"])
        assert span({"start": inside[0]["start"], "end": inside[-1]["end"]}) in row
        assert BAR.findall(row)[0][2] == shown(content, strongest["value"])
        assert named == ", ".join(strongest["sensors"])
        red |= {one["segment"] for one in inside}
        made_by |= set(strongest["sensors"])
    carried = evidence(content)
    weakest = min(carried[list(red)])
    assert len(red) == 1 or carried[list(red)].sum() - weakest < carried.sum() / 2 + 1e-4
    assert (carried[list(set(range(len(carried))) - red)] <= weakest + 1e-4).all()
    calm = [bool(BAR.findall(row)[0][0]) for row in rows]
    assert calm == [one["sensor"] not in made_by for one in content["interpretation"]]
    headline = page.split('class="card verdict"')[1].split("</div>\n\n")[0]
    assert f"sensor <b>{content['interpretation'][0]['sensor']}</b>" in headline
    suspected = content["suspected_instrument"]
    assert ("Instrument fault suspected" in headline) == (suspected is not None)
    unhealthy = {one["sensor"] for one in content["health"]}
    assert suspected in made_by & unhealthy if suspected else not made_by & unhealthy


def test_bars_have_the_length_of_their_number(page_and_json: tuple[str, Any]) -> None:
    page, content = page_and_json
    values = [one["value"] for one in content["interpretation"]]
    by_distance = content["ranked_by"] == "deviation"
    heights = np.log10(np.maximum(values, 1)) if by_distance else np.maximum(values, 0)
    limit = max(heights[0], 1.0 if by_distance else 1e-6)
    lengths = [int(length) for _, length, _ in BAR.findall(page.split("<h2>Where?")[1].split("<h2>When?")[0])]
    np.testing.assert_allclose(lengths, 100 * np.maximum(heights / limit, 0.02), atol=0.51)


def test_figures_show_the_cells_of_the_json(page_and_json: tuple[str, Any]) -> None:
    page, content = page_and_json
    by_distance = content["ranked_by"] == "deviation"
    cells = np.array(content["raw"]["deviation" if by_distance else "drop"])
    signals, heat, lanes, *_ = figures(page)
    (bars,) = (trace for trace in signals["data"] if trace["type"] == "bar")
    np.testing.assert_allclose(array(bars["y"]), cells.max(axis=1), atol=1e-4)
    np.testing.assert_allclose(array(heat["data"][0]["customdata"]), cells.T, rtol=1e-5, atol=1e-4)
    when = page.split("<h2>When?")[1].split("<h2>")[0]
    rows = [one.split("; ") for one in re.findall(r"<small>(.*?; segments? .*?)</small>", when)]
    spans = [[int(n) for n in re.findall(r"\d+", segments)] for _, segments in rows]
    red = {n for numbers in spans for n in range(numbers[0], numbers[-1] + 1)}
    assert {n for n, colour in enumerate(bars["marker"]["color"]) if colour == ANOMALOUS} == red
    makers = {name for named, _ in rows for name in named.split(", ")}
    assert {trace["name"] for trace in lanes["data"] if trace["line"]["color"] == ANOMALOUS} == makers


def test_the_green_range_and_the_words_above_it_agree(page_and_json: tuple[str, Any]) -> None:
    page, content = page_and_json
    raw, (signals, *_) = content["raw"], figures(page)
    course = np.array(raw["normal_range"])
    filled = [trace for trace in signals["data"] if trace.get("fill") == "tonexty"]
    for one, trace in zip(content["interpretation"], filled, strict=True):
        sensor = raw["sensors"].index(one["sensor"])
        np.testing.assert_allclose(array(trace["y"])[1:-1], course[:, sensor, 1], atol=1e-5)
        np.testing.assert_allclose(array(trace["x"])[1:-1], raw["places"])
        level = raw["level"][one["segments"][0]["segment"]][sensor]
        side = "higher than normal" if level > 1 else "lower than normal" if level < -1 else "another shape"
        assert one["direction"] == side


def test_the_list_of_diagnoses_has_the_number_of_the_page(page_and_json: tuple[str, Any]) -> None:
    _, content = page_and_json
    titles, (row,) = diagnoses_table([content])
    listed = dict(zip(titles, row, strict=True))
    first = content["interpretation"][0]
    assert re.split("[ ,]", listed["sensor"])[0] == first["sensor"]
    assert listed["when"] == span(content["segments"][0]) == span(first["segments"][0])
    title, decimals = ("distance", 1) if content["ranked_by"] == "deviation" else ("drop in score", 2)
    assert listed[title] == f"{first['value']:.{decimals}f}"
