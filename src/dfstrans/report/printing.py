"""Figures in print quality: PDF and SVG, through matplotlib (the extra `paper`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfstrans.errors import DfstransError
from dfstrans.files import written_atomically
from dfstrans.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 6.3  # inches: the text of an A4 page
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "dfstrans",  # the same file for the same numbers
    "figure.constrained_layout.use": True,
}
UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}


def write_figures(
    folder: Path, drawings: Mapping[str, Callable[[], Figure]], formats: tuple[str, ...] = ("pdf", "svg")
) -> list[Path]:
    """Draw figures in the shared style and write each, by its name, in every format."""
    written = []
    with matplotlib().rc_context(STYLE):
        for name, draw in drawings.items():
            figure = draw()
            for suffix in formats:
                path = folder / f"{name}.{suffix}"
                with written_atomically(path) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=UNDATED[suffix], dpi=200)
                written.append(path)
    return written


def new_figure(height: float) -> Figure:
    """An empty figure as wide as the text of a page."""
    figure: Figure = matplotlib().figure.Figure(figsize=(WIDTH, height))
    return figure


def mark_as_no_result(figure: Figure) -> None:
    """Say on a figure that it is only a quick look."""
    figure.suptitle("QUICK LOOK, NO RESULT", color="#b00020", fontweight="bold", fontsize=9)


def matplotlib() -> Any:
    """The package, or an error that tells how to get it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise DfstransError(
            "expected matplotlib for figures in print quality, got no such package; pip install 'dfstrans[paper]'"
        ) from error
    return matplotlib
