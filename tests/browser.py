"""Pages opened in a real browser: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = (  # as root, without a screen, and without asking for anything by itself
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
PATIENCE = 60_000  # milliseconds, on a busy machine


@dataclass
class Opened:
    """A page in the browser, with all that it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, file: Path) -> None:
        """Open a file and wait until all of its figures are drawn."""
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.resolve().as_uri(), timeout=PATIENCE)

    def wait_until_drawn(self) -> int:
        """How many figures there are, once they are drawn."""
        self.page.wait_for_selector("body[data-drawn]", timeout=PATIENCE, state="attached")
        return int(self.page.evaluate("Number(document.body.dataset.drawn)"))


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, or a skip that says what is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'dfstrans[dev]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET), timeout=PATIENCE)
        try:
            yield chromium
        finally:
            chromium.close()
