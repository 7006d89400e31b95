"""What finished cells say about the models: means, spreads, and whether the differences are more than luck."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dfstrans.lab.compare.commands import commands_of
from dfstrans.lab.compare.protocols import PROTOCOLS
from dfstrans.lab.compare.runs import Cell
from dfstrans.lab.compare.significance import (
    PairedTest,
    adjusted,
    corrected_t_test,
    doubt,
    is_gauge,
    leak,
    split_of,
    too_small,
    verdict,
)


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

    >>> from dfstrans.lab.compare.comparison import Spread
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


TESTED = {"f1": "F1", "pr_auc": "PR-AUC"}  # what models are tested by, at the threshold chosen on validation
WEAKNESS = (
    "Corrected resampled t-test of Nadeau and Bengio over the splits, with Holm's correction for the number of rivals. "
    "A few splits show large differences only: that none was found does not mean that there is none."
)


class Spread(NamedTuple):
    """A figure over splits."""

    mean: float
    std: float | None  # of the splits, with n − 1; None for a single one
    values: list[float]

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Of the values that there are."""
        there = [float(value) for value in values if value is not None]
        if not there:
            return None
        return cls(float(np.mean(there)), float(np.std(there, ddof=1)) if len(there) > 1 else None, there)


def figures_of(cell: Cell) -> dict[str, float | None]:
    """The figures of a cell by the names that they have in results."""
    names = ("precision", "recall", "f1")
    return {
        **{name: cell.test[name] for name in (*names, "pr_auc", "false_alarms_per_100_normal")},
        **{f"{name}_at_half": cell.test_at_half[name] for name in names},
        "false_alarms_per_100_normal_at_half": cell.test_at_half["false_alarms_per_100_normal"],
        "validation_f1": cell.validation["f1"],
        "validation_pr_auc": cell.validation["pr_auc"],
        "seconds_per_epoch": cell.training.seconds_per_epoch,
        "training_seconds": cell.training.seconds,
        "parameters": cell.training.parameters,
    }


def _value(cell: Cell, figure: str) -> float:
    return float(cell.test[figure] or 0.0)


@dataclass(frozen=True)
class ComparisonResult:
    """Models beside each other on the same splits; `cells` of one data set and protocol."""

    models: tuple[str, ...]
    cells: tuple[Cell, ...]
    folds: int  # that were asked for, of all seeds

    def of(self, model: str) -> list[Cell]:
        """The cells of a model, by seed and split."""
        return sorted((cell for cell in self.cells if cell.model == model), key=split_of)

    @property
    def first(self) -> str:
        """The model that the others are tested against: the first that has a finished cell, the gauge of leak last."""
        return next((model for model in sorted(self.models, key=is_gauge) if self.of(model)), self.models[0])

    def spreads(self, model: str) -> dict[str, Spread | None]:
        """Every figure of a model over its splits."""
        rows = [figures_of(cell) for cell in self.of(model)]
        return {name: Spread.of(row[name] for row in rows) for name in rows[0]} if rows else {}

    def leak(self, figure: str) -> float | None:
        """What the gauge of leak reaches in the mean; None where there is none, or where a place tells nothing."""
        gauge = next((model for model in self.models if is_gauge(model) and self.of(model)), None)
        spread = self.spreads(gauge)[figure] if gauge is not None and leak({gauge: self.of(gauge)}) else None
        return spread and spread.mean

    def tests(self, figure: str) -> dict[str, PairedTest]:
        """The first model against each of the others, on the splits that both have finished.

        The gauge of leak is none of the rivals that p is adjusted for the number of.
        """
        found = {}
        for rival in (model for model in self.models if model != self.first):
            pairs = self._pairs(rival)
            if pairs:
                ratio = np.mean([cell.test["episodes"] / cell.training.train_episodes for cell, _ in pairs])  # type: ignore[operator]
                columns = [[_value(cell, figure) for cell in column] for column in zip(*pairs, strict=True)]
                found[rival] = corrected_t_test(columns[0], columns[1], float(ratio))
        for family in ([name for name in found if is_gauge(name) is gauge] for gauge in (False, True)):
            found |= dict(zip(family, adjusted([found[name] for name in family]), strict=True))
        return found

    def gains(self, figure: str, rival: str) -> list[float]:
        """What the first model has more than another, split by split."""
        return [_value(first, figure) - _value(other, figure) for first, other in self._pairs(rival)]

    def _pairs(self, rival: str) -> list[tuple[Cell, Cell]]:
        """The cells of the first model and of another, on the splits that both have finished."""
        first = {split_of(cell): cell for cell in self.of(self.first)}
        return [(first[split_of(cell)], cell) for cell in self.of(rival) if split_of(cell) in first]

    @property
    def title(self) -> str:
        """What was compared on what, and how."""
        if not self.cells:
            return "no cell is finished yet"
        cell = self.cells[0]
        cut = {name: cell.data.read[name] for name in ("length", "stride") if name in cell.data.read}
        cutting = f" ({', '.join(f'{name} {value}' for name, value in cut.items())})" if cut else ""
        quick = "" if cell.protocol.at_most is None else f"QUICK LOOK at {cell.data.episodes} episodes, NO RESULT: "
        return (
            f"{quick}{cell.data.title}{cutting}, {cell.data.episodes} episodes of {cell.data.sensors} sensors, "
            f"{cell.data.anomalous} anomalous; protocol {cell.protocol.name}, seed {self._seeds}, "
            f"test parts of {self.folds} 70/15/15 splits"
        )

    def table(self) -> ResultTable:
        """Mean ± standard deviation of each model."""
        rows = []
        for model in self.models:
            spreads = self.spreads(model)
            shown = [mean_and_std(spreads.get(name), digits) for name, (_, digits) in COLUMNS.items()]
            rows.append((model, f"{len(self.of(model))} of {self.folds}", *shown))
        notes = [f"Protocol {self.cells[0].protocol.name}: {self._meaning}."] if self.cells else []
        return ResultTable(
            self.title,
            ("model", "splits", *(title for title, _ in COLUMNS.values())),
            tuple(rows),
            (*notes, *self.doubts(), *(f"Command: {command}" for command in self.commands())),
        )

    def commands(self) -> list[str]:
        """What gave the cells; more than one where models were given different settings."""
        return commands_of(cell for model in self.models for cell in self.of(model))

    def doubts(self) -> list[str]:
        """Which models are not shown to be better than guessing, what may be leak, and which parts are too small."""
        said = (doubt(self.of(model)) for model in self.models if not is_gauge(model))
        leaking = leak({model: self.of(model) for model in self.models})
        return [*(warning for warning in said if warning is not None), *leaking, *too_small(self.cells)]

    def conclusions(self) -> list[str]:
        """Where the first model stands, figure by figure, in words."""
        tests = {title: self.tests(figure) for figure, title in TESTED.items()}
        said = [verdict(title, self.first, found) for title, found in tests.items() if found]
        asked = next((model for model in self.models if not is_gauge(model)), self.first)
        if said and self.first != asked:
            said.append(f"{asked} has no finished cell: {self.first} stands in its place.")
        return said

    def test_table(self) -> ResultTable:
        """The first model against each of the others."""
        rows = []
        for figure, title in TESTED.items():
            for rival, test in self.tests(figure).items():
                shown = ("–" if p is None else f"{p:.3f}" for p in (test.p, test.p_adjusted))
                rows.append((title, rival, str(test.splits), f"{test.difference:+.3f}", test.interval, *shown))
        columns = ("figure", "rival", "splits", "difference", "95 % interval", "p", "p, adjusted")
        notes = (*self.conclusions(), WEAKNESS)
        of = f", {self.cells[0].data.title}, protocol {self.cells[0].protocol.name}" if self.cells else ""
        return ResultTable(f"{self.first} against each rival{of}", columns, tuple(rows), notes)

    def tables(self) -> list[ResultTable]:
        """The figures and, where there are two models to be compared, the tests."""
        return [self.table(), *([self.test_table()] if self.tests("f1") else [])]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        some = self.cells[0] if self.cells else None
        return {
            "title": self.title,
            "protocol": some and {**some.protocol.model_dump(mode="json"), "meaning": self._meaning},
            "data": some and some.data.model_dump(mode="json"),
            "folds": self.folds,
            "commands": self.commands(),
            "models": {
                model: {
                    "splits": [cell.fold for cell in self.of(model)],
                    **{name: spread and spread._asdict() for name, spread in self.spreads(model).items()},
                }
                for model in self.models
            },
            "conclusions": [*self.conclusions(), *self.doubts()],
            "tests": {
                "method": WEAKNESS,
                "first": self.first,
                **{figure: {rival: test._asdict() for rival, test in self.tests(figure).items()} for figure in TESTED},
            },
        }

    @property
    def _seeds(self) -> str:
        return ", ".join(map(str, sorted({cell.protocol.seed for cell in self.cells})))

    @property
    def _meaning(self) -> str:
        return PROTOCOLS[self.cells[0].protocol.name].meaning


COLUMNS: dict[str, tuple[str, int]] = {
    "precision": ("P", 3),
    "recall": ("R", 3),
    "f1": ("F1", 3),
    "precision_at_half": ("P at 0.5", 3),
    "recall_at_half": ("R at 0.5", 3),
    "f1_at_half": ("F1 at 0.5", 3),
    "pr_auc": ("PR-AUC", 3),
    "false_alarms_per_100_normal": ("false alarms / 100", 1),
    "seconds_per_epoch": ("s / epoch", 1),
    "training_seconds": ("training s", 0),
    "parameters": ("parameters", 0),
}
"""What the table shows: its title and digits. P, R and F1 are at the threshold that was chosen on validation."""
