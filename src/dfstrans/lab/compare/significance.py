"""What a comparison comes to, in words: who is ahead by more than luck, who may only be guessing, what is too small."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from dfstrans.data.splits import FEWEST_OF_EACH_CLASS
from dfstrans.lab.compare.leakage import NEIGHBOURS
from dfstrans.lab.compare.runs import Cell, Figures
from dfstrans.training.calibration import too_few
from dfstrans.training.evaluation import check_against_chance

LEVEL = 0.95  # of the interval
FEWEST_SPLITS = 3  # with two, a single difference would have to tell what chance does


class PairedTest(NamedTuple):
    """How much better the first of two models is, over the splits that both have."""

    splits: int
    difference: float  # the mean over splits
    low: float | None  # the interval of the mean difference; None where it cannot be told
    high: float | None
    p: float | None
    p_adjusted: float | None = None  # for the number of rivals, by Holm

    @property
    def interval(self) -> str:
        """As it is printed."""
        if self.low is not None:
            return f"{self.low:+.3f} to {self.high:+.3f}"
        return "too few splits" if self.splits < FEWEST_SPLITS else "–"


def corrected_t_test(first: Sequence[float], second: Sequence[float], test_to_train: float) -> PairedTest:
    """Compare the figures of two models, between 0 and 1, on the same splits.

    The interval is cut off where no difference can be, below −1 and above 1. `test_to_train` is how many test episodes
    there are for each one of training. With fewer than three splits, or with the same difference on every split, there
    is nothing to tell chance by.
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    k, mean = len(differences), float(differences.mean())
    variance = float(differences.var(ddof=1)) if k >= FEWEST_SPLITS else 0.0
    if variance < 1e-18:
        return PairedTest(k, mean, None, None, None)
    error = math.sqrt((1 / k + test_to_train) * variance)
    reach = float(student.ppf((1 + LEVEL) / 2, k - 1)) * error
    low, high = max(mean - reach, -1.0), min(mean + reach, 1.0)
    return PairedTest(k, mean, low, high, float(2 * student.sf(abs(mean) / error, k - 1)))


def adjusted(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """The tests with p-values for their number, by Holm: the smallest times n, the next times n − 1, never falling."""
    order = sorted((row for row, test in enumerate(tests) if test.p is not None), key=lambda row: tests[row].p or 0.0)
    found, highest = list(tests), 0.0
    for rank, row in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * (tests[row].p or 0.0)))
        found[row] = tests[row]._replace(p_adjusted=highest)
    return found


CHANCE = 0.05  # adjusted p below which a difference is more than luck
FEW_ANOMALIES = 5  # fewer in a test part: each that is missed costs a fifth of the recall, or more
ABOVE, BELOW, CONCLUSION_LEVEL = "above", "below", "within luck of"


def verdict(figure: str, first: str, tests: Mapping[str, PairedTest]) -> str:
    """Where the first model stands among its rivals by one figure.

    >>> tests = {"b": PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), "c": PairedTest(5, 0.01, -0.1, 0.12, 0.6, 0.6)}
    >>> verdict("F1", "a", tests)
    'F1: a is above b, within luck of c.'
    """
    groups: dict[str, list[str]] = {}
    untested: dict[str, list[str]] = {}
    for rival, test in tests.items():
        place = _place(test)
        (untested if place is None else groups).setdefault(place or _why_untested(test), []).append(rival)
    said = [f"{words} {_listed(groups[words])}" for words in (ABOVE, BELOW, CONCLUSION_LEVEL) if words in groups]
    said += [f"not tested against {_listed(rivals)} ({why})" for why, rivals in untested.items()]
    return f"{figure}: {first} is {', '.join(said)}."


def doubt(cells: Sequence[Cell]) -> str | None:
    """On how many of these cells, all of one model, the test does not show more than guessing; None: it does on all."""
    poor = [cell for cell in cells if check_against_chance({"test": cell.test}).better_than_guessing is False]
    if not poor:
        return None
    where = f"on {len(poor)} of {len(cells)} splits" if len(cells) > 1 else "on its split"
    said = f"{poor[0].model} is not shown to be better than guessing {where} (rank-sum test on the test part)"
    if len(poor) <= len(cells) / 2:
        return f"{said}."
    return f"{said}: try other settings or larger test parts before you judge it."


def leak(cells: Mapping[str, Sequence[Cell]]) -> list[str]:
    """What of the figures may come from knowing where an episode comes from, by the gauge of that; `cells` by model.

    Nothing where the gauge is not there, or orders no test part: then a place tells nothing.
    """
    gauge = {split_of(cell): cell for model, own in cells.items() if is_gauge(model) for cell in own}
    if not any(cell.test["roc_auc"] not in (None, 0.5) for cell in gauge.values()):
        return []
    reached = _mean_f1([*gauge.values()])
    said = f"{NEIGHBOURS} looks at no value: its F1 of {reached:.3f} is what knowing where an episode comes from gives."
    level = []
    for model, own in cells.items():
        shared = [cell for cell in own if not is_gauge(model) and split_of(cell) in gauge]
        if shared and _mean_f1(shared) <= _mean_f1([gauge[split_of(cell)] for cell in shared]):
            level.append(f"{model} ({_mean_f1(shared):.3f})")
    return [f"{said} By mean F1 not above it, on the splits that they share: {_listed(level)}." if level else said]


def is_gauge(model: str) -> bool:
    """Whether a model, with whatever settings, is no rival but tells how much is leak.

    >>> is_gauge("neighbours"), is_gauge("neighbours+seed=1"), is_gauge("boosting")
    (True, True, False)
    """
    return model.split("+")[0] == NEIGHBOURS


def _mean_f1(cells: Sequence[Cell]) -> float:
    return sum(cell.test["f1"] or 0.0 for cell in cells) / len(cells)


def split_of(cell: Cell) -> tuple[int, int]:
    """What a split is known by: another seed cuts other ones."""
    return cell.protocol.seed, cell.fold


def too_small(cells: Sequence[Cell]) -> list[str]:
    """What the validation and the test parts of these cells are too small for, with the splits that are meant."""
    said = []
    for kind in ("anomalous", "normal"):
        unsettled = [cell for cell in cells if kind in _too_few_for_threshold(cell)]
        if unsettled:
            said.append(
                f"{_hold('validation', _by_split(unsettled))} fewer than {FEWEST_OF_EACH_CLASS} {kind} episodes: the "
                "threshold stays at 0.5 there, and P, R and F1 say little."
            )
    few = _by_split([cell for cell in cells if _count(cell.test, "anomalous") < FEW_ANOMALIES])
    if few:
        counts = _listed([str(cell.test["anomalous"]) for cell in few.values()])
        said.append(f"{_hold('test', few)} few anomalous episodes ({counts}): so few show large differences only.")
    return said


def _too_few_for_threshold(cell: Cell) -> list[str]:
    anomalous, episodes = (_count(cell.validation, name) for name in ("anomalous", "episodes"))
    return too_few(cell.settings.get("threshold_rule", "f1"), anomalous, episodes - anomalous)


def _count(figures: Figures, name: str) -> int:
    return int(figures[name] or 0)


def _by_split(cells: Sequence[Cell]) -> dict[str, Cell]:
    """A cell of each split, by the name of the split."""
    seeds = {cell.protocol.seed for cell in cells}
    ordered = sorted(cells, key=split_of)
    return {f"{cell.fold} of seed {cell.protocol.seed}" if len(seeds) > 1 else f"{cell.fold}": cell for cell in ordered}


def _hold(part: str, splits: Collection[str]) -> str:
    """The beginning of a sentence about a part of some splits.

    >>> _hold("test", ["0"]), _hold("test", ["0", "2"])
    ('The test part of split 0 holds', 'The test parts of splits 0 and 2 hold')
    """
    parts, hold = (f"{part} parts of splits", "hold") if len(splits) > 1 else (f"{part} part of split", "holds")
    return f"The {parts} {_listed([*splits])} {hold}"


def _why_untested(test: PairedTest) -> str:
    if test.splits < FEWEST_SPLITS:
        return f"fewer than {FEWEST_SPLITS} splits of both"
    return f"a difference of {test.difference:+.3f} on each split" if test.difference else "no difference on any split"


def _place(test: PairedTest) -> str | None:
    """None where there is no test."""
    if test.p_adjusted is None:
        return None
    if test.p_adjusted >= CHANCE:
        return CONCLUSION_LEVEL
    return ABOVE if test.difference > 0 else BELOW


def _listed(names: Sequence[str]) -> str:
    """With commas and a last "and".

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
