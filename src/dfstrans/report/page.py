"""Self-contained HTML pages: filled templates with figures and plotly's code."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from dfstrans.files import atomic_write

SCRIPT_FILE = "plotly.min.js"


def write_page(
    path: Path, template: str, *, package: str = __package__, script_file: str | None = None, **content: Any
) -> Path:
    """Fill in a template, escape its content and write it.

    The template is in the folder `templates` of `package`, and may use the templates of this one. A page with figures
    includes plotly's code unless `script_file` names a file next to it with that code.
    """
    loader = ChoiceLoader([PackageLoader(package), PackageLoader(__package__)])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    page = environment.get_template(template).render(plotly_script=plotly_script, script_file=script_file, **content)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def as_div(figure: Any) -> Markup:
    """Return a figure as an HTML fragment, which `draw.html` draws at the end of a page."""
    content = figure.to_json().replace("</", "<\\/")  # prevents closing the script element
    height = int(figure.layout.height)
    return Markup(
        f'<div class="plot" style="height: {height}px"></div><script type="application/json">{content}</script>'
    )


def plotly_script() -> Markup:
    """Return plotly's code for inlining, so that a page needs no network access."""
    return Markup(get_plotlyjs())


def write_script(folder: Path) -> str:
    """Write plotly's code into a folder, shared by all its pages, and return its file name."""
    with atomic_write(folder / SCRIPT_FILE) as temporary:
        temporary.write_text(plotly_script(), encoding="utf-8")
    return SCRIPT_FILE


def page_name(episode_id: str) -> str:
    """Return the file name of an episode's page."""
    return f"{file_stem(episode_id)}.html"


def file_stem(episode_id: str) -> str:
    """Return an episode's id without characters that a file system may reject, made unique by a checksum."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", episode_id)[:80]
    return f"{plain}-{zlib.crc32(episode_id.encode()):08x}"
