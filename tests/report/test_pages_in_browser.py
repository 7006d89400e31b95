"""The pages in a real browser, Chromium: self-contained, free of errors, fully drawn, no wider than the screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dfstrans.report.diagnosis_page import write_diagnosis, write_pages
from dfstrans.report.page import page_name
from tests.report.drawn import made_diagnosis
from tests.report.test_timeline import made_pieces

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
PATIENCE = 60_000  # milliseconds, on a busy machine
PHONE, DESKTOP = 390, 1280
SEGMENT_LENGTH = {PHONE: 25, DESKTOP: 100}  # with 20 sensors and 80 segments; the second is an elevator's journey


class Opened:
    """A page in the browser, with everything it requests and complains about."""

    def __init__(self, chromium: Any, file: Path, width: int) -> None:
        self.page = chromium.new_page(viewport={"width": width, "height": 844})
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.resolve().as_uri(), timeout=PATIENCE)

    def wait_until_drawn(self) -> int:
        """The number of figures, once they are drawn."""
        self.page.wait_for_selector("body[data-drawn]", timeout=PATIENCE, state="attached")
        return int(self.page.evaluate("Number(document.body.dataset.drawn)"))

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'dfstrans[dev]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split(), timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_page_is_self_contained_fully_drawn_and_zooms_all_plots_over_time(
    chromium: Any, tmp_path: Path, width: int
) -> None:
    made = made_diagnosis(n_sensors=20, n_segments=80, segment_length=SEGMENT_LENGTH[width], strange=(34, 1))
    file = write_diagnosis(tmp_path / "run.html", *made)
    shown = Opened(chromium, file, width)
    assert shown.wait_until_drawn() == 8
    drawn = "[...document.querySelectorAll('.plot')].filter(plot => plot.querySelector('.main-svg')).length"
    assert shown.page.evaluate(drawn) == 8
    assert shown.page.evaluate("document.querySelectorAll('.scatterlayer .js-line').length") > 20
    assert not shown.scrolls_sideways()
    end = 80 * SEGMENT_LENGTH[width] // 2  # a point every 0.5 s
    shown.page.click(".moments button >> nth=0")
    ranges = "[...document.querySelectorAll('.over-time .plot')].map(plot => plot.layout.xaxis.range.map(Number))"
    shown.page.wait_for_function(f"({ranges}).every(range => range[1] - range[0] < {end} / 4)")
    seen = shown.page.evaluate(ranges)
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    shown.page.click("text=whole recording")
    shown.page.wait_for_function(f"({ranges}).every(range => range[1] === {end})")
    assert shown.requests == [file.resolve().as_uri()]
    assert shown.complaints == []


def test_an_index_is_ranked_links_to_its_pages_and_can_be_filtered(chromium: Any, tmp_path: Path) -> None:
    made = [made_diagnosis(probability=p, name=name) for name, p in (("calm", 0.1), ("worst <b>", 0.99), ("bad", 0.8))]
    found = Opened(chromium, write_pages(tmp_path, made), PHONE)
    rows = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].textContent)"
    assert found.page.evaluate(rows) == ["worst <b>", "bad", "calm"]
    assert not found.scrolls_sideways()
    found.page.fill("#filter", "normal")
    assert found.page.evaluate(rows) == ["calm"]
    found.page.fill("#filter", "")
    found.page.click("text=worst")
    assert found.wait_until_drawn() == 8
    assert found.page.url == (tmp_path / page_name("worst <b>")).resolve().as_uri()
    assert all(url.startswith("file://") for url in found.requests)
    assert found.complaints == []


@pytest.mark.parametrize("dated", [False, True])
def test_a_click_on_a_piece_in_the_timeline_opens_its_page(chromium: Any, tmp_path: Path, dated: bool) -> None:
    made = made_pieces(dated=dated)
    found = Opened(chromium, write_pages(tmp_path, made), PHONE)
    assert found.wait_until_drawn() == 1
    assert not found.scrolls_sideways()
    plot = found.page.locator(".plot .nsewdrag").bounding_box()
    place = plot["x"] + plot["width"] * 0.6, plot["y"] + plot["height"] * 0.2  # above the third bar, which is low
    found.page.mouse.move(*place)
    found.page.wait_for_selector(".hoverlayer .hovertext", timeout=PATIENCE)
    found.page.mouse.click(*place)
    found.page.wait_for_url(f"**/{page_name(made[2][0].episode_id)}", timeout=PATIENCE)
    assert found.wait_until_drawn() == 8
    end = found.page.evaluate("document.querySelector('.over-time .plot').layout.xaxis.range[1]")
    assert end == made[2][0].clock.at([30])[0]
    found.page.click(".moments button >> nth=0")
    ranges = "[...document.querySelectorAll('.over-time .plot')].map(plot => plot.layout.xaxis.range[1])"
    found.page.wait_for_function(f"({ranges}).every(last => last !== {end!r})")
    found.page.click("text=whole recording")
    found.page.wait_for_function(f"({ranges}).every(last => String(last).slice(0, 19) === {str(end)[:19]!r})")
    assert found.complaints == []


def test_dates_on_a_time_axis_do_not_overlap_on_a_phone(chromium: Any, tmp_path: Path) -> None:
    made = made_pieces(starts=(72_000, 200_000, 300_000, 420_000), dated=True)  # two days, from 10:00
    found = Opened(chromium, write_pages(tmp_path, made), PHONE)
    found.wait_until_drawn()
    boxes = found.page.evaluate(
        "[...document.querySelectorAll('.xtick text')].map(text => text.getBoundingClientRect())"
        ".map(box => [box.left, box.right])"
    )
    assert len(boxes) > 3
    assert all(right < left for (_, right), (left, _) in pairwise(sorted(boxes)))


def test_no_table_is_cut_off_on_a_phone(chromium: Any, tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    long = replace(
        diagnosis,
        sensors=tuple(f"listen_overflows_{n}" for n in range(4)),
        clock=replace(diagnosis.clock, unit="points", offset=20_000.0),
    )
    shown = Opened(chromium, write_diagnosis(tmp_path / "run.html", long, recording), PHONE)
    shown.wait_until_drawn()
    cut = "[...document.querySelectorAll('.wide')].filter(card => card.scrollWidth > card.clientWidth).length"
    assert shown.page.evaluate(cut) == 0
