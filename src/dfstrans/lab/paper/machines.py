"""Detection on machines that were seen in training and on others: not in the paper, made from finished runs."""

from __future__ import annotations

from dataclasses import replace

from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable, mean_and_std
from dfstrans.lab.compare.protocols import (
    BASELINES,
    PROTOCOLS,
    BaselineName,
    ProtocolName,
    baselines_for,
    protocol_meaning,
    protocol_title,
)
from dfstrans.lab.compare.runs import Run, require_some
from dfstrans.lab.compare.variants import check_names
from dfstrans.lab.paper.request import (
    DATA_SETS,
    QUICK_LOOK,
    Outcome,
    Request,
    data_folder,
    recordings_of,
    store_path,
)
from dfstrans.lab.paper.tables import is_quick, require_data, runs_for

MODELS = ("committee", "trees", "extra-trees", "extra-trees-machine", "boosting", "dfstrans")
SETS = ("smd", "smap", "msl", "elevator")
PARTS: tuple[tuple[ProtocolName, BaselineName], ...] = (
    ("no-overlap", "none"),
    *(("grouped", baseline) for baseline in reversed(BASELINES)),
)
COLUMNS = ("data", "model", "splits", "PR-AUC", "95 % interval", "chance", "F1")
NOTE = (
    "Test parts of 70/15/15 splits, mean ± standard deviation; the interval is that of the mean PR-AUC. “chance” is "
    "the PR-AUC of guessing; F1 is at the threshold chosen on validation."
)


def machines(request: Request) -> Outcome:
    """A table for each protocol and baseline, and the significance tests."""
    names, models = request.data_sets or SETS, request.models or MODELS
    known = list(dict.fromkeys(protocol for protocol, _ in PARTS))
    protocols = request.protocols or known
    check_names("protocol", protocols, known)
    require_data(request, names)
    outcome = Outcome([], {"protocols": {}}, [], {})
    shown: list[Run] = []
    for protocol, baseline in (part for part in PARTS if part[0] in protocols):
        results = {}
        for name in names:
            if baseline == "published" and DATA_SETS[name].folder is None:
                continue
            asked = request if _has(request, name, protocol, baseline) else replace(request, finished=True)
            store = store_path(request.out, name, protocol, request.preset)
            runs = runs_for(asked, name, protocol, models, store, outcome.failed, baseline=baseline)
            results[name] = ComparisonResult(models, tuple(runs), request.folds)
            shown += runs
        if not results:
            continue
        title = protocol_title(protocol, baseline)
        outcome.tables.append(machines_table(title, protocol_meaning(protocol, baseline), results))
        outcome.tables.extend(result.test_table() for result in results.values() if result.tests("pr_auc"))
        outcome.content["protocols"][title] = {name: result.to_dict() for name, result in results.items()}
    if request.finished:
        require_some(request.out, shown)
    return outcome


def _has(request: Request, name: str, protocol: ProtocolName, baseline: BaselineName) -> bool:
    """Whether runs with this baseline can be computed: the user may have SMD without its normal recordings."""
    if request.finished:
        return False
    path = recordings_of(name, protocol, data_folder(request.data), request.preset).path
    return baseline in baselines_for(path, PROTOCOLS[protocol].split)


def machines_table(title: str, meaning: str, results: dict[str, ComparisonResult]) -> ResultTable:
    """The models on each data set under one protocol; `results` by data set."""
    rows, notes = [], [f"Protocol {title}: {meaning}.", NOTE]
    for data, result in results.items():
        for model in result.models:
            spreads = result.spreads(model)
            pr_auc, f1 = (mean_and_std(spreads.get(name), 3) for name in ("pr_auc", "f1"))
            chance = spreads.get("chance")
            share = "–" if chance is None else f"{chance.mean:.3f}"
            row = (result.progress(model), pr_auc, result.interval(model, "pr_auc"), share, f1)
            rows.append((DATA_SETS[data].title, model, *row))
        notes += [f"{DATA_SETS[data].title}: {said}" for said in (*result.baseline_notes(), *result.warnings())]
    quick = QUICK_LOOK if any(is_quick(result) for result in results.values()) else ""
    return ResultTable(f"{quick}machines, protocol {title}", COLUMNS, tuple(rows), tuple(notes))
