"""The paper's tables of parameters and of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dfstrans.experiments.cells import require_some
from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.counts import Count, counts, counts_by_sensors
from dfstrans.experiments.datasets import DATA_SETS, effective, results_folder
from dfstrans.experiments.detection import finished_cells
from dfstrans.experiments.printed import SECONDS
from dfstrans.experiments.tables import ResultTable, mean_and_std
from dfstrans.reproduction.detection import comparison_for, for_data, overrides_for, require_data
from dfstrans.reproduction.request import NO_RESULT, Compute, Outcome, Request

TIMED_EPOCHS = 2
TIMED = ("dfstrans-paper", "inceptiontime", "tapnet", "mlstm-fcn", "mh1dcnn-lstm")


def time_and_parameters(request: Request, compute: Compute) -> Outcome:
    """The parameters of each network, and how long an epoch takes [tab:timeparams]."""
    found = counts()
    if request.counts_only:
        return Outcome([_count_table("tab:timeparams", found)], _count_content(found))
    request = replace(request, folds=1)
    seconds: dict[tuple[str, str], ComparisonResult] = {}
    failed: dict[str, str] = {}
    names = request.data_sets or tuple(DATA_SETS)
    found = [count for count in found if count.data in names]
    require_data(request, names)
    for name in names:
        protocol = effective(name, "paper-like")
        models = tuple(for_data(model, name, request.preset) for model in request.models or TIMED)
        folder = results_folder(request.out, name, protocol, request.preset)
        folder = folder.with_name(f"timing_{folder.name}")
        if not request.finished:
            failed |= compute(comparison_for(request, name, protocol, models, folder, TIMED_EPOCHS))
        cells = finished_cells(folder, models, 1, overrides_for(request, models, TIMED_EPOCHS))
        result = ComparisonResult(models, tuple(cells), 1)
        seconds |= {(_printed_name(model), name): result for model in models}
    if request.finished:
        require_some(request.out, [cell for result in seconds.values() for cell in result.cells])
    table = _count_table("tab:timeparams", found)
    rows = []
    for row, count in zip(table.rows, found, strict=True):
        measured = seconds.get((count.model, count.data))
        spreads = {} if measured is None else measured.spreads(_measured_name(count.model, measured))
        printed = f"{SECONDS[count.model][count.data]:.2f}"
        rows.append((*row[:-1], mean_and_std(spreads.get("seconds_per_epoch"), 2), printed, row[-1]))
    columns = (*table.columns[:-1], "s / epoch", "s / epoch printed", table.columns[-1])
    quick = NO_RESULT if request.quick else ""
    timed = replace(
        table, title=f"{quick}{table.title}", columns=columns, rows=tuple(rows), notes=(*table.notes, TIMING)
    )
    content = {
        f"{model}, {data}": result.to_dict()["models"].get(_measured_name(model, result))
        for (model, data), result in seconds.items()
    }
    return Outcome([timed], {**_count_content(found), "timing": content}, [], failed)


OF_THE_PAPER = "dfstrans here is the paper's network, which `dfstrans compare` calls dfstrans-paper."
TIMING = (
    "Seconds are the median over the epochs of one split, on the threads of this run, with the paper-like cutting "
    "(the elevator: whole journeys of the chosen preset); the hardware of the printed ones is not named."
)


def _printed_name(model: str) -> str:
    return model.removesuffix("-paper").removesuffix("-long")


def _measured_name(model: str, result: ComparisonResult) -> str:
    return next((name for name in result.models if _printed_name(name) == model), model)


def parameters_by_sensors(request: Request) -> Outcome:
    """How the parameters grow with the sensors [tab:n_params_s, fig:n_param_s]."""
    found = counts_by_sensors()
    written = []
    if request.target == "fig:n_param_s":
        from dfstrans.report.counts_print import write_counts_figure

        written = write_counts_figure(request.out, found)
    return Outcome([_count_table("tab:n_params_s", found)], _count_content(found), written)


def _count_table(label: str, found: list[Count]) -> ResultTable:
    rows = tuple(
        (c.model, c.data, _spaced(c.parameters), _spaced(c.printed), "yes" if c.agrees else "NO", c.note) for c in found
    )
    return ResultTable(label, ("model", "data", "parameters", "printed", "equal", "note"), rows, (OF_THE_PAPER,))


def _count_content(found: list[Count]) -> dict[str, Any]:
    return {"counts": [{**count._asdict(), "equal": count.agrees} for count in found]}


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
