"""The report on a detector's work: how well episodes are told apart, and the diagnoses of those it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dfstrans.files import written_atomically


def write_page(path: Path, template: str, *, script_file: str | None = None, **content: Any) -> Path:
    """Fill in a template, escaping what is filled in, and write it.

    A page with figures holds plotly's code itself, unless that is in the file `script_file` beside it.
    """
    environment = Environment(
        loader=PackageLoader("dfstrans.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template(template).render(plotly_script=plotly_script, script_file=script_file, **content)
    with written_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def as_div(figure: Any) -> Markup:
    """A figure as a piece of HTML; `draw.html`, at the end of a page, draws it."""
    content = figure.to_json().replace("</", "<\\/")  # nothing in it ends the script
    height = int(figure.layout.height)
    return Markup(
        f'<div class="plot" style="height: {height}px"></div><script type="application/json">{content}</script>'
    )


def plotly_script() -> Markup:
    """Plotly's own code, so that a page needs nothing from outside."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())
