"""A table of results: for the terminal, as Markdown, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class HasSpread(Protocol):
    """A mean, and a standard deviation if it is one of several values."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def std(self) -> float | None:
        """The standard deviation."""


@dataclass(frozen=True)
class ResultTable:
    """Text in rows and columns, with a title that names the protocol and notes that must not be cut off."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """For a document."""
        lines = [f"**{self.title}**", "", _line(self.columns), "|" + "---|" * len(self.columns)]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, "", *(f"{note}\n" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def mean_and_std(spread: HasSpread | None, digits: int) -> str:
    """A figure over splits, as it is printed.

    >>> from dfstrans.experiments.comparison import Spread
    >>> mean_and_std(Spread.of([0.5, 0.7]), 3), mean_and_std(Spread.of([41000, 41000]), 0), mean_and_std(None, 3)
    ('0.600 ± 0.141', '41 000', '–')
    """
    if spread is None:
        return "–"
    mean = f"{spread.mean:,.{digits}f}".replace(",", " ")
    if spread.std is None or (digits == 0 and spread.std < 0.5):  # a single one, or a count that is always the same
        return mean
    return f"{mean} ± {spread.std:,.{digits}f}".replace(",", " ")


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
