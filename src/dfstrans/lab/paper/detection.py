"""The paper's tables of detection, from cells, with the printed figures beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dfstrans.errors import DfstransError
from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable, mean_and_std
from dfstrans.lab.compare.grid import Comparison
from dfstrans.lab.compare.protocols import PROTOCOLS, ProtocolName
from dfstrans.lab.compare.runs import Cell, cell_path, read_cell, require_settings, require_some
from dfstrans.lab.compare.variants import CHANGE, VARIANTS, former_settings, recorded_settings, settings_of_model
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.datasets import DATA_SETS, data_folder, place_of, results_folder
from dfstrans.lab.paper.printed import DETECTION, Printed, printed_for
from dfstrans.lab.paper.request import QUICK, Compute, Outcome, Request
from dfstrans.settings import DFSTRANS

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


def detection(request: Request, compute: Compute) -> Outcome:
    """A table for each protocol, with what the paper prints beside it, and the tests."""
    table = DETECTION[request.target]
    chosen = [name for name in request.data_sets or table.data_sets if name in table.data_sets]
    if not chosen:
        raise DfstransError(
            f"expected data sets that {request.target} has ({', '.join(table.data_sets)}), got "
            f"{', '.join(request.data_sets or ())}; name some of them"
        )
    protocols = request.protocols or (("paper-like",) if request.quick else tuple(PROTOCOLS))
    models = request.models or table.models
    require_data(request, chosen)
    tables: list[ResultTable] = []
    content: dict[str, Any] = {}
    failed: dict[str, str] = {}
    shown: list[Cell] = []
    for protocol in protocols:
        results = {}
        for name in chosen:
            suited = tuple(for_data(model, name, request.preset) for model in models)
            folder = results_folder(request.out, name, protocol, request.preset)
            if request.finished and not request.models:
                others = [model for model in models_in(folder) if model not in suited]
                suited += tuple(model for model in others if belongs(model, (*models, *table.if_finished)))
            if not request.finished:
                failed |= compute(comparison_for(request, name, protocol, suited, folder))
            cells = finished_cells(folder, suited, request.folds, overrides_for(request, suited))
            results[name] = ComparisonResult(suited, tuple(cells), request.folds)
            shown += cells
        tables.append(detection_table(request.target, protocol, results))
        tables += [result.test_table() for result in results.values() if result.tests("f1")]
        content[protocol] = {name: result.to_dict() for name, result in results.items()}
    if request.finished:
        require_some(request.out, shown)
    return Outcome(tables, {"protocols": content}, [], failed)


def require_data(request: Request, names: Sequence[str]) -> None:
    """Refuse before hours are spent on the first of some data sets where another is not there."""
    if not request.finished:
        for name in names:
            place_of(name, "no-overlap", data_folder(request.data), request.preset)


def comparison_for(
    request: Request,
    name: str,
    protocol: ProtocolName,
    models: tuple[str, ...],
    folder: Path,
    epochs: int | None = None,
) -> Comparison:
    """The cells that a table needs; `epochs` where the models have any and nothing else was asked for."""
    place = place_of(name, protocol, data_folder(request.data), request.preset)
    return Comparison(
        place.path,
        folder,
        models,
        request.folds,
        PROTOCOLS[protocol].split,
        place.read,
        overrides_for(request, models, epochs),
        QUICK["at_most"] if request.quick else None,
    )


def overrides_for(request: Request, models: tuple[str, ...], epochs: int | None = None) -> dict[str, Any]:
    """The settings that were asked for, and how many epochs a quick look or a measured time takes."""
    epochs = QUICK["epochs"] if request.quick else epochs
    learn_in_epochs = any("epochs" in settings_of_model(model, {}) for model in models)
    short = {"epochs": epochs} if epochs is not None and learn_in_epochs else {}
    return {**short, **request.overrides}


def for_data(model: str, data: str, preset: Preset) -> str:
    """The variant that the paper has for journeys at full rate."""
    return "inceptiontime-long" if (model, data, preset) == ("inceptiontime", "elevator", "paper") else model
