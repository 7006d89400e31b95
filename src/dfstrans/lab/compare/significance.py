"""Significance tests of a comparison, and warnings about guessing, leakage and small parts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.lab.compare import LEAKAGE
from dfstrans.lab.compare.leakage import is_leakage_check
from dfstrans.lab.compare.runs import Run
from dfstrans.training.calibration import too_few
from dfstrans.training.evaluation import check_against_chance

CONFIDENCE = 0.95  # of the interval
SIGNIFICANT = 0.05  # adjusted p below which a difference is significant
FEWEST_SPLITS = 3  # the variance of two splits rests on a single difference
FEW_ANOMALIES = 5  # in a test part; with fewer, each miss costs at least a fifth of the recall


class PairedTest(NamedTuple):
    """How much better the first of two models is, over the splits that both have."""

    splits: int
    difference: float  # the mean over splits
    low: float | None  # confidence interval of the mean difference; None without a test
    high: float | None
    p: float | None
    p_adjusted: float | None = None  # Holm's correction for the number of rivals

    @property
    def interval(self) -> str:
        """The confidence interval as text."""
        if self.low is not None:
            return f"{self.low:+.3f} to {self.high:+.3f}"
        return "too few splits" if self.splits < FEWEST_SPLITS else "–"


def corrected_t_test(first: Sequence[float], second: Sequence[float], test_to_train: float) -> PairedTest:
    """Compare the scores of two models, between 0 and 1, on the same splits (Nadeau and Bengio, 2003).

    `test_to_train` is the ratio of test to training episodes. The interval is clipped to −1 … 1. There is no test with
    fewer than three splits, or with the same difference on every split.
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    k, mean = len(differences), float(differences.mean())
    variance = float(differences.var(ddof=1)) if k >= FEWEST_SPLITS else 0.0
    if variance < 1e-18:
        return PairedTest(k, mean, None, None, None)
    error = math.sqrt((1 / k + test_to_train) * variance)
    low, high = np.clip(student.interval(CONFIDENCE, k - 1, mean, error), -1.0, 1.0).tolist()
    return PairedTest(k, mean, low, high, float(2 * student.sf(abs(mean) / error, k - 1)))


def interval_of_mean(scores: Sequence[float], test_to_train: float) -> str:
    """The confidence interval of the mean of scores between 0 and 1 over splits, as text.

    >>> interval_of_mean([0.7, 0.8, 0.75, 0.78], 0.2), interval_of_mean([0.7, 0.8], 0.2)
    ('0.665 to 0.850', 'too few splits')
    """
    found = corrected_t_test(scores, [0.0] * len(scores), test_to_train)
    if found.low is None or found.high is None:
        return found.interval
    return f"{max(found.low, 0.0):.3f} to {found.high:.3f}"


def holm(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """The tests with adjusted p: the smallest p times n, the next times n − 1, …, never decreasing."""
    found, highest = list(tests), 0.0
    by_p = sorted((test.p, row) for row, test in enumerate(tests) if test.p is not None)
    for rank, (p, row) in enumerate(by_p):
        highest = max(highest, min(1.0, (len(by_p) - rank) * p))
        found[row] = tests[row]._replace(p_adjusted=highest)
    return found


def conclusion(metric: str, first: str, tests: Mapping[str, PairedTest]) -> str:
    """How the first model compares with its rivals by one metric.

    >>> tests = {"b": PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), "c": PairedTest(5, 0.01, -0.1, 0.12, 0.6, 0.6)}
    >>> conclusion("F1", "a", tests)
    'F1: a is better than b, not significantly different from c.'
    """
    groups: dict[str, list[str]] = {
        name: [] for name in ("better than {}", "worse than {}", "not significantly different from {}")
    }
    for rival, test in tests.items():
        groups.setdefault(_outcome(test), []).append(rival)
    said = [words.format(_listed(rivals)) for words, rivals in groups.items() if rivals]
    return f"{metric}: {first} is {', '.join(said)}."


def _outcome(test: PairedTest) -> str:
    """How the first model relates to a rival; {} stands for the rival."""
    if test.p_adjusted is not None:
        if test.p_adjusted >= SIGNIFICANT:
            return "not significantly different from {}"
        return "better than {}" if test.difference > 0 else "worse than {}"
    if test.splits < FEWEST_SPLITS:
        return f"not tested against {{}} (fewer than {FEWEST_SPLITS} splits of both)"
    if test.difference:
        return f"not tested against {{}} (a difference of {test.difference:+.3f} on each split)"
    return "not tested against {} (no difference on any split)"


# ---- warnings -------------------------------------------------------------------------------------------------------


def chance_warning(runs: Sequence[Run]) -> str | None:
    """On how many of its runs a model is not shown to be better than guessing; None if it is on all of them."""
    poor = [run for run in runs if check_against_chance({"test": run.test}).better_than_guessing is False]
    if not poor:
        return None
    where = f"on {len(poor)} of {len(runs)} splits" if len(runs) > 1 else "on its split"
    said = f"{poor[0].model} is not shown to be better than guessing {where} (rank-sum test on the test part)"
    if len(poor) <= len(runs) / 2:
        return f"{said}."
    return f"{said}: try other settings or larger test parts before you reject it."


def leakage_warnings(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """How much of the scores data leakage may explain, and which models do not exceed it; `runs` by model.

    Empty without the leakage check, or where it ranks no test part better than at random.
    """
    check = {split_of(run): run for model, own in runs.items() if is_leakage_check(model) for run in own}
    if not any(run.test["roc_auc"] not in (None, 0.5) for run in check.values()):
        return []
    said = (
        f"{LEAKAGE} ignores all sensor values: its F1 of {_mean_f1([*check.values()]):.3f} comes only from the labels "
        "of neighbouring episodes."
    )
    not_above = []
    for model, own in runs.items():
        shared = [run for run in own if not is_leakage_check(model) and split_of(run) in check]
        if shared and _mean_f1(shared) <= _mean_f1([check[split_of(run)] for run in shared]):
            not_above.append(f"{model} ({_mean_f1(shared):.3f})")
    if not_above:
        said += f" Models whose mean F1 on the same splits is not above it: {_listed(not_above)}."
    return [said]


def size_warnings(runs: Sequence[Run]) -> list[str]:
    """Which splits have a validation or test part that is too small."""
    said = []
    for kind in ("anomalous", "normal"):
        without_threshold = _by_split([run for run in runs if kind in _too_few_for_threshold(run)])
        if without_threshold:
            said.append(
                f"{_parts_have('validation', without_threshold)} fewer than {MIN_PER_CLASS} {kind} episodes: the "
                "threshold stays at 0.5 there, and P, R and F1 mean little."
            )
    few = _by_split([run for run in runs if (run.test["anomalous"] or 0) < FEW_ANOMALIES])
    if few:
        counts = _listed([str(run.test["anomalous"]) for run in few.values()])
        said.append(f"{_parts_have('test', few)} few anomalous episodes ({counts}): only large differences show.")
    return said


def split_of(run: Run) -> tuple[int, int]:
    """The seed and number that identify a split."""
    return run.protocol.seed, run.fold


def _mean_f1(runs: Sequence[Run]) -> float:
    return sum(run.test["f1"] or 0.0 for run in runs) / len(runs)


def _too_few_for_threshold(run: Run) -> list[str]:
    anomalous, episodes = (int(run.validation[name] or 0) for name in ("anomalous", "episodes"))
    return too_few(run.settings.get("threshold_rule", "f1"), anomalous, episodes - anomalous)


def _by_split(runs: Sequence[Run]) -> dict[str, Run]:
    """One run of each split, by the name of the split."""
    several = len({run.protocol.seed for run in runs}) > 1
    return {
        f"{run.fold} of seed {run.protocol.seed}" if several else f"{run.fold}": run
        for run in sorted(runs, key=split_of)
    }


def _parts_have(part: str, splits: Collection[str]) -> str:
    """The beginning of a sentence about a part of some splits.

    >>> _parts_have("test", ["0"]), _parts_have("test", ["0", "2"])
    ('The test part of split 0 has', 'The test parts of splits 0 and 2 have')
    """
    parts, have = (f"{part} parts of splits", "have") if len(splits) > 1 else (f"{part} part of split", "has")
    return f"The {parts} {_listed([*splits])} {have}"


def _listed(names: Sequence[str]) -> str:
    """Names joined by commas and a final "and".

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
