"""The pages in a real browser: nothing is asked from outside, nothing complains, everything is drawn and fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dfstrans.report.diagnosis_page import write_diagnosis, write_pages
from dfstrans.report.page import page_name
from tests.browser import Opened, browser
from tests.report.drawn import made_diagnosis

PHONE, DESKTOP = 390, 1280
SEGMENT_LENGTH = {PHONE: 25, DESKTOP: 100}  # with 20 sensors and 80 segments; the second is an elevator's journey


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=[PHONE, DESKTOP], ids=["phone", "desktop"])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def page_file(width: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    length = SEGMENT_LENGTH[width]
    diagnosis, recording = made_diagnosis(n_sensors=20, n_segments=80, segment_length=length, strange=(34, 1))
    return write_diagnosis(tmp_path_factory.mktemp("page") / "run.html", diagnosis, recording)


def opened(chromium: Any, file: Path, width: int) -> Opened:
    found = Opened(chromium.new_page(viewport={"width": width, "height": 844}))
    found.open(file)
    return found


def too_wide(found: Opened) -> int:
    return int(found.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.fixture(scope="module")
def shown(chromium: Any, page_file: Path, width: int) -> Opened:
    found = opened(chromium, page_file, width)
    found.wait_until_drawn()
    return found


def test_a_page_asks_for_itself_only_and_complains_of_nothing(shown: Opened, page_file: Path) -> None:
    assert shown.requests == [page_file.resolve().as_uri()]
    assert shown.complaints == []


def test_every_figure_is_drawn(shown: Opened) -> None:
    assert shown.wait_until_drawn() == 8
    drawn = "[...document.querySelectorAll('.plot')].filter(plot => plot.querySelector('.main-svg')).length"
    assert shown.page.evaluate(drawn) == 8
    assert shown.page.evaluate("document.querySelectorAll('.scatterlayer .js-line').length") > 20


def test_a_page_does_not_scroll_sideways(shown: Opened) -> None:
    assert too_wide(shown) <= 0


def test_figures_over_time_zoom_together(shown: Opened, width: int) -> None:
    end = 80 * SEGMENT_LENGTH[width] // 2  # a point every 0.5
    shown.page.click(".moments button >> nth=0")
    ranges = "[...document.querySelectorAll('.over-time .plot')].map(plot => plot.layout.xaxis.range.map(Number))"
    shown.page.wait_for_function(f"({ranges}).every(range => range[1] - range[0] < {end} / 4)")
    seen = shown.page.evaluate(ranges)
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    shown.page.click("text=whole recording")
    shown.page.wait_for_function(f"({ranges}).every(range => range[1] === {end})")


def test_an_index_is_ranked_leads_to_its_pages_and_can_be_searched(chromium: Any, tmp_path: Path) -> None:
    made = [made_diagnosis(probability=p, name=name) for name, p in (("calm", 0.1), ("worst <b>", 0.99), ("bad", 0.8))]
    found = opened(chromium, write_pages(tmp_path, made), PHONE)
    rows = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].textContent)"
    assert found.page.evaluate(rows) == ["worst <b>", "bad", "calm"]
    assert too_wide(found) <= 0
    found.page.fill("#filter", "not anomalous")
    assert found.page.evaluate(rows) == ["calm"]
    found.page.fill("#filter", "")
    found.page.click("text=worst")
    assert found.wait_until_drawn() == 8
    assert found.page.url == (tmp_path / page_name("worst <b>")).resolve().as_uri()
    assert all(url.startswith("file://") for url in found.requests)
    assert found.complaints == []
