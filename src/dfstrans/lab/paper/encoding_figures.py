"""Pictures of positional encodings: their frequencies, what they keep of a position, and the codes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.lab.paper.encoding_study import EncodingStudy
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.page import as_div, write_page
from dfstrans.report.print_figures import WIDTH, new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = {"vanilla": INK, "faithful": NORMAL, "own": ANOMALOUS}
POSITION_COLOURS = (NORMAL, "#66a182", ANOMALOUS)
MOST_POSITIONS, MOST_COLUMNS = 256, 512  # shown; a larger encoding shows its beginning

Arrays = Mapping[str, npt.NDArray[np.float64]]


def write_encodings(path: Path, study: EncodingStudy) -> Path:
    """Write a page with the four figures and their numbers, which needs nothing from outside."""
    figures = {
        "distribution": distribution_figure(study.distributions),
        "reconstruction": reconstruction_figure(study.reconstructions, study.positions, study.segments),
        "images": image_figure(study.encodings),
        "similarity": similarity_figure({name: check.gram for name, check in study.checks.items()}),
    }
    divs = {name: as_div(figure) for name, figure in figures.items()}
    return write_page(path, "encodings.html", study=study, figures=divs)


def distribution_figure(distributions: Arrays) -> go.Figure:
    """g_k of each encoding over the frequencies of the lattice [fig:frequencyRatio].

    Shape:
        distributions: each (d_model / 2 + 1,)
    """
    figure = go.Figure()
    for name, shares in distributions.items():
        figure.add_scatter(
            y=shares,
            name=name,
            mode="lines",
            line={"color": COLOURS[name], "width": 2},
            hovertemplate="k = %{x}: %{y:.4f}",
        )
    figure.update_xaxes(title="frequency k (slow to fast)", rangemode="tozero")
    figure.update_yaxes(title="share g<sub>k</sub>", rangemode="tozero")
    return styled(figure, height=340, hovermode="x unified", legend={"x": 0.98, "y": 0.95, "xanchor": "right"})


def reconstruction_figure(reconstructions: Arrays, positions: tuple[int, ...], n_segments: int) -> go.Figure:
    """What each encoding's frequencies leave of single positions [fig:reconstruction_comparison].

    Shape:
        reconstructions: each (len(positions), d_model), of which the first n_segments are shown
    """
    figure = make_subplots(
        rows=len(reconstructions),
        shared_xaxes=True,
        shared_yaxes="all",
        vertical_spacing=0.1,
        subplot_titles=list(reconstructions),
    )
    for row, values in enumerate(reconstructions.values(), start=1):
        for position, line, colour in zip(positions, values, POSITION_COLOURS, strict=False):
            figure.add_scatter(
                y=line[:n_segments],
                name=f"position {position}",
                legendgroup=str(position),
                showlegend=row == 1,
                mode="lines",
                line={"color": colour, "width": 2},
                row=row,
                col=1,
            )
            figure.add_vline(position, line_dash="dot", line_color=colour, opacity=0.6, row=row, col=1)
    figure.update_yaxes(title="value", range=[-0.12, 1.08])
    figure.update_xaxes(title="position", row=len(reconstructions))
    return styled(figure, height=460, legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.13})


def image_figure(encodings: Arrays) -> go.Figure:
    """The codes as images, each on its own scale [fig:pe_comparisons].

    Shape:
        encodings: each (n_positions, d_model)
    """
    shown = {image_title(name, codes): visible(codes) for name, codes in encodings.items()}
    figure = make_subplots(rows=len(shown), vertical_spacing=0.28 / len(shown), subplot_titles=list(shown))
    for row, codes in enumerate(shown.values(), start=1):
        largest = float(np.abs(codes).max()) or 1.0
        bottom, top = figure.layout["yaxis" if row == 1 else f"yaxis{row}"].domain
        figure.add_heatmap(
            z=codes,
            zmin=-largest,
            zmax=largest,
            colorscale="RdBu_r",
            colorbar={"len": top - bottom, "y": (bottom + top) / 2, "thickness": 14},
            hovertemplate="position %{y}, column %{x}: %{z:.3f}<extra></extra>",
            row=row,
            col=1,
        )
    figure.update_yaxes(title="position", autorange="reversed")
    figure.update_xaxes(title="column of the code", row=len(shown))
    return styled(figure, height=60 + 270 * len(shown))


def similarity_figure(grams: Arrays) -> go.Figure:
    """How alike the codes of two positions are: the cosine of the angle between them.

    Shape:
        grams: each (n_positions, n_positions)
    """
    figure = make_subplots(cols=len(grams), horizontal_spacing=0.08, subplot_titles=list(grams))
    for column, gram in enumerate(grams.values(), start=1):
        figure.add_heatmap(
            z=cosines(visible(gram)),
            coloraxis="coloraxis",
            hovertemplate="positions %{y} and %{x}: %{z:.3f}<extra></extra>",
            row=1,
            col=column,
        )
        axis = "x" if column == 1 else f"x{column}"
        figure.update_yaxes(autorange="reversed", scaleanchor=axis, constrain="domain", row=1, col=column)
    figure.update_xaxes(title="position", constrain="domain")
    figure.update_yaxes(title="position", col=1)
    scale = {"colorscale": "RdBu_r", "cmin": -1, "cmax": 1, "colorbar": {"title": "cosine", "thickness": 14}}
    return styled(figure, height=420, coloraxis=scale)


def image_title(name: str, codes: npt.NDArray[np.float64]) -> str:
    """The name and the size of an encoding, and whether only its beginning is shown."""
    n_positions, d_model = codes.shape
    beginning = ", its beginning" if visible(codes).shape != codes.shape else ""
    return f"{name} ({n_positions} positions, width {d_model}{beginning})"


def visible(codes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """As much of an encoding as a picture can show: sampling its rows or columns would show waves it does not have."""
    return codes[:MOST_POSITIONS, :MOST_COLUMNS]


def cosines(gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A Gram matrix of codes scaled to length 1; codes of length 0 resemble none.

    Shape:
        (n_positions, at least the first n_positions)
    """
    square = gram[:, : len(gram)]
    length = np.sqrt(np.diag(square))
    length[length == 0] = 1
    return np.asarray(square / np.outer(length, length))


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
