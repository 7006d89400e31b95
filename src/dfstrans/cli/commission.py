"""`dfstrans commission`: learn what is normal for a machine from its recordings, without labels or training."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dfstrans.cli.machines import FalseAlarmRule, Machine, of_machine
from dfstrans.cli.options import Data, Model, reading, with_or_without_labels
from dfstrans.cli.output import AsJson, print_columns, print_json, remark
from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import seconds_of
from dfstrans.detectors.registry import load_detector
from dfstrans.errors import DfstransError, counted, list_few

if TYPE_CHECKING:  # which load torch
    from dfstrans.detectors.base import EpisodeClassifier
    from dfstrans.detectors.trees import Commissioned

app = typer.Typer(add_completion=False)
MARGIN = 0.1  # share of alarms beyond that of normal recordings in validation
BY_CHANCE = 0.01  # how probable more alarms may be by chance
COLUMNS = ("machine", "recordings", "anomalous before", "anomalous now", "threshold", "baseline")


@app.command(epilog="Example: dfstrans commission model first_weeks.csv --machine lift-7")
@reading
def commission(
    model: Model,
    data: Data,
    read: dict[str, Any],
    machine: Machine = None,
    before: Annotated[
        str | None,
        typer.Option("--before", help="Use only recordings that end before this date.", metavar="DATE"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the baseline of machines that already have one.")
    ] = False,
    false_alarms: FalseAlarmRule = None,
    as_json: AsJson = False,
) -> None:
    """Learn what is normal for a machine from its recordings, without labels or training.

    The model keeps this baseline, and compares later recordings of the machine with it.
    """
    from dfstrans.detectors.trees import KnowsMachines  # loads torch
    from dfstrans.detectors.workflow import save_again, scorable
    from dfstrans.training.false_alarms import FalseAlarms

    rule = None if false_alarms is None else FalseAlarms.parse(false_alarms)

    detector = load_detector(model)
    if not isinstance(detector, KnowsMachines):
        raise DfstransError(
            f"expected a model that compares each machine with itself, got one of the kind {detector.estimator_name!r} "
            f"in {model}; train one with --model dfstrans or trees"
        )
    episodes = with_or_without_labels(detector, data, read)
    if before is not None:
        episodes = recordings_before(episodes, before)
    episodes, _ = scorable(detector, episodes, remark)
    episodes, skipped = detector.commissionable(of_machine(episodes, machine), replace=replace)
    found = detector.commission(episodes, replace=replace, false_alarms=rule)
    save_again(detector, model)
    for name, one in found.items():
        _warn_of_alarms(name, one, detector)
    if as_json:
        machines = [_as_json(name, one) for name, one in found.items()]
        left_out = [{"machine": name, "reason": reason} for name, reason in skipped.items()]
        print_json({"model": str(model), "machines": machines, "skipped": left_out})
        return
    rows = {name: _as_row(one, detector.threshold_.value) for name, one in found.items()}
    rows |= {name: ("–", "–", "–", "–", f"skipped: {reason}") for name, reason in skipped.items()}
    print_columns(COLUMNS, [(name, *cells) for name, cells in rows.items()], words=("machine", "baseline"))
    remark(f"{model} now has the baselines of {counted(len(detector.machines_), 'machine')}")


def _as_row(found: Commissioned, threshold: float) -> tuple[str, ...]:
    """Return the cells of a commissioned machine; its own threshold is shown if it has one."""
    own, n = found.threshold > threshold, found.suitability.n_recordings
    alarms = f"{len(found.alarms)}, {found.alarms_left} at its threshold" if own else str(len(found.alarms))
    return str(n), str(found.alarms_before), alarms, f"{found.threshold:.4g}", found.suitability.note


def _as_json(name: str, found: Commissioned) -> dict[str, Any]:
    suitability = found.suitability
    return {
        "machine": name,
        "recordings": suitability.n_recordings,
        "change": suitability.change,
        "drifting": list(suitability.drifting),
        "sufficient": suitability.sufficient,
        "note": suitability.note,
        "alarms_before": found.alarms_before,
        "alarms": list(found.alarms),
        "threshold": found.threshold,
        "alarms_left": found.alarms_left,
    }


def _warn_of_alarms(name: str, found: Commissioned, detector: EpisodeClassifier) -> None:
    """Warn if far more of a machine's recordings are called anomalous than normal ones were in validation."""
    from scipy.stats import binom

    validation, n = detector.metrics_["validation"], found.suitability.n_recordings
    false, normal = (validation.get(key) or 0 for key in ("false_positives", "true_negatives"))
    rate = (false + 1) / (false + normal + 2)  # a little above the measured one, which rests on few recordings
    if found.alarms_left / n < rate + MARGIN or binom.sf(found.alarms_left - 1, n, rate) > BY_CHANCE:
        return
    remark(
        f"warning: {found.alarms_left} of {n} recordings of {name} are called anomalous, but in validation only "
        f"{false} of {false + normal} normal ones were; look at the most probable ({list_few(found.alarms)}): if they "
        "are faults, leave them out; if not, limit the false alarms of this machine (--false-alarms 1/week --replace)"
    )


def recordings_before(episodes: Episodes, date: str) -> Episodes:
    """Return the episodes that end before a date, as the clock of the recordings showed it."""
    try:
        limit = datetime.fromisoformat(date)
    except ValueError:
        limit = None
    if limit is None or limit.tzinfo is not None:
        raise DfstransError(
            f"expected --before with a date, and perhaps a time, without a time zone, got {date!r}; write for example "
            "--before 2026-03-01"
        )
    starts = episodes.starts
    unknown = episodes.ids if starts is None else episodes.ids[np.isnat(starts)]
    if starts is None or len(unknown):
        raise DfstransError(
            f"expected recordings with a date for --before, got {len(unknown)} without one ({list_few(unknown)}); name "
            "the column with date and time (--time-column …), or give only recordings of that period, without --before"
        )
    seconds = (episodes.lengths - 1) * (seconds_of(episodes.interval, episodes.time_unit) or 0.0)
    ends = starts + (seconds * 1e9).astype("timedelta64[ns]")
    chosen = ends < np.datetime64(limit)
    if not chosen.any():
        raise DfstransError(
            f"expected recordings that end before {date}, got none: the first one ends at "
            f"{ends.min().astype('datetime64[s]')}; give a later date, or earlier recordings"
        )
    remark(f"used {chosen.sum()} of {counted(len(episodes), 'recording')}, those that end before {date}")
    return episodes[chosen]
