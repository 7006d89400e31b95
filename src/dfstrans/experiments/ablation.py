"""What each change to the paper's training and network brings: DFStrans with one of them taken away at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dfstrans.experiments.comparison import TESTED, WEAKNESS, ComparisonResult
from dfstrans.experiments.significance import PairedTest
from dfstrans.experiments.tables import ResultTable, mean_and_std

ABLATION = "ablation"
WHOLE = "dfstrans"
TAKEN_AWAY: dict[str, str] = {
    "dfstrans+weight_averaging=0": "averaging of weights",
    "dfstrans+mixup=0": "mixing of pairs",
    "dfstrans+levels=0": "coded statistics of segments",
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
