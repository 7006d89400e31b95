"""The paper's detection tables, with its printed metrics, and the ablation, made from finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfstrans.errors import DfstransError
from dfstrans.lab.compare.comparison import METHOD, TESTED, ComparisonResult, ResultTable, mean_and_std, p_value
from dfstrans.lab.compare.grid import Comparison
from dfstrans.lab.compare.protocols import PROTOCOLS, BaselineName, ProtocolName
from dfstrans.lab.compare.runs import Run, check_settings, read_runs, require_some
from dfstrans.lab.compare.significance import PairedTest
from dfstrans.lab.compare.variants import CHANGE, VARIANTS, recorded_settings, settings_of_model
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.printed import DETECTION, Printed, printed_for
from dfstrans.lab.paper.request import (
    DATA_SETS,
    FORMATS,
    QUICK,
    QUICK_LOOK,
    Outcome,
    Request,
    data_folder,
    recordings_of,
    store_path,
)
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL
from dfstrans.report.print_figures import mark_as_no_result, new_figure, write_figures
from dfstrans.settings import DFSTRANS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# ---- detection ------------------------------------------------------------------------------------------------------

COLUMNS = ("data", "model", "splits", "P", "P printed", "R", "R printed", "F1", "F1 printed", "F1 at 0.5", "PR-AUC")
PRINTED = (
    "Test parts of 70/15/15 splits, mean ± standard deviation; P, R and F1 at the threshold chosen on validation. "
    "“printed”: the paper's metric of the same model, over five splits; it does not state its cutting and threshold."
)
ELEVATOR = (
    "The elevator here is the open simulator's, not the authors'; its journeys are recorded one by one, so paper-like "
    "and no-overlap are the same."
)


def detection(request: Request) -> Outcome:
    """A table for each protocol, with the printed metrics, and the significance tests."""
    table = DETECTION[request.target]
    names = [name for name in request.data_sets or table.data_sets if name in table.data_sets]
    if not names:
        raise DfstransError(
            f"expected data sets of {request.target} ({', '.join(table.data_sets)}), got "
            f"{', '.join(request.data_sets or ())}; name some of them"
        )
    require_data(request, names)
    outcome = Outcome([], {"protocols": {}}, [], {})
    shown: list[Run] = []
    for protocol in request.protocols or (("paper-like",) if request.quick else tuple(PROTOCOLS)):
        results = {}
        for name in names:
            store = store_path(request.out, name, protocol, request.preset)
            models = tuple(model_for(model, name, request.preset) for model in request.models or table.models)
            if request.finished and not request.models:
                others = sorted({run.model for run in read_runs(store)} - {*models})
                models += tuple(model for model in others if _belongs(model, (*models, *table.if_finished)))
            runs = runs_for(request, name, protocol, models, store, outcome.failed)
            results[name] = ComparisonResult(models, tuple(runs), request.folds)
            shown += runs
        outcome.tables.append(detection_table(request.target, protocol, results))
        outcome.tables.extend(result.test_table() for result in results.values() if result.tests("f1"))
        outcome.content["protocols"][protocol] = {name: result.to_dict() for name, result in results.items()}
    if request.finished:
        require_some(request.out, shown)
    return outcome


def detection_table(target: str, protocol: ProtocolName, results: dict[str, ComparisonResult]) -> ResultTable:
    """One protocol's part of a table of the paper; `results` by data set."""
    rows = []
    notes = [f"Protocol {protocol}: {PROTOCOLS[protocol].meaning}.", PRINTED]
    if "elevator" in results:
        notes.append(ELEVATOR)
    for data, result in results.items():
        title = DATA_SETS[data].title
        for model in result.models:
            spreads, printed = result.spreads(model), printed_for(model, DETECTION[target].printed.get(data, {}))
            row = [title, model, result.progress(model)]
            for number, name in enumerate(("precision", "recall", "f1")):
                row += [mean_and_std(spreads.get(name), 3), _as_printed(printed, number)]
            row += [mean_and_std(spreads.get(name), 3) for name in ("f1_at_half", "pr_auc")]
            rows.append(tuple(row))
        notes += [f"{title}: {warning}" for warning in result.warnings()]
    quick = QUICK_LOOK if any(is_quick(result) for result in results.values()) else ""
    return ResultTable(f"{quick}{target}, protocol {protocol}", COLUMNS, tuple(rows), tuple(notes))


def _as_printed(printed: Printed | None, number: int) -> str:
    if printed is None:
        return "–"
    spread = "" if printed.spread is None else f" ± {printed.spread[number]:.3f}"
    return f"{printed[number]:.3f}{spread}"


def _belongs(model: str, models: Sequence[str]) -> bool:
    """Whether a model is one of these with other settings, or a variant of a rival among them.

    Variants of DFStrans appear only in tables that name them, because that is how the tables differ.

    >>> [_belongs(name, ("dfstrans", "tapnet")) for name in ("dfstrans+epochs=3", "tapnet-plain", "dfstrans-linear")]
    [True, True, False]
    """
    base = model.split(CHANGE)[0]
    kind = VARIANTS[base].kind if base in VARIANTS else base
    return base in models or (kind != DFSTRANS and kind in models)


# ---- runs of a table ------------------------------------------------------------------------------------------------


def runs_for(
    request: Request,
    name: str,
    protocol: ProtocolName,
    models: tuple[str, ...],
    store: Path,
    failed: dict[str, str],
    epochs: int | None = None,
    baseline: BaselineName = "none",
) -> list[Run]:
    """The finished runs of a table, after computing the others if requested; `failed` collects error messages.

    `epochs` applies to models that have epochs, unless the request says otherwise.
    """
    overrides = _overrides(request, models, epochs)
    if not request.finished:
        recordings = recordings_of(name, protocol, data_folder(request.data), request.preset)
        at_most = QUICK["at_most"] if request.quick else None
        split = PROTOCOLS[protocol].split
        wanted = (models, request.folds, split, recordings.read, overrides, at_most, baseline)
        messages = request.compute(Comparison(recordings.path, store, *wanted))
        failed.update({f"{store.stem}, {label}": message for label, message in messages.items()})
    return finished_runs(store, models, request.folds, overrides, baseline)


def finished_runs(
    store: Path, models: Sequence[str], folds: int, overrides: dict[str, Any], baseline: BaselineName = "none"
) -> list[Run]:
    """The runs of these models, splits, settings and baseline in a store, all on the same recordings and splits."""
    stored = [run for run in read_runs(store) if run.protocol.baseline == baseline]
    runs = [run for run in stored if run.model in models and run.fold < folds]
    runs.sort(key=lambda run: (models.index(run.model), run.fold))
    for run in runs:
        check_settings(store, run, recorded_settings(run.model, overrides))
    kinds = {(run.data.fingerprint, run.protocol.split, run.protocol.seed) for run in runs}
    if len(kinds) > 1:
        raise DfstransError(
            f"expected runs on the same recordings and splits in {store}, got {len(kinds)} kinds; keep each in a file "
            "of its own"
        )
    parts = {(run.fold, run.parts) for run in runs}
    if len(parts) > len({run.fold for run in runs}):
        raise DfstransError(
            f"expected runs of a split in {store} on the same parts, got different parts (perhaps split by another "
            "version); move the other runs to another folder"
        )
    return runs


def require_data(request: Request, names: Sequence[str]) -> None:
    """Fail on missing data before hours of work on another data set."""
    if not request.finished:
        for name in names:
            recordings_of(name, "no-overlap", data_folder(request.data), request.preset)


def model_for(model: str, data: str, preset: Preset) -> str:
    """The paper's variant of a model for journeys at the full sampling rate."""
    return "inceptiontime-long" if (model, data, preset) == ("inceptiontime", "elevator", "paper") else model


def is_quick(result: ComparisonResult) -> bool:
    """Whether the runs are those of a quick look."""
    return any(run.protocol.at_most is not None for run in result.runs)


def _overrides(request: Request, models: tuple[str, ...], epochs: int | None) -> dict[str, Any]:
    epochs = QUICK["epochs"] if request.quick else epochs
    have_epochs = any("epochs" in settings_of_model(model, {}) for model in models)
    return {**({"epochs": epochs} if epochs is not None and have_epochs else {}), **request.overrides}


# ---- ablation -------------------------------------------------------------------------------------------------------

WITHOUT: dict[str, str] = {
    "dfstrans+weight_averaging=0": "weight averaging",
    "dfstrans+mixup=0": "mixup",
    "dfstrans+machine_features=false": "comparison with the machine's own baseline",
    "dfstrans+readout=sensors": "the head that sees a summary over all sensors",
    "dfstrans+embedding=cnn": "embedding by statistics alone (here with a CNN beside them)",
    "dfstrans-cnn": "statistics (here a CNN alone)",
    "dfstrans+sensor_dropout=0.15": "training without sensor dropout (here 0.15)",
    "dfstrans+time_shift=0": "time shift",
    "dfstrans+imbalance=none": "class weights",
    "dfstrans+schedule=constant": "one-cycle schedule",
    "dfstrans+pooling=mean": "deviation over segments (here only their mean)",
    "dfstrans+dropout=0.1": "training without dropout (here the paper's)",
    "dfstrans-paper-size": "slim network (here the paper's size)",
    "dfstrans-vanilla": "faithful encoding (here vanilla)",
    "dfstrans-paper": "everything (the preset paper)",
}
"""Models of the ablation, and what each of them lacks."""
MEANING = (
    "“gain” is the mean over the splits of dfstrans minus the model without the change, on the same splits: above "
    "zero, the change helps. If the 95 % interval contains zero, the gain is not proven."
)


def ablation(request: Request) -> Outcome:
    """The gain of each change to the paper's training and network, over splits and seeds."""
    models = (DFSTRANS, *(name for name in request.models or WITHOUT if name != DFSTRANS))
    names = request.data_sets or ("elevator",)
    require_data(request, names)
    outcome = Outcome([], {"ablation": {}}, [], {})
    shown: list[Run] = []
    for protocol in request.protocols or ("no-overlap",):
        for name in names:
            runs: list[Run] = []
            for seed in range(request.seed, request.seed + request.seeds):
                suffix = f"_seed_{seed}" if seed else ""  # seed 0 shares the runs of other tables
                store = store_path(request.out, name, protocol, request.preset, suffix)
                seeded = replace(request, overrides={**request.overrides, "seed": seed})
                runs += runs_for(seeded, name, protocol, models, store, outcome.failed)
            result = ComparisonResult(models, tuple(runs), request.folds * request.seeds)
            title = store_path(request.out, name, protocol, request.preset).stem
            outcome.tables.append(ablation_table(result))
            lacking = {model: what_is_missing(model) for model in models}
            outcome.content["ablation"][title] = {**result.to_dict(), "removed": lacking}
            shown += runs
            if runs and not (request.finished and request.part) and find_spec("matplotlib") is not None:
                drawing = {f"ablation_{title}": lambda result=result: print_ablation(result)}
                outcome.written.extend(write_figures(request.out, drawing, FORMATS))
    if request.finished:
        require_some(request.out, shown)
    return outcome


def what_is_missing(model: str) -> str:
    """What a model of the ablation lacks."""
    return "nothing" if model == DFSTRANS else WITHOUT.get(model, "")


def ablation_table(result: ComparisonResult) -> ResultTable:
    """The metrics of each model, and the gain of what it lacks."""
    tests = {metric: result.tests(metric) for metric in TESTED}
    rows = []
    for model in result.models:
        spreads = result.spreads(model)
        row = [what_is_missing(model), model, result.progress(model)]
        for metric in TESTED:
            row.append(mean_and_std(spreads.get(metric), 3))
            row += ["", "", ""] if model == result.models[0] else _gain(tests[metric].get(model))
        rows.append(tuple(row))
    columns = [part for name in TESTED.values() for part in (name, f"{name} gain", "95 % interval", "p, adjusted")]
    names = ("removed", "model", "splits", *columns)
    return ResultTable(f"ablation: {result.title}", names, tuple(rows), (MEANING, METHOD))


def _gain(test: PairedTest | None) -> list[str]:
    return ["–", "–", "–"] if test is None else [f"{test.difference:+.3f}", test.interval, p_value(test.p_adjusted)]


def print_ablation(result: ComparisonResult) -> Figure:
    """The gain of each change with its 95 % interval, with each split as a faint point."""
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
            test, gains = tests[model], result.gains(name, model)
            axes.plot(gains, [row] * len(gains), "o", color=NORMAL, alpha=0.35, markersize=3.5, linewidth=0)
            reach = None
            if test.low is not None and test.high is not None:
                reach = [[test.difference - test.low], [test.high - test.difference]]
            axes.errorbar(
                test.difference, row, xerr=reach, fmt="D", color=ANOMALOUS, markersize=4, capsize=2.5, linewidth=1.1
            )
        axes.set_title(f"{title} gain")
        axes.set_yticks(range(len(rivals)), [what_is_missing(model) or model for model in rivals])
        axes.set_ylim(len(rivals) - 0.5, -0.5)
        axes.grid(axis="x", color="#e4e8ec", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.supxlabel("dfstrans minus the model without it, mean and 95 % interval; points: splits", fontsize=8)
    if is_quick(result):
        mark_as_no_result(figure)
    return figure
