"""The pictures of positional encodings for print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dfstrans.fourier.study import EncodingStudy
from dfstrans.report.encodings import COLOURS, POSITION_COLOURS, Arrays, cosines, image_title, visible
from dfstrans.report.printing import WIDTH, new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_print_figures(folder: Path, study: EncodingStudy, formats: tuple[str, ...] = ("pdf", "svg")) -> list[Path]:
    """Write every figure in each format; the files are named encoding_*."""
    drawings = {
        "encoding_distribution": lambda: print_distribution(study.distributions),
        "encoding_reconstruction": lambda: print_reconstruction(study.reconstructions, study.positions, study.segments),
        "encoding_images": lambda: print_images(study.encodings),
        "encoding_similarity": lambda: print_similarity({name: check.gram for name, check in study.checks.items()}),
    }
    return write_figures(folder, drawings, formats)


def print_distribution(distributions: Arrays) -> Figure:
    """g_k of each encoding [fig:frequencyRatio]; shapes as in `distribution_figure`."""
    figure = new_figure(height=2.4)
    axes = figure.subplots()
    for name, shares in distributions.items():
        axes.plot(shares, color=COLOURS[name], label=name, linewidth=1.4, clip_on=False)
    axes.set(xlabel="frequency $k$ (slow to fast)", ylabel="share $g_k$", ylim=(0, None))
    axes.margins(x=0)
    axes.legend()
    return figure


def print_reconstruction(reconstructions: Arrays, positions: tuple[int, ...], n_segments: int) -> Figure:
    """What is left of positions [fig:reconstruction_comparison]; shapes as in `reconstruction_figure`."""
    figure = new_figure(height=3.6)
    panels = figure.subplots(len(reconstructions), sharex=True, sharey=True)
    for axes, (name, rows) in zip(panels, reconstructions.items(), strict=True):
        for position, line, colour in zip(positions, rows, POSITION_COLOURS, strict=False):
            axes.axvline(position, color=colour, linewidth=0.8, linestyle=":")
            axes.plot(line[:n_segments], color=colour, linewidth=1.4, label=f"position {position}")
        axes.set(title=name, ylabel="value", ylim=(-0.12, 1.08))
        axes.margins(x=0)
    panels[-1].set_xlabel("position")
    panels[0].legend(ncols=len(positions), loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def print_images(encodings: Arrays) -> Figure:
    """The codes as images [fig:pe_comparisons]; shapes as in `image_figure`."""
    figure = new_figure(height=2.1 * len(encodings) + 0.2)
    panels = figure.subplots(len(encodings), squeeze=False)[:, 0]
    for axes, (name, codes) in zip(panels, encodings.items(), strict=True):
        shown = visible(codes)
        largest = float(np.abs(shown).max()) or 1.0
        image = axes.imshow(shown, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="none")
        axes.set(title=image_title(name, codes), ylabel="position")
        figure.colorbar(image, ax=axes, pad=0.02)
    panels[-1].set_xlabel("column of the code")
    return figure


def print_similarity(grams: Arrays) -> Figure:
    """How alike the codes of two positions are; shapes as in `similarity_figure`."""
    figure = new_figure(height=0.75 + (WIDTH - 1.75) / len(grams))  # what labels and the scale take
    panels = figure.subplots(1, len(grams), squeeze=False)[0]
    for axes, (name, gram) in zip(panels, grams.items(), strict=True):
        image = axes.imshow(cosines(visible(gram)), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axes.set(title=name, xlabel="position")
    panels[0].set_ylabel("position")
    figure.colorbar(image, ax=panels, label="cosine", pad=0.02, shrink=0.9)
    return figure
