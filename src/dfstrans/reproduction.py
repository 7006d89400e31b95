"""The paper's tables and figures, each by its label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.elevator.settings import Preset
from dfstrans.errors import DfstransError
from dfstrans.experiments.comparison import ComparisonResult
from dfstrans.experiments.counts import Count, counts, counts_by_sensors
from dfstrans.experiments.datasets import DATA_SETS, data_folder, effective, place_of, results_folder
from dfstrans.experiments.detection import DETECTION, detection_table, finished_cells
from dfstrans.experiments.grid import Comparison
from dfstrans.experiments.printed import SECONDS
from dfstrans.experiments.protocols import PROTOCOLS, ProtocolName
from dfstrans.experiments.tables import ResultTable, mean_and_std
from dfstrans.experiments.targets import check_target
from dfstrans.experiments.variants import settings_of_model
from dfstrans.fourier.study import study_encodings

QUICK = {"folds": 1, "epochs": 1, "at_most": 60}
TIMED_EPOCHS = 2
TIMED = ("dfstrans-paper", "inceptiontime", "tapnet", "mlstm-fcn", "mh1dcnn-lstm")

Compute = Callable[[Comparison], dict[str, str]]  # what went wrong, by cell


@dataclass(frozen=True)
class Request:
    """What to reproduce, and how much of it; what is None is what the target has."""

    target: str
    out: Path
    data: Path | None = None
    data_sets: tuple[str, ...] | None = None
    protocols: tuple[ProtocolName, ...] | None = None
    models: tuple[str, ...] | None = None
    folds: int = 5
    overrides: dict[str, Any] = field(default_factory=dict)
    preset: Preset = "small"  # of the simulated elevator
    quick: bool = False
    finished: bool = False  # only show what is there
    counts_only: bool = False


class Outcome(NamedTuple):
    """What came of it."""

    tables: list[ResultTable] = []  # noqa: RUF012 never changed
    content: dict[str, Any] = {}  # noqa: RUF012 what the tables say, for programs
    written: list[Path] = []  # noqa: RUF012
    failed: dict[str, str] = {}  # noqa: RUF012


def reproduce(request: Request, compute: Compute) -> Outcome:
    """Make a table or a figure of the paper; `compute` is given the comparisons whose cells are needed."""
    check_target(request.target)
    if request.quick:
        request = replace(request, out=request.out / "quick", folds=QUICK["folds"])
    if request.target in DETECTION:
        return _detection(request, compute)
    if request.counts_only and request.target not in ("tab:timeparams", "tab:n_params_s"):
        raise DfstransError(f"expected a table of parameters for --counts-only, got {request.target}; leave it out")
    if request.target == "tab:timeparams":
        return _time_and_parameters(request, compute)
    if request.target in ("tab:n_params_s", "fig:n_param_s"):
        return _by_sensors(request)
    return _encodings(request)


# ---- detection -------------------------------------------------------------------------------------------------------


def _detection(request: Request, compute: Compute) -> Outcome:
    table = DETECTION[request.target]
    chosen = [name for name in request.data_sets or table.data_sets if name in table.data_sets]
    if not chosen:
        raise DfstransError(
            f"expected data sets that {request.target} has ({', '.join(table.data_sets)}), got "
            f"{', '.join(request.data_sets or ())}; name some of them"
        )
    protocols = request.protocols or (("paper-like",) if request.quick else tuple(PROTOCOLS))
    models = request.models or table.models
    tables: list[ResultTable] = []
    content: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for protocol in protocols:
        results = {}
        for name in chosen:
            suited = tuple(_for_data(model, name, request.preset) for model in models)
            folder = results_folder(request.out, name, protocol, request.preset)
            if not request.finished:
                failed |= compute(_comparison(request, name, protocol, suited, folder))
            results[name] = ComparisonResult(suited, tuple(finished_cells(folder, suited)), request.folds)
        tables.append(detection_table(request.target, protocol, results))
        tables += [result.test_table() for result in results.values() if result.cells and len(result.models) > 1]
        content[protocol] = {name: result.to_dict() for name, result in results.items()}
    return Outcome(tables, {"protocols": content}, [], failed)


def _comparison(
    request: Request,
    name: str,
    protocol: ProtocolName,
    models: tuple[str, ...],
    folder: Path,
    epochs: int | None = None,
) -> Comparison:
    """The cells that a table needs; `epochs` where the models have any and nothing else was asked for."""
    epochs = QUICK["epochs"] if request.quick else epochs
    learn_in_epochs = any("epochs" in settings_of_model(model, {}) for model in models)
    short = {"epochs": epochs} if epochs is not None and learn_in_epochs else {}
    place = place_of(name, protocol, data_folder(request.data), request.preset)
    return Comparison(
        place.path,
        folder,
        models,
        request.folds,
        PROTOCOLS[protocol].split,
        place.read,
        {**short, **request.overrides},
        QUICK["at_most"] if request.quick else None,
    )


def _for_data(model: str, data: str, preset: Preset) -> str:
    """The variant that the paper has for journeys at full rate."""
    return "inceptiontime-long" if (model, data, preset) == ("inceptiontime", "elevator", "paper") else model


# ---- parameters and time ---------------------------------------------------------------------------------------------


def _time_and_parameters(request: Request, compute: Compute) -> Outcome:
    found = counts()
    if request.counts_only:
        return Outcome([_count_table("tab:timeparams", found)], _count_content(found))
    request = replace(request, folds=1)
    seconds: dict[tuple[str, str], ComparisonResult] = {}
    failed: dict[str, str] = {}
    for name in request.data_sets or tuple(DATA_SETS):
        protocol = effective(name, "paper-like")
        models = tuple(_for_data(model, name, request.preset) for model in request.models or TIMED)
        folder = results_folder(request.out, name, protocol, request.preset)
        folder = folder.with_name(f"timing_{folder.name}")
        if not request.finished:
            failed |= compute(_comparison(request, name, protocol, models, folder, TIMED_EPOCHS))
        result = ComparisonResult(models, tuple(finished_cells(folder, models)), 1)
        seconds |= {(_printed_name(model), name): result for model in models}
    table = _count_table("tab:timeparams", found)
    rows = []
    for row, count in zip(table.rows, found, strict=True):
        measured = seconds.get((count.model, count.data))
        spreads = {} if measured is None else measured.spreads(_measured_name(count.model, measured))
        printed = f"{SECONDS[count.model][count.data]:.2f}"
        rows.append((*row[:-1], mean_and_std(spreads.get("seconds_per_epoch"), 2), printed, row[-1]))
    columns = (*table.columns[:-1], "s / epoch", "s / epoch printed", table.columns[-1])
    quick = "QUICK LOOK, NO RESULT: " if request.quick else ""
    timed = replace(table, title=f"{quick}{table.title}", columns=columns, rows=tuple(rows), notes=(TIMING,))
    content = {
        f"{model}, {data}": result.to_dict()["models"].get(_measured_name(model, result))
        for (model, data), result in seconds.items()
    }
    return Outcome([timed], {**_count_content(found), "timing": content}, [], failed)


TIMING = (
    "Seconds are the median over the epochs of one split, on the threads of this run, with the paper-like cutting "
    "(the elevator: whole journeys of the chosen preset); the hardware of the printed ones is not named."
)


def _printed_name(model: str) -> str:
    return model.removesuffix("-paper").removesuffix("-long")


def _measured_name(model: str, result: ComparisonResult) -> str:
    return next((name for name in result.models if _printed_name(name) == model), model)


def _by_sensors(request: Request) -> Outcome:
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
    return ResultTable(label, ("model", "data", "parameters", "printed", "equal", "note"), rows)


def _count_content(found: list[Count]) -> dict[str, Any]:
    return {"counts": [{**count._asdict(), "equal": count.agrees} for count in found]}


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


# ---- encodings -------------------------------------------------------------------------------------------------------


def _encodings(request: Request) -> Outcome:
    from dfstrans.report import encodings_print as draw
    from dfstrans.report.printing import write_figures

    study = study_encodings()
    drawings = {
        "fig:frequencyRatio": lambda: draw.print_distribution(study.distributions),
        "fig:reconstruction_comparison": lambda: draw.print_reconstruction(
            study.reconstructions, study.positions, study.segments
        ),
        "fig:pe_comparisons": lambda: draw.print_images(study.encodings),
    }
    name = request.target.replace(":", "_")
    written = write_figures(request.out, {name: drawings[request.target]}, ("pdf", "svg", "png"))
    return Outcome(content=study.to_dict(), written=written)
