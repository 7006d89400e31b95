"""What each change to the paper's training and network brings: DFStrans with one of them taken away at a time."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfstrans.lab.compare.comparison import TESTED, WEAKNESS, ComparisonResult, ResultTable, mean_and_std
from dfstrans.lab.compare.runs import Cell, require_some
from dfstrans.lab.compare.significance import PairedTest
from dfstrans.lab.compare.variants import check_models
from dfstrans.lab.paper.datasets import results_folder
from dfstrans.lab.paper.detection import comparison_for, finished_cells, overrides_for, require_data
from dfstrans.lab.paper.request import Compute, Outcome, Request
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.print_figures import mark_as_no_result, new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ABLATION = "ablation"
WHOLE = "dfstrans"
TAKEN_AWAY: dict[str, str] = {
    "dfstrans+weight_averaging=0": "averaging of weights",
    "dfstrans+mixup=0": "mixing of pairs",
    "dfstrans+quantile_features=0": "coded statistics of segments",
    "dfstrans+sensor_dropout=0.15": "doing without dropout of sensors (here 0.15)",
    "dfstrans+time_shift=0": "shift in time",
    "dfstrans+imbalance=none": "weighing of classes",
    "dfstrans+schedule=constant": "one-cycle schedule",
    "dfstrans+norm=batch": "batch renorm (here plain batch norm)",
    "dfstrans+pooling=mean": "deviation over segments (here their mean alone)",
    "dfstrans+dropout=0.1": "doing without dropout (here the paper's)",
    "dfstrans-paper-size": "slim network (here the paper's size)",
    "dfstrans-vanilla": "faithful encoding (here vanilla)",
    "dfstrans-paper": "everything (the preset paper)",
}
"""Names of `compare`, and what of `dfstrans` they do without."""
COLUMNS = ("taken away", "model", "splits")
MEANING = (
    "“brings” is the mean over the splits of dfstrans minus the model without the change, on the same splits: above "
    "zero, the change helps. The interval is its 95 % interval; where it holds zero, nothing is shown."
)


def models_of(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The models of the table, the whole one first."""
    return (WHOLE, *(name for name in names or TAKEN_AWAY if name != WHOLE))


def seed_folder(folder: Path, seed: int) -> Path:
    """Where the cells of a seed are: those of 0 beside those of other tables, which share them."""
    return folder if seed == 0 else folder.with_name(f"{folder.name}_seed_{seed}")


def ablation_table(result: ComparisonResult) -> ResultTable:
    """Each model that does without one thing, and what that thing brings."""
    brought = {figure: result.tests(figure) for figure in TESTED}
    rows = []
    for model in result.models:
        spreads = result.spreads(model)
        row = [what_is_missing(model), model, f"{len(result.of(model))} of {result.folds}"]
        for figure in TESTED:
            row.append(mean_and_std(spreads.get(figure), 3))
            row += ["", "", ""] if model == result.models[0] else _shown(brought[figure].get(model))
        rows.append(tuple(row))
    columns = [part for name in TESTED.values() for part in (name, f"{name} brings", "95 % interval", "p, adjusted")]
    return ResultTable(f"ablation: {result.title}", (*COLUMNS, *columns), tuple(rows), (MEANING, WEAKNESS))


def ablation_content(result: ComparisonResult) -> dict[str, Any]:
    """The same for programs."""
    return {**result.to_dict(), "taken_away": {model: what_is_missing(model) for model in result.models}}


def what_is_missing(model: str) -> str:
    """What a model does without."""
    return "nothing" if model == WHOLE else TAKEN_AWAY.get(model, "")


def _shown(test: PairedTest | None) -> list[str]:
    if test is None:
        return ["–", "–", "–"]
    return [f"{test.difference:+.3f}", test.interval, "–" if test.p_adjusted is None else f"{test.p_adjusted:.3f}"]


def write_ablation_figure(folder: Path, name: str, result: ComparisonResult) -> list[Path]:
    """Write the figure as PDF, SVG and PNG."""
    return write_figures(folder, {name: lambda: print_ablation(result)}, ("pdf", "svg", "png"))


def print_ablation(result: ComparisonResult) -> Figure:
    """The gain of each change with its 95 % interval, and each split as a faint point behind it."""
    rivals = result.models[1:]
    figure = new_figure(1.1 + 0.27 * len(rivals))
    panels = figure.subplots(1, len(TESTED), sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(panels, TESTED.items(), strict=True):
        axes.axvline(0, color=INK, linewidth=0.7)
        tests = result.tests(name)
        for row, model in enumerate(rivals):
            if model not in tests:
                axes.text(0, row, " not finished", color="#6b7785", fontsize=7, va="center")
                continue
            test = tests[model]
            gains = result.gains(name, model)
            axes.plot(gains, [row] * len(gains), "o", color=NORMAL, alpha=0.35, markersize=3.5, linewidth=0)
            reach = (
                None
                if test.low is None or test.high is None
                else [[test.difference - test.low], [test.high - test.difference]]
            )
            axes.errorbar(
                test.difference, row, xerr=reach, fmt="D", color=ANOMALOUS, markersize=4, capsize=2.5, linewidth=1.1
            )
        axes.set_title(f"{title} gained")
        axes.set_yticks(range(len(rivals)), [what_is_missing(model) or model for model in rivals])
        axes.set_ylim(len(rivals) - 0.5, -0.5)
        axes.grid(axis="x", color="#e4e8ec", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.supxlabel("dfstrans minus the model without it, mean and 95 % interval; points: splits", fontsize=8)
    if any(cell.protocol.at_most is not None for cell in result.cells):
        mark_as_no_result(figure)
    return figure


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
