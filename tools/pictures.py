"""Take the pictures of pages in docs/images: `make pictures`; needs Chromium, and trains four small models."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from playwright.sync_api import Page, sync_playwright

from dfstrans import load_episodes
from dfstrans.report.page import page_name
from tools.imports import SOURCE

DOCS = SOURCE.parents[1] / "docs"
IMAGES = DOCS / "images"
WIDTH, PHONE, MARGIN = 1140, 400, 16  # pixels
MINUTES = 4 * 24 * 60  # of recording of each pump
LENGTH = 120  # minutes of a piece
SENSORS = ("flow [m3/h]", "pressure [bar]", "motor current [A]", "vibration [mm/s]", "bearing temperature [degC]")
STUCK = "pump_1@720"  # a piece with a stuck gauge
SIGNALS, DIFFERS, TRUST, ATTENTION = (
    f"h2:has-text('{title}')" for title in ("Most relevant", "What differs", "How far", "Raw attention")
)
FAULTS = {"stuck gauge": "pressure", "cavitation": "vibration", "dry bearing": "bearing temperature"}


def main(folder: Path) -> None:
    """Train the models, and take the pictures of their pages; all else goes into the folder."""
    write_pumps(folder / "pumps")
    _run(folder, "train", "pumps", "--length", LENGTH, "--segment-length", 15, "--out", "pump_model")
    _run(folder, "diagnose", "pump_model", "pumps", "--all", "--html", "pump_pages")
    found = re.search(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None  # writes recordings.csv
    subprocess.run([sys.executable, "-c", found[1]], cwd=folder, check=True)
    _run(folder, "train", "recordings.csv", "--segment-length", 10, "--out", "model")
    _run(folder, "diagnose", "model", "recordings.csv", "--part", "test", "--html", "pages")
    _run(folder, "demo", "--out", "demo")
    found = re.search(
        r"```sh\n(dfstrans simulate.*?)```", (DOCS / "how-to/test-without-labels.md").read_text("utf-8"), re.DOTALL
    )
    assert found is not None  # injects faults into journeys
    subprocess.run(["bash", "-ec", found[1]], cwd=folder, check=True)
    take_pictures(folder)


def write_pumps(folder: Path) -> None:
    """Write three pumps over four days, one recording each, with a label per row and a table of their faults."""
    folder.mkdir(parents=True)
    rng, faults = np.random.default_rng(4), []
    for pump in range(3):
        values, label = _pump(rng), np.zeros(MINUTES, dtype=int)
        for number, start in enumerate(rng.choice(np.arange(2, MINUTES // 240), size=6, replace=False) * 240):
            kind, first = list(FAULTS)[number % 3], int(start) + 48
            last = first + int(rng.integers(50, 140))
            _damage(kind, values[:, first : last + 1], rng)
            label[first : last + 1] = 1
            faults.append((f"pump_{pump + 1}", kind, FAULTS[kind], first, last))
        table = pd.DataFrame(values.T.round(3), columns=list(SENSORS)).assign(label=label)
        table.insert(0, "time", pd.date_range("2024-03-04 06:00", periods=MINUTES, freq="min"))
        table.to_csv(folder / f"pump_{pump + 1}.csv", index=False)
    columns = ["id", "fault", "sensors", "start", "last"]
    table = pd.DataFrame(faults, columns=columns)
    table[["start", "last"]] *= 60  # seconds
    table.to_csv(folder / "faults.csv", index=False)


def _pump(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw the normal course of a pump, whose load follows the time of day: (sensor, minute)."""
    load = 0.5 + 0.4 * np.sin(2 * np.pi * np.arange(MINUTES) / 1440 + rng.uniform(0, 6))
    flow, current = 30 + 40 * load, 15 + 8 * load
    heat = 42 + 5 * pd.Series(load).ewm(span=180).mean().to_numpy()
    base = np.stack([flow, 5.2 - 0.2 * load, current, np.full(MINUTES, 2.2), heat])
    noise = rng.normal(size=base.shape) * np.array([[0.8], [0.08], [0.3], [0.2], [0.4]])
    return np.asarray(base + noise)


def _damage(kind: str, part: npt.NDArray[np.float64], rng: np.random.Generator) -> None:
    """Change a part of a recording in place, as a kind of fault does."""
    n = part.shape[1]
    if kind == "stuck gauge":
        part[1] = 6.5
    elif kind == "cavitation":
        part[3] += rng.exponential(1.2, size=n)
        part[0] -= 4
    else:
        part[4] += np.linspace(0, 8, n)
        part[2] += 1.5


def _run(folder: Path, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "dfstrans", *map(str, arguments)], cwd=folder, check=True)


# ---- pictures -------------------------------------------------------------------------------------------------------


def take_pictures(folder: Path) -> None:
    """Take the pictures of the pages in a folder."""
    pumps, demo = folder / "pump_pages", folder / "demo"
    stuck, index = pumps / page_name(STUCK), pumps / "index.html"
    first, *_ = sorted((folder / "pages").glob("run_*.html"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def opened(path: Path, width: int = WIDTH) -> Page:
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(path.resolve().as_uri())
            page.wait_for_selector("body[data-drawn]", state="attached")
            return page

        _picture(opened(stuck), "report", bottom="#signal-4")
        _picture(opened(stuck, PHONE), "diagnosis_phone", bottom="text=Most relevant signals")
        _picture(opened(index), "diagnosis_index", bottom="tbody tr:nth-child(5)")
        _picture(opened(first), "tutorial_diagnosis", bottom="#signal-3")
        _picture(opened(_page_of(demo, "misalignment")), "diagnosis_friction", SIGNALS, DIFFERS)
        bump = opened(_page_of(demo, "bump"))
        _picture(bump, "diagnosis_differs", DIFFERS, TRUST)
        _picture(bump, "diagnosis_attention", ATTENTION)
        _picture(opened(folder / "study" / "report.html"), "injection", bottom="h2:has-text('All results')")
        browser.close()


def _page_of(demo: Path, kind: str) -> Path:
    """Return the page of the first detected journey with a kind of fault."""
    episodes = load_episodes(demo / "journeys.h5")
    kinds = zip(episodes.ids.tolist(), episodes.fault_kinds(), strict=True)
    pages = [demo / "diagnoses" / page_name(name) for name, own in kinds if own == kind]
    return next(page for page in pages if page.is_file())


def _picture(page: Page, name: str, top: str = "", bottom: str = "") -> None:
    """Save a page from the top of one element to the top of another; by default, from its start to its end."""

    def place(selector: str) -> float:
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        return box["y"]

    start = place(top) - MARGIN if top else 0
    end = place(bottom) if bottom else float(page.evaluate("document.documentElement.scrollHeight"))
    width = float(page.evaluate("innerWidth"))
    page.screenshot(
        path=IMAGES / f"{name}.png", clip={"x": 0, "y": start, "width": width, "height": end - start}, full_page=True
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary))
