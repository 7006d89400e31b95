"""The result of a comparison: mean and spread of each model, tests of the differences, tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dfstrans.lab.compare.leakage import is_leakage_check
from dfstrans.lab.compare.protocols import protocol_meaning, protocol_title
from dfstrans.lab.compare.runs import Run, joined_commands
from dfstrans.lab.compare.significance import (
    PairedTest,
    chance_warning,
    conclusion,
    corrected_t_test,
    holm,
    interval_of_mean,
    leakage_warnings,
    size_warnings,
    split_of,
)

TESTED = {"pr_auc": "PR-AUC", "f1": "F1"}  # F1 at the threshold chosen on validation
METHOD = (
    "Corrected resampled t-test of Nadeau and Bengio over the splits, with Holm's correction for the number of rivals. "
    "With few splits only large differences are significant: no significant difference does not mean no difference."
)
COLUMNS: dict[str, tuple[str, int]] = {  # title and digits; P, R and F1 at the threshold chosen on validation
    "pr_auc": ("PR-AUC", 3),
    "chance": ("chance", 3),  # PR-AUC of guessing: the share of anomalous episodes
    "f1": ("F1", 3),
    "precision": ("P", 3),
    "recall": ("R", 3),
    "precision_at_half": ("P at 0.5", 3),
    "recall_at_half": ("R at 0.5", 3),
    "f1_at_half": ("F1 at 0.5", 3),
    "false_alarms_per_100_normal": ("false alarms / 100", 1),
    "seconds_per_epoch": ("s / epoch", 1),
    "training_seconds": ("training s", 0),
    "parameters": ("parameters", 0),
}


class Spread(NamedTuple):
    """Mean, standard deviation and values of a metric over splits."""

    mean: float
    std: float | None  # with n − 1; None for a single split
    values: list[float]

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """The spread of all values that are not None; None without any."""
        there = [float(value) for value in values if value is not None]
        if not there:
            return None
        return cls(float(np.mean(there)), float(np.std(there, ddof=1)) if len(there) > 1 else None, there)


def mean_and_std(spread: Spread | None, digits: int) -> str:
    """Mean ± standard deviation as text.

    >>> mean_and_std(Spread.of([0.5, 0.7]), 3), mean_and_std(Spread.of([41000, 41000]), 0), mean_and_std(None, 3)
    ('0.600 ± 0.141', '41 000', '–')
    """
    if spread is None:
        return "–"
    mean = f"{spread.mean:,.{digits}f}".replace(",", " ")
    if spread.std is None or (digits == 0 and spread.std < 0.5):  # a single value, or a count that never changes
        return mean
    return f"{mean} ± {spread.std:,.{digits}f}".replace(",", " ")


def p_value(p: float | None) -> str:
    """A p-value as text."""
    return "–" if p is None else f"{p:.3f}"


@dataclass(frozen=True)
class ResultTable:
    """Text in rows and columns, with a title that names the protocol, and notes."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """The table as Markdown."""
        head, *rows = (f"| {' | '.join(row)} |" for row in (self.columns, *self.rows))
        lines = [f"**{self.title}**", "", head, "|" + "---|" * len(self.columns), *rows, ""]
        return "\n".join([*lines, *(f"{note}\n" for note in self.notes)])


@dataclass(frozen=True)
class ComparisonResult:
    """Models on the same splits of one data set under one protocol."""

    models: tuple[str, ...]
    runs: tuple[Run, ...]
    folds: int  # requested, over all seeds

    def of(self, model: str) -> list[Run]:
        """The runs of a model, by seed and split."""
        return sorted((run for run in self.runs if run.model == model), key=split_of)

    @property
    def first(self) -> str:
        """The model that the others are tested against: the first with a finished run, the leakage check last."""
        ordered = sorted(self.models, key=is_leakage_check)
        return next((model for model in ordered if self.of(model)), self.models[0])

    def spreads(self, model: str) -> dict[str, Spread | None]:
        """Every metric of a model over its splits; empty without runs."""
        rows = [_metrics(run) for run in self.of(model)]
        return {name: Spread.of(row[name] for row in rows) for name in rows[0]} if rows else {}

    def interval(self, model: str, metric: str) -> str:
        """The 95 % interval of the mean over all splits, as text; splits share episodes, which makes it wider."""
        runs = [run for run in self.of(model) if run.test[metric] is not None]
        if not runs:
            return "–"
        ratio = float(np.mean([run.test["episodes"] / run.training.train_episodes for run in runs]))  # type: ignore[operator]
        return interval_of_mean([_value(run, metric) for run in runs], ratio)

    def leakage(self, metric: str) -> float | None:
        """The mean of the leakage check; None without it, or if it is no better than guessing."""
        check = next((model for model in self.models if is_leakage_check(model) and self.of(model)), None)
        if check is None or not leakage_warnings({check: self.of(check)}):
            return None
        spread = self.spreads(check)[metric]
        return spread and spread.mean

    def tests(self, metric: str) -> dict[str, PairedTest]:
        """The first model against each of the others, on the splits that both have finished.

        The leakage check does not count as a rival in Holm's correction.
        """
        found = {}
        for rival in (model for model in self.models if model != self.first):
            pairs = self._pairs(rival)
            if pairs:
                ratio = np.mean([run.test["episodes"] / run.training.train_episodes for run, _ in pairs])  # type: ignore[operator]
                columns = [[_value(run, metric) for run in column] for column in zip(*pairs, strict=True)]
                found[rival] = corrected_t_test(columns[0], columns[1], float(ratio))
        for family in ([name for name in found if is_leakage_check(name) is which] for which in (False, True)):
            found |= dict(zip(family, holm([found[name] for name in family]), strict=True))
        return found

    def gains(self, metric: str, rival: str) -> list[float]:
        """The first model minus another, split by split."""
        return [_value(first, metric) - _value(other, metric) for first, other in self._pairs(rival)]

    def _pairs(self, rival: str) -> list[tuple[Run, Run]]:
        """The runs of the first model and of a rival on the same splits."""
        first = {split_of(run): run for run in self.of(self.first)}
        return [(first[split_of(run)], run) for run in self.of(rival) if split_of(run) in first]

    @property
    def title(self) -> str:
        """The data, the protocol and the splits."""
        if not self.runs:
            return "no run is finished yet"
        data, protocol = self.runs[0].data, self.runs[0].protocol
        cut = [f"{name} {data.read[name]}" for name in ("length", "stride") if name in data.read]
        cutting = f" ({', '.join(cut)})" if cut else ""
        quick = "" if protocol.at_most is None else f"QUICK LOOK at {data.episodes} episodes, NO RESULT: "
        seeds = ", ".join(map(str, sorted({run.protocol.seed for run in self.runs})))
        return (
            f"{quick}{data.title}{cutting}, {data.episodes} episodes of {data.sensors} sensors, {data.anomalous} "
            f"anomalous; protocol {self.protocol}, seed {seeds}, test parts of {self.folds} 70/15/15 splits"
        )

    @property
    def protocol(self) -> str:
        """The name of the protocol, with what is known of the test machines; empty without runs."""
        some = self.runs[0].protocol if self.runs else None
        return "" if some is None else protocol_title(some.name, some.baseline)

    def commands(self) -> list[str]:
        """The commands that compute the runs; several if models have different settings."""
        return joined_commands([run.command for model in self.models for run in self.of(model)])

    def warnings(self) -> list[str]:
        """Models no better than guessing, leakage, and parts that are too small."""
        chance = (chance_warning(self.of(model)) for model in self.models if not is_leakage_check(model))
        leaking = leakage_warnings({model: self.of(model) for model in self.models})
        return [*(warning for warning in chance if warning is not None), *leaking, *size_warnings(self.runs)]

    def conclusions(self) -> list[str]:
        """How the first model compares with the others, a sentence per metric."""
        tests = {title: self.tests(metric) for metric, title in TESTED.items()}
        said = [conclusion(title, self.first, found) for title, found in tests.items() if found]
        wanted = next((model for model in self.models if not is_leakage_check(model)), self.first)
        if said and self.first != wanted:
            said.append(f"{wanted} has no finished run, so {self.first} is compared with the others.")
        return said

    def tables(self) -> list[ResultTable]:
        """The metrics and, with two or more models, the tests."""
        return [self.table(), *([self.test_table()] if self.tests("f1") else [])]

    def table(self) -> ResultTable:
        """Mean ± standard deviation of each model."""
        rows = []
        for model in self.models:
            spreads = self.spreads(model)
            shown = [mean_and_std(spreads.get(name), digits) for name, (_, digits) in COLUMNS.items()]
            rows.append((model, self.progress(model), shown[0], self.interval(model, "pr_auc"), *shown[1:]))
        notes = [f"Protocol {self.protocol}: {self._meaning}."] if self.runs else []
        first, *others = (title for title, _ in COLUMNS.values())
        return ResultTable(
            self.title,
            ("model", "splits", first, "95 % interval", *others),
            tuple(rows),
            (*notes, *self.baseline_notes(), *self.warnings(), *(f"Command: {command}" for command in self.commands())),
        )

    def baseline_notes(self) -> list[str]:
        """Which models cannot use what is known of the test machines, and how many machines the others know."""
        if not self.runs or self.runs[0].protocol.baseline == "none":
            return []
        said = []
        for model in self.models:
            records = [run.machines for run in self.of(model) if run.machines is not None]
            compared, evaluated = sum(one.compared for one in records), sum(one.evaluated for one in records)
            if compared:
                said.append(
                    f"{model} compares {compared} of {evaluated} test machines, over all splits, with themselves."
                )
            elif evaluated:
                said.append(f"{model} compares no test machine with itself, so the baseline makes no difference to it.")
        return said

    def progress(self, model: str) -> str:
        """How many runs of a model are finished, as text."""
        return f"{len(self.of(model))} of {self.folds}"

    def test_table(self) -> ResultTable:
        """The first model against each of the others."""
        rows = [
            (title, rival, str(t.splits), f"{t.difference:+.3f}", t.interval, p_value(t.p), p_value(t.p_adjusted))
            for metric, title in TESTED.items()
            for rival, t in self.tests(metric).items()
        ]
        columns = ("metric", "rival", "splits", "difference", "95 % interval", "p", "p, adjusted")
        of = f", {self.runs[0].data.title}, protocol {self.protocol}" if self.runs else ""
        notes = (*self.conclusions(), METHOD)
        return ResultTable(f"{self.first} against each rival{of}", columns, tuple(rows), notes)

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        some = self.runs[0] if self.runs else None
        return {
            "title": self.title,
            "protocol": some and {**some.protocol.model_dump(mode="json"), "meaning": self._meaning},
            "data": some and some.data.model_dump(mode="json"),
            "folds": self.folds,
            "commands": self.commands(),
            "models": {
                model: {
                    "splits": [run.fold for run in self.of(model)],
                    **{name: spread and spread._asdict() for name, spread in self.spreads(model).items()},
                }
                for model in self.models
            },
            "conclusions": [*self.conclusions(), *self.warnings()],
            "tests": {
                "method": METHOD,
                "first": self.first,
                **{metric: {rival: test._asdict() for rival, test in self.tests(metric).items()} for metric in TESTED},
            },
        }

    @property
    def _meaning(self) -> str:
        some = self.runs[0].protocol
        return protocol_meaning(some.name, some.baseline)


def _metrics(run: Run) -> dict[str, float | None]:
    """The metrics of a run by their names in results."""
    names = ("precision", "recall", "f1")
    return {
        "chance": (run.test["anomalous"] or 0) / run.test["episodes"] if run.test["episodes"] else None,
        **{name: run.test[name] for name in (*names, "pr_auc", "false_alarms_per_100_normal")},
        **{f"{name}_at_half": run.test_at_half[name] for name in names},
        "false_alarms_per_100_normal_at_half": run.test_at_half["false_alarms_per_100_normal"],
        "validation_f1": run.validation["f1"],
        "validation_pr_auc": run.validation["pr_auc"],
        "seconds_per_epoch": run.training.seconds_per_epoch,
        "training_seconds": run.training.seconds,
        "parameters": run.training.parameters,
    }


def _value(run: Run, metric: str) -> float:
    return float(run.test[metric] or 0.0)
