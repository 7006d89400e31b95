"""The paper's tables of detection, from cells, with the printed figures beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.config import DFSTRANS
from dfstrans.errors import DfstransError
from dfstrans.experiments.cells import Cell, cell_path, read_cell, require_settings
from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.datasets import DATA_SETS
from dfstrans.experiments.printed import ENCODINGS, EXTRACTION, RESULTS, Printed, printed_for
from dfstrans.experiments.protocols import PROTOCOLS, ProtocolName
from dfstrans.experiments.tables import ResultTable, mean_and_std
from dfstrans.experiments.variants import CHANGE, VARIANTS, former_settings, recorded_settings


class Detection(NamedTuple):
    """A table of the paper: which models on which data sets, and what it prints."""

    models: tuple[str, ...]
    printed: dict[str, dict[str, Printed]]
    if_finished: tuple[str, ...] = ()  # shown where cells are there; computed on request, since they need an extra

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Those that the paper has in it."""
        return tuple(self.printed)


DETECTION: dict[str, Detection] = {
    "tab:qresults": Detection(
        (
            "dfstrans",
            "dfstrans-plain",
            "dfstrans-paper",
            "mh1dcnn-lstm",
            "inceptiontime",
            "tapnet",
            "mlstm-fcn",
            "boosting",
            "neighbours",
        ),
        RESULTS,
        ("minirocket",),
    ),
    "tab:qresults_pe": Detection(("dfstrans", "dfstrans-vanilla"), ENCODINGS),
    "tab:linear_comp": Detection(("dfstrans", "dfstrans+levels=0", "dfstrans-linear", "dfstrans-tanh"), EXTRACTION),
}
COLUMNS = ("data", "model", "splits", "P", "P printed", "R", "R printed", "F1", "F1 printed", "F1 at 0.5", "PR-AUC")


def finished_cells(folder: Path, models: Sequence[str], folds: int, overrides: dict[str, Any]) -> list[Cell]:
    """The cells that a folder has of these models, splits and settings, all of the same recordings."""
    cells = []
    for model in models:
        for path in (cell_path(folder, model, fold) for fold in range(folds)):
            if path.exists():
                cells.append(read_cell(path))
                require_settings(path, cells[-1], recorded_settings(model, overrides), former_settings(model))
    kinds = {(cell.data.fingerprint, cell.protocol.split, cell.protocol.seed) for cell in cells}
    if len(kinds) > 1:
        raise DfstransError(
            f"expected cells of the same recordings and splits in {folder}, got {len(kinds)} kinds; keep each in a "
            "folder of its own"
        )
    return cells


def models_in(folder: Path) -> list[str]:
    """The models that have a finished cell in a folder."""
    return sorted({path.parent.name for path in folder.glob("*/fold_*.json")})


def belongs(model: str, models: Sequence[str]) -> bool:
    """Whether a model is one of a table's with other settings, or a variant of one of its rivals.

    Variants of DFStrans are what the tables differ in, so a table has only those of them that it names.

    >>> [belongs(name, ("dfstrans", "tapnet")) for name in ("dfstrans+epochs=3", "tapnet-plain", "dfstrans-linear")]
    [True, True, False]
    """
    base = model.split(CHANGE)[0]
    kind = VARIANTS[base].kind if base in VARIANTS else base
    return base in models or (kind != DFSTRANS and kind in models)


def detection_table(target: str, protocol: ProtocolName, results: dict[str, ComparisonResult]) -> ResultTable:
    """One protocol's part of a table of the paper; `results` by data set."""
    rows = []
    for data, result in results.items():
        for model in result.models:
            spreads, printed = result.spreads(model), printed_for(model, DETECTION[target].printed.get(data, {}))
            row = [DATA_SETS[data].title, model, f"{len(result.of(model))} of {result.folds}"]
            for number, name in enumerate(("precision", "recall", "f1")):
                row += [mean_and_std(spreads.get(name), 3), _as_printed(printed, number)]
            row += [mean_and_std(spreads.get(name), 3) for name in ("f1_at_half", "pr_auc")]
            rows.append(tuple(row))
    quick = any(cell.protocol.at_most is not None for result in results.values() for cell in result.cells)
    title = f"{target}, protocol {protocol}"
    notes = [f"Protocol {protocol}: {PROTOCOLS[protocol].meaning}.", PRINTED]
    if "elevator" in results:
        notes.append(ELEVATOR)
    for data, result in results.items():
        notes += [f"{DATA_SETS[data].title}: {warning}" for warning in result.doubts()]
    return ResultTable(f"QUICK LOOK, NO RESULT: {title}" if quick else title, COLUMNS, tuple(rows), tuple(notes))


PRINTED = (
    "Test parts of 70/15/15 splits, mean ± standard deviation; P, R and F1 at the threshold chosen on validation. "
    "“printed”: the paper's figure for the same model, of five splits, whose cutting and threshold it does not tell."
)
ELEVATOR = (
    "The elevator here is the open simulator's, not the authors'; its journeys are recorded one by one, so paper-like "
    "and no-overlap are the same for it."
)


def _as_printed(printed: Printed | None, number: int) -> str:
    if printed is None:
        return "–"
    spread = "" if printed.spread is None else f" ± {printed.spread[number]:.3f}"
    return f"{printed[number]:.3f}{spread}"
