"""What a comparison comes to, in words: who is ahead by more than luck, and who may only be guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfstrans.experiments.cells import Cell
from dfstrans.experiments.significance import FEWEST_SPLITS, PairedTest
from dfstrans.standing import standing

CHANCE = 0.05  # adjusted p below which a difference is more than luck
ABOVE, BELOW, LEVEL, UNTRIED = "above", "below", "within luck of", "not tested against"


def verdict(figure: str, first: str, tests: Mapping[str, PairedTest]) -> str:
    """Where the first model stands among its rivals by one figure.

    >>> tests = {"b": PairedTest(5, 0.1, 0.05, 0.15, 0.01, 0.02), "c": PairedTest(5, 0.01, -0.1, 0.12, 0.6, 0.6)}
    >>> verdict("F1", "a", tests)
    'F1: a is above b, within luck of c.'
    """
    groups: dict[str, list[str]] = {}
    for rival, test in tests.items():
        groups.setdefault(_place(test), []).append(rival)
    said = [f"{words} {_listed(groups[words])}" for words in (ABOVE, BELOW, LEVEL, UNTRIED) if words in groups]
    return f"{figure}: {first} is {', '.join(said)}."


def doubt(cells: Sequence[Cell]) -> str | None:
    """On how many of these cells, all of one model, the test does not show more than guessing; None: it does on all."""
    poor = [cell for cell in cells if standing({"test": cell.test}).better_than_guessing is False]
    if not poor:
        return None
    where = f"on {len(poor)} of {len(cells)} splits" if len(cells) > 1 else "on its split"
    said = f"{poor[0].model} is not shown to be better than guessing {where} (rank-sum test on the test part)"
    if len(poor) <= len(cells) / 2:
        return f"{said}."
    return f"{said}: try other settings or larger test parts before you judge it."


def _place(test: PairedTest) -> str:
    if test.p_adjusted is None:  # too few splits, or the same difference on each
        return LEVEL if test.difference == 0 and test.splits >= FEWEST_SPLITS else UNTRIED
    if test.p_adjusted >= CHANCE:
        return LEVEL
    return ABOVE if test.difference > 0 else BELOW


def _listed(names: Sequence[str]) -> str:
    """With commas and a last "and".

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
