"""The `.ts` files of the UEA & UCR archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import labels
from dfstrans.data.readers.opening import ReadOptions, opening, require_content
from dfstrans.errors import DfstransError, shortlist

NAME = "a UEA or UCR archive file (.ts)"
OPTIONS = frozenset({"anomalous_value"})


def recognises(path: Path) -> bool:
    """Whether the path is a file with the suffix .ts."""
    return path.is_file() and path.suffix.lower() == ".ts"


def read(path: Path, options: ReadOptions) -> Episodes:
    """One episode per line below `@data`: its dimensions, separated by colons, and its class."""
    require_content(path, "a .ts file")
    with opening(path, "a .ts file"):
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    header, first = _header(lines, path)
    classes = header.get("classlabel", "false").split()
    has_label = classes[:1] == ["true"]
    series, words = [], []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.strip().split(":")
        if has_label:
            words.append(parts.pop().strip())
        series.append(_series(parts, header, number, path))
    if not series:
        raise DfstransError(f"expected cases below @data in {path}, got none: the file ends early; write it again")
    strange = [word for word in words if classes[1:] and word not in classes[1:]]
    if strange:
        raise DfstransError(
            f"expected the classes {shortlist(classes[1:])} at the line ends of {path}, got {shortlist(strange)}: "
            "a line ends early or is damaged; write the file again"
        )
    counts = {len(one) for one in series}
    if len(counts) > 1:
        raise DfstransError(
            f"expected the same number of dimensions in each case of {path}, got {shortlist(sorted(counts))}: "
            "a line ends early or is damaged; write the file again"
        )
    return Episodes.from_arrays(
        series,
        labels(pa.array(words), options.anomalous_value, path) if has_label else None,
        sensors=[f"dimension_{place + 1}" for place in range(counts.pop())],
    )


def _header(lines: list[str], path: Path) -> tuple[dict[str, str], int]:
    """The fields before `@data`, in lower case, and the number of the first line behind it."""
    header: dict[str, str] = {}
    for number, line in enumerate(lines):
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            first = number + 1
            break
        if word.startswith("@"):
            header[word[1:].lower()] = rest.strip()
        elif word and not word.startswith("#"):
            raise DfstransError(
                f"expected header lines that start with @ before @data in {path}, got {line[:40]!r}; "
                "is it really a .ts file?"
            )
    else:
        raise DfstransError(f"expected a line @data in {path}, got none: the file ends early; write it again")
    if header.get("timestamps", "false").lower() == "true":
        raise DfstransError(
            f"expected a .ts file without timestamps, got @timeStamps true in {path}; "
            "write the values on a regular grid without them"
        )
    if header.get("targetlabel", "false").split()[:1] == ["true"]:
        raise DfstransError(f"expected classes in {path}, got @targetLabel: a regression set; it has no anomalies")
    if not header.get("dimensions", header.get("dimension", "1")).isdigit():
        raise DfstransError(f"expected a number of dimensions in the header of {path}; write the file again")
    if not header.get("serieslength", "1").isdigit():
        raise DfstransError(f"expected a number as @seriesLength in {path}, got {header['serieslength']!r}; correct it")
    header["classlabel"] = " ".join(
        word if place else word.lower() for place, word in enumerate(header.get("classlabel", "false").split())
    )
    return header, first


def _series(parts: list[str], header: dict[str, str], number: int, path: Path) -> npt.NDArray[np.float32]:
    """One case: (n_dimensions, length)."""
    where = f"line {number} of {path}"
    n_dimensions = header.get("dimensions") or header.get("dimension")
    if not parts or (n_dimensions and len(parts) != int(n_dimensions)):
        raise DfstransError(
            f"expected {n_dimensions or 'some'} dimensions in {where}, got {len(parts)}: the line ends early; "
            "write the file again"
        )
    dimensions = []
    for text in parts:
        cells = [cell.strip() for cell in text.split(",")]
        try:
            dimensions.append(np.array(["nan" if cell == "?" else cell for cell in cells], dtype=np.float32))
        except ValueError as error:
            raise DfstransError(f"expected numbers or ? in {where}, got something else ({error}); correct it") from None
    lengths = {len(one) for one in dimensions}
    expected = header.get("serieslength") if header.get("equallength", "").lower() == "true" else None
    if len(lengths) > 1 or (expected and lengths != {int(expected)}):
        raise DfstransError(
            f"expected {expected or 'equally many'} points in each dimension in {where}, got "
            f"{shortlist(sorted(lengths))}: the line ends early or is damaged; write the file again"
        )
    return np.stack(dimensions)
