"""The ablation: DFStrans with one change taken away at a time, from cells as those of `dfstrans compare`."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from dfstrans.experiments.ablation import ABLATION, ablation_content, ablation_table, models_of, seed_folder
from dfstrans.experiments.cells import Cell, require_some
from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.datasets import results_folder
from dfstrans.experiments.detection import finished_cells
from dfstrans.experiments.tables import ResultTable
from dfstrans.experiments.variants import check_models
from dfstrans.report.ablation_print import write_ablation_figure
from dfstrans.reproduction.detection import comparison_for, overrides_for, require_data
from dfstrans.reproduction.request import Compute, Outcome, Request


def ablation(request: Request, compute: Compute) -> Outcome:
    """What each change brings on each data set under each protocol, over splits and seeds."""
    models = check_models(models_of(request.models))
    tables: list[ResultTable] = []
    content: dict[str, Any] = {}
    failed: dict[str, str] = {}
    shown: list[Cell] = []
    written = []
    names = request.data_sets or ("elevator",)
    require_data(request, names)
    for protocol in request.protocols or ("no-overlap",):
        for name in names:
            folder = results_folder(request.out, name, protocol, request.preset)
            cells: list[Cell] = []
            for seed in range(request.seed, request.seed + request.seeds):
                place = seed_folder(folder, seed)
                seeded = replace(request, overrides={**request.overrides, "seed": seed})
                if not request.finished:
                    found = compute(comparison_for(seeded, name, protocol, models, place))
                    failed |= {f"{place.name}, {cell}": message for cell, message in found.items()}
                cells += finished_cells(place, models, request.folds, overrides_for(seeded, models))
            result = ComparisonResult(models, tuple(cells), request.folds * request.seeds)
            tables.append(ablation_table(result))
            content[folder.name] = ablation_content(result)
            shown += cells
            if cells and not request.only_shown and find_spec("matplotlib") is not None:
                written += write_ablation_figure(request.out, f"{ABLATION}_{folder.name}", result)
    if request.finished:
        require_some(request.out, shown)
    return Outcome(tables, {"ablation": content}, written, failed)
