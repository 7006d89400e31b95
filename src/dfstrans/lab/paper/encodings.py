"""The paper's comparison of two positional encodings, and of a user's own: numbers and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dfstrans.data.readers.opening import opening
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.paper.fourier import (
    Blur,
    Faithfulness,
    as_codes,
    as_density,
    blur_of,
    check_faithfulness,
    faithful_distribution,
    lowest_bin_crossing,
    lowest_bin_entries,
    position_functions,
    reconstruct,
    vanilla_distribution,
)
from dfstrans.lab.paper.request import Outcome, Request, write_target
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.page import write_page
from dfstrans.report.print_figures import WIDTH, new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Arrays = dict[str, npt.NDArray[np.float64]]

SEGMENTS = 80  # fig:reconstruction_comparison, fig:pe_comparisons
SPECTRUM_WIDTH = 256  # fig:frequencyRatio, fig:reconstruction_comparison
IMAGE_WIDTH = 240  # fig:pe_comparisons
LARGEST_WIDTH = 4096  # a d × d basis of this size takes 134 MB


@dataclass(frozen=True)
class EncodingStudy:
    """The two encodings of the paper, and possibly the user's own; dictionaries have their names as keys."""

    segments: int
    positions: tuple[int, ...]  # whose one-hot functions are reconstructed
    lowest_bin_crossing: float
    lowest_bin_entries: int
    distributions: Arrays  # (d/2 + 1,): g_k
    reconstructions: Arrays  # (len(positions), d)
    encodings: Arrays  # (n_positions, d)
    checks: dict[str, Faithfulness]

    @property
    def spectrum_width(self) -> int:
        """The d of the distributions and the reconstructions."""
        return 2 * (len(self.distributions["vanilla"]) - 1)

    @property
    def blurs(self) -> dict[str, list[Blur]]:
        """How sharply each reconstruction represents each position."""
        return {
            name: [blur_of(row, position) for row, position in zip(rows, self.positions, strict=True)]
            for name, rows in self.reconstructions.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """The numbers for JSON."""
        return {
            "segments": self.segments,
            "spectrum": {
                "width": self.spectrum_width,
                "lowest_bin_crossing": self.lowest_bin_crossing,
                "lowest_bin_entries": self.lowest_bin_entries,
                "distributions": {name: shares.tolist() for name, shares in self.distributions.items()},
            },
            "reconstruction": {name: [asdict(blur) for blur in blurs] for name, blurs in self.blurs.items()},
            "encodings": {name: check.to_dict() for name, check in self.checks.items()},
        }


def study_encodings(
    segments: int = SEGMENTS, width: int | None = None, own: npt.ArrayLike | None = None
) -> EncodingStudy:
    """Compare the vanilla and the faithful encoding, and check the user's own.

    The default width is the paper's: 256 for frequencies and reconstructions, 240 for the encodings themselves.

    Shape:
        own (n_positions, any d)
    """
    d_spectrum, d_image = (SPECTRUM_WIDTH, IMAGE_WIDTH) if width is None else (width, width)
    _check(segments, min(d_spectrum, d_image))
    distributions = {"vanilla": vanilla_distribution(d_spectrum), "faithful": faithful_distribution(d_spectrum)}
    weights = {"vanilla": distributions["vanilla"], "faithful": as_density(distributions["faithful"])}
    positions = _positions(segments)
    functions = position_functions(positions, d_spectrum)
    encodings = {"vanilla": vanilla_encoding(segments, d_image), "faithful": faithful_encoding(segments, d_image)}
    if own is not None:
        encodings["own"] = as_codes(own)
    return EncodingStudy(
        segments=segments,
        positions=positions,
        lowest_bin_crossing=lowest_bin_crossing(d_spectrum),
        lowest_bin_entries=lowest_bin_entries(d_spectrum),
        distributions=distributions,
        reconstructions={name: reconstruct(functions, g) for name, g in weights.items()},
        encodings=encodings,
        checks={name: check_faithfulness(encoding) for name, encoding in encodings.items()},
    )


def _positions(segments: int) -> tuple[int, ...]:
    """Near the beginning, in the middle and near the end: 5, 40 and 75 of 80."""
    margin = segments // 16
    return tuple(sorted({margin, segments // 2, min(segments - margin, segments - 1)}))


def _check(segments: int, width: int) -> None:
    if width < 2 or width % 2 or width > LARGEST_WIDTH:
        raise DfstransError(
            f"expected {option_name('width')} to be an even number from 2 to {LARGEST_WIDTH} (sine and cosine come "
            f"in pairs), got {width}; take {min(max(2, width + width % 2), LARGEST_WIDTH)}"
        )
    if segments < 2:
        raise DfstransError(
            f"expected {option_name('segments')} to be at least 2, got {segments}; use at least two positions"
        )
    if segments > width:
        raise DfstransError(
            f"expected at most {width} segments for an encoding of width {width}, got {segments}: beyond that the "
            f"faithful encoding repeats itself; use fewer {option_name('segments')} or a larger {option_name('width')}"
        )


_TEXT = (".csv", ".tsv", ".txt")
_WHAT = "a matrix with one row per position"


def read_encoding(path: Path) -> npt.NDArray[np.float64]:
    """The encoding in a .npy file, or in a text table of numbers with or without a header.

    Shape:
        (n_positions, d_model)
    """
    suffix = path.suffix.lower()
    if suffix != ".npy" and suffix not in _TEXT:
        raise DfstransError(f"expected an encoding in .npy or .csv, got {path.name}; save it with numpy.save")
    with opening(path, _WHAT):
        values = _read_npy(path) if suffix == ".npy" else _read_text(path)
        return as_codes(values)


def _read_npy(path: Path) -> npt.NDArray[np.generic]:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            raise DfstransError(f"expected one array in {path}, got an archive of several; save one with numpy.save")
        return loaded


def _read_text(path: Path) -> npt.NDArray[np.float64]:
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip() and line[0] != "#"]
    delimiter = next((mark for mark in ";\t," if lines and mark in lines[0]), None)
    if lines and not any(map(_is_number, lines[0].split(delimiter))):
        del lines[0]  # a header
    if not lines:
        raise DfstransError(f"expected {_WHAT} in {path}, got no row of numbers; correct the file")
    return np.loadtxt(lines, delimiter=delimiter, ndmin=2)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- figures --------------------------------------------------------------------------------------------------------

COLOURS = {"vanilla": INK, "faithful": NORMAL, "own": ANOMALOUS}
POSITION_COLOURS = (NORMAL, "#66a182", ANOMALOUS)
MOST_POSITIONS, MOST_COLUMNS = 256, 512  # positions and columns shown; of a larger encoding, the beginning
DRAWN = {  # figure of the paper → drawing
    "fig:frequencyRatio": "encoding_distribution",
    "fig:reconstruction_comparison": "encoding_reconstruction",
    "fig:pe_comparisons": "encoding_images",
}


def encodings(request: Request) -> Outcome:
    """Draw the frequencies, the reconstructions or the codes."""
    study = study_encodings()
    return Outcome(content=study.to_dict(), written=write_target(request, drawings(study)[DRAWN[request.target]]))


def drawings(study: EncodingStudy) -> dict[str, Callable[[], Figure]]:
    """The four figures of a study, by the names of their files."""
    grams = {name: check.gram for name, check in study.checks.items()}
    return {
        "encoding_distribution": lambda: draw_distribution(study.distributions),
        "encoding_reconstruction": lambda: draw_reconstruction(study.reconstructions, study.positions, study.segments),
        "encoding_images": lambda: draw_images(study.encodings),
        "encoding_similarity": lambda: draw_similarity(grams),
    }


def write_encodings(folder: Path, study: EncodingStudy) -> list[Path]:
    """Write the figures as PDF and SVG, and a self-contained page with them and their numbers; the page comes first."""
    figures = write_figures(folder, drawings(study))
    pictures = {path.stem: path.read_text(encoding="utf-8") for path in figures if path.suffix == ".svg"}
    inline = {name: Markup(text[text.index("<svg") :]) for name, text in pictures.items()}
    page = write_page(folder / "encodings.html", "encodings.html", package="dfstrans.lab", study=study, figures=inline)
    return [page, *figures]


def draw_distribution(distributions: Arrays) -> Figure:
    """g_k of each encoding over the frequencies of the lattice [fig:frequencyRatio].

    Shape:
        distributions: each (d_model / 2 + 1,)
    """
    figure = new_figure(height=2.4)
    axes = figure.subplots()
    for name, shares in distributions.items():
        axes.plot(shares, color=COLOURS[name], label=name, linewidth=1.4, clip_on=False)
    axes.set(xlabel="frequency $k$ (slow to fast)", ylabel="share $g_k$", ylim=(0, None))
    axes.margins(x=0)
    axes.legend()
    return figure


def draw_reconstruction(reconstructions: Arrays, positions: tuple[int, ...], n_segments: int) -> Figure:
    """Single positions, reconstructed with the frequencies of each encoding [fig:reconstruction_comparison].

    Shape:
        reconstructions: each (len(positions), d_model), of which the first n_segments are shown
    """
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


def draw_images(encodings: Arrays) -> Figure:
    """The codes as images, each on its own scale [fig:pe_comparisons].

    Shape:
        encodings: each (n_positions, d_model)
    """
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


def draw_similarity(grams: Arrays) -> Figure:
    """The cosine similarity of the codes of any two positions.

    Shape:
        grams: each (n_positions, n_positions)
    """
    figure = new_figure(height=0.75 + (WIDTH - 1.75) / len(grams))  # space for labels and the colour scale
    panels = figure.subplots(1, len(grams), squeeze=False)[0]
    for axes, (name, gram) in zip(panels, grams.items(), strict=True):
        image = axes.imshow(cosines(visible(gram)), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axes.set(title=name, xlabel="position")
    panels[0].set_ylabel("position")
    figure.colorbar(image, ax=panels, label="cosine", pad=0.02, shrink=0.9)
    return figure


def image_title(name: str, codes: npt.NDArray[np.float64]) -> str:
    """The name and the size of an encoding, and whether only its beginning is shown."""
    n_positions, d_model = codes.shape
    beginning = ", its beginning" if visible(codes).shape != codes.shape else ""
    return f"{name} ({n_positions} positions, width {d_model}{beginning})"


def visible(codes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The beginning of an encoding, as much as fits: subsampling would show spurious waves."""
    return codes[:MOST_POSITIONS, :MOST_COLUMNS]


def cosines(gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The Gram matrix of codes scaled to length 1; codes of length 0 have similarity 0.

    Shape:
        (n_positions, at least the first n_positions)
    """
    square = gram[:, : len(gram)]
    length = np.sqrt(np.diag(square))
    length[length == 0] = 1
    return np.asarray(square / np.outer(length, length))
