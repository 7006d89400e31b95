"""Pages as people read them."""

from __future__ import annotations

import re
from pathlib import Path


def words(page: Path) -> str:
    """The text of a page without markup and figures."""
    text = page.read_text(encoding="utf-8").split("<main>")[1].split("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]+>", " ", text, flags=re.DOTALL))


def links_outside(page: Path) -> list[str]:
    """Scripts, styles and images that a page loads from elsewhere."""
    return re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="[^"]*', page.read_text(encoding="utf-8"))
