"""The paper's comparison of two encodings, and of a user's own, as numbers and arrays ready to draw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.readers.opening import opening, require_content
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
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding

Arrays = dict[str, npt.NDArray[np.float64]]

SEGMENTS = 80  # fig:reconstruction_comparison, fig:pe_comparisons
SPECTRUM_WIDTH = 256  # fig:frequencyRatio, fig:reconstruction_comparison
IMAGE_WIDTH = 240  # fig:pe_comparisons
LARGEST_WIDTH = 4096  # a d × d basis of this size takes 134 MB


@dataclass(frozen=True)
class EncodingStudy:
    """Two encodings of the paper side by side, perhaps with one's own; each dictionary goes by their names."""

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
        """What each reconstruction kept of each position."""
        return {
            name: [blur_of(row, position) for row, position in zip(rows, self.positions, strict=True)]
            for name, rows in self.reconstructions.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
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
    """Compare the vanilla and the faithful encoding, and check one's own.

    Without a width it is the paper's: 256 for frequencies and reconstructions, 240 for the encodings themselves.

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
            f"expected {option_name('segments')} to be at least 2, got {segments}; there is nothing to tell apart"
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
    require_content(path, _WHAT)
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
        raise DfstransError(f"expected {_WHAT} in {path}, got no row of numbers; write the file again")
    return np.loadtxt(lines, delimiter=delimiter, ndmin=2)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
