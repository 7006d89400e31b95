"""What a set of episodes holds, and what is suspicious about it, before anyone trains on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dfstrans.data.check_findings import (
    FEWEST,
    class_findings,
    place_findings,
    sensor_findings,
    shape_findings,
    truth_findings,
)
from dfstrans.data.check_result import DataCheck, Finding, SensorRange
from dfstrans.data.check_tally import Tally
from dfstrans.data.episodes import Episodes
from dfstrans.data.resolution import coarse, may_hide_a_signal

LIVELY_IN = 0.25  # of the episodes: then a sensor that stands still in others is no switch
_BATCH_BYTES = 16_000_000  # of values in memory at a time


def check_episodes(episodes: Episodes, progress: Callable[[int], None] | None = None) -> DataCheck:
    """Look through all values once, a batch at a time; `progress` is told the number of episodes after each batch."""
    tally = Tally(episodes.n_sensors)
    size = max(1, _BATCH_BYTES // (4 * episodes.n_sensors * episodes.n_timepoints))
    for batch in episodes.batches(size):
        tally.add(batch)
        if progress is not None:
            progress(len(batch))
    return _summary(episodes, tally)


def _fault_kinds(episodes: Episodes) -> dict[str, int]:
    """In how many episodes each kind of fault is known."""
    kinds = [{fault.kind for fault in faults if fault.kind} for faults in episodes.faults or ()]
    return dict(sorted(Counter(kind for found in kinds for kind in found).items()))


def _summary(episodes: Episodes, tally: Tally) -> DataCheck:
    names = episodes.sensors
    n = len(episodes)
    missing = 1 - (tally.finite + tally.infinite) / max(tally.points, 1)
    empty = tally.finite == 0
    constant = ~empty & (tally.min == tally.max)
    lively = (tally.lively >= np.maximum(LIVELY_IN * tally.present, 2)) & ~constant
    enough = min(episodes.n_anomalous, n - episodes.n_anomalous) >= FEWEST  # else it is chance
    alike: dict[bytes, list[str]] = defaultdict(list)
    for sensor in np.flatnonzero(~empty & ~constant):
        alike[tally.sensor_digests[sensor].digest()].append(names[sensor])
    lengths = episodes.lengths if n else np.zeros(1, dtype=np.int64)
    filled = n - len(tally.empty_episodes)
    slower = tally.slower if len(tally.slower) < filled else {}  # than whom?
    between = sum(tally.gaps[name] for name in slower)
    check = DataCheck(
        episodes=n,
        anomalous=episodes.n_anomalous,
        normal=0 if episodes.labels is None else n - episodes.n_anomalous,
        unlabelled=n if episodes.labels is None else 0,
        sensors=names,
        units={name: unit for name, unit in zip(names, episodes.units, strict=True) if unit},
        shortest=int(lengths.min()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        interval=episodes.interval,
        groups=None if episodes.groups is None else len(set(episodes.groups.tolist())),
        fault_kinds=_fault_kinds(episodes),
        missing=float(missing.mean()),
        missing_by_sensor={names[i]: float(missing[i]) for i in np.argsort(-missing, kind="stable")},
        ranges={name: _range(tally, sensor) for sensor, name in enumerate(names)},
        constant_sensors=tuple(names[i] for i in np.flatnonzero(constant)),
        empty_sensors=tuple(names[i] for i in np.flatnonzero(empty)),
        stuck_sensors={names[i]: int(tally.stuck[i]) for i in np.flatnonzero(lively & (tally.stuck > 0))},
        duplicated_sensors=tuple(tuple(group) for group in alike.values() if len(group) > 1),
        infinite_values={names[i]: int(tally.infinite[i]) for i in np.flatnonzero(tally.infinite)},
        duplicated_episodes=tuple(tuple(ids) for ids in tally.episode_digests.values() if len(ids) > 1),
        gaps={name: count for name, count in tally.gaps.items() if name not in slower},
        slower_episodes=slower,
        empty_episodes=tuple(tally.empty_episodes),
        rounded_sensors=tuple(names[i] for i in np.flatnonzero(coarse(tally.min, tally.max))),
        offset_sensors=tuple(names[i] for i in np.flatnonzero(constant & may_hide_a_signal(tally.max))),
        label_like_sensors=tuple(names[i] for i in np.flatnonzero(tally.switch_between_episodes)),
        telltale_sensors=tuple(names[i] for i in np.flatnonzero(tally.telltale & enough)),
        partly_anomalous=_partly_anomalous(episodes),
    )
    absent = {names[i]: filled - int(tally.present[i]) for i in np.flatnonzero(~empty & (tally.present < filled))}
    examples = dict(zip(names, tally.stuck_examples, strict=True))
    findings = [
        *class_findings(check),
        *place_findings(check),
        *truth_findings(episodes),
        *sensor_findings(check, absent, examples, between=between / max(tally.points, 1)),
        *shape_findings(check, episodes.n_timepoints, tally),
    ]
    if n == 0:
        findings = [Finding("error", "no episodes at all: was the file written to its end?")]
    return replace(check, findings=tuple(findings))


def _range(tally: Tally, sensor: int) -> SensorRange:
    if tally.finite[sensor] == 0:
        return SensorRange(None, None, None)
    mean = tally.sum[sensor] / tally.finite[sensor]
    return SensorRange(float(tally.min[sensor]), float(tally.max[sensor]), float(mean))


def _partly_anomalous(episodes: Episodes) -> tuple[str, ...]:
    """The episodes of which it is known that a part of them only is anomalous."""
    if episodes.faults is None:
        return ()
    known = zip(episodes.ids.tolist(), episodes.lengths.tolist(), episodes.faults, strict=True)
    return tuple(name for name, length, faults in known if any(f.start > 0 or f.stop < length for f in faults))
