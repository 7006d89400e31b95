"""The paper's tables of detection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dfstrans.elevator.settings import Preset
from dfstrans.errors import DfstransError
from dfstrans.experiments.cells import Cell, require_some
from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.datasets import data_folder, place_of, results_folder
from dfstrans.experiments.detection import DETECTION, belongs, detection_table, finished_cells, models_in
from dfstrans.experiments.grid import Comparison
from dfstrans.experiments.protocols import PROTOCOLS, ProtocolName
from dfstrans.experiments.tables import ResultTable
from dfstrans.experiments.variants import settings_of_model
from dfstrans.reproduction.request import QUICK, Compute, Outcome, Request


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
