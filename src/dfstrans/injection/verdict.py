"""What a study of planted faults comes to, in words: which are found, from which strength on, and which are not."""

from __future__ import annotations

from collections.abc import Sequence

from dfstrans.injection.kinds import KINDS
from dfstrans.injection.results import CellResult, StudyResult
from dfstrans.standing import LEVEL, enough_to_tell, rank_sum_chance

RELIABLE = 0.8  # of the trials detected, at a strength and at all greater ones


def verdict(result: StudyResult) -> list[str]:
    """A sentence each on the kinds that are found reliably, on those that are found at times, and on the others."""
    found, partly, below, hidden, untold = [], [], [], [], []
    for kind in dict.fromkeys(cell.kind for cell in result.cells):
        cells = sorted((cell for cell in result.cells if cell.kind == kind), key=lambda cell: cell.strength)
        told_apart = [cell for cell in cells if _told_apart(cell, result.normal_tested)]
        reliable = _reliable_from(cells, told_apart)
        if not any(enough_to_tell(cell.episodes, result.normal_tested) for cell in cells):
            untold.append(kind)
        elif not told_apart:
            hidden.append(kind)
        elif not any(cell.detected for cell in told_apart):
            below.append(f"{kind} (at {_strengths(told_apart)})")
        elif reliable is None:
            partly.append(f"{kind} (at most {max(cell.recall or 0.0 for cell in told_apart):.0%})")
        else:
            found.append(f"{kind} from {KINDS[kind].shown(reliable)} on")
    said = {
        f"found in at least {RELIABLE:.0%} of the trials": found,
        "found at times, not reliably at the strengths tried": partly,
        "ranked above normal episodes, but never over the threshold": below,
        "not told from normal episodes at the strengths tried": hidden,
        "too few trials to tell": untold,
    }
    return [f"{words}: {', '.join(kinds)}" for words, kinds in said.items() if kinds]


def _strengths(cells: Sequence[CellResult]) -> str:
    """Strengths of one kind, with their unit."""
    *weaker, strongest = cells
    return ", ".join([*(f"{cell.strength:g}" for cell in weaker), strongest.shown_strength])


def _reliable_from(cells: Sequence[CellResult], told_apart: Sequence[CellResult]) -> float | None:
    """The least strength from which on a kind is told apart and found reliably; `cells` from the weakest on."""
    least = None
    for cell in reversed(cells):
        if cell not in told_apart or cell.recall is None or cell.recall < RELIABLE:
            break
        least = cell.strength
    return least


def _told_apart(cell: CellResult, normal: int) -> bool:
    """Whether guessing would hardly order faults and normal episodes as well, by the rank-sum test."""
    return cell.roc_auc is not None and rank_sum_chance(cell.roc_auc, cell.episodes, normal) <= LEVEL
