"""What is worth knowing about a set of episodes, with what to do about it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dfstrans.data.check_result import DataCheck, Finding
from dfstrans.data.check_tally import Tally
from dfstrans.data.episodes import Episodes
from dfstrans.data.rates import told
from dfstrans.data.resolution import ONE_LARGE_VALUE, REMEDY, REMEDY_IF_SEVERAL, ROUNDED
from dfstrans.data.segments import FEWEST_POINTS
from dfstrans.errors import counted, shortlist, spelled, spelled_in_reading

FEWEST = 4  # of each class: 70 % of them are the two that training needs
FEW_ANOMALIES = 10  # fewer leave one or two for validation
LOPSIDED = 0.01  # of the episodes in the rarer class
MUCH_MISSING = 0.2  # of a sensor's values
LENGTH_RATIO = 4.0  # longest to shortest
ALIKE_RATIO = 0.3  # neighbouring "sensors" this much more alike than neighbouring points
ALIKE_SENSORS = 10  # with fewer, likeness is chance


def class_findings(check: DataCheck) -> list[Finding]:
    """Whether both classes are there, and enough of each."""
    if check.unlabelled:
        guess = ""
        if check.label_like_sensors:
            named = check.label_like_sensors[0]
            guess = (
                f"; is it {shortlist(check.label_like_sensors)}, now read as a sensor, which is 0 in some episodes and "
                f"1 in the others? then say so ({spelled_in_reading('label_column', named)}); of arrays, move it into "
                "one called labels and leave the sensor out"
            )
        said = f"no labels: good for prediction; to train, add a label column or a label table{guess}"
        return [Finding("warning" if guess else "info", said)]
    if check.anomalous == 0 or check.normal == 0:
        only = "normal" if check.anomalous == 0 else "anomalous"
        return [Finding("error", f"all episodes are {only}: training needs both classes; add the other")]
    rarer = min(check.anomalous, check.normal)
    name = "anomalous" if rarer == check.anomalous else "normal"
    if rarer < FEWEST:
        verb = "is" if rarer == 1 else "are"
        return [
            Finding(
                "error",
                f"only {rarer} of {check.episodes} episodes {verb} {name}: training needs at least {FEWEST} of each "
                "class; add more of them",
            )
        ]
    if rarer < FEW_ANOMALIES or rarer < LOPSIDED * check.episodes:
        return [
            Finding(
                "warning",
                f"only {rarer} of {check.episodes} episodes are {name}: scores will be uncertain; "
                "add more of them, and do not trust a single split",
            )
        ]
    return []


def place_findings(check: DataCheck) -> list[Finding]:
    """Episodes that are empty, repeated, partly anomalous, or have gaps."""
    found = []
    if check.partly_anomalous:
        found.append(
            Finding(
                "info",
                "the label changes within, or the place of the fault is known in, "
                f"{counted(len(check.partly_anomalous), 'episode')}: {shortlist(check.partly_anomalous)}; each counts "
                "as anomalous as a whole, and the place is kept to judge a diagnosis by",
            )
        )
    if check.empty_episodes:
        found.append(
            Finding(
                "warning",
                f"no value at all in {shortlist(check.empty_episodes)}: there is nothing to learn from such an "
                "episode; record it again, or leave it out",
            )
        )
    if check.slower_episodes:
        found.append(Finding("warning", told(check.slower_episodes)))
    if check.gaps:
        shown = [f"{name} ({count})" for name, count in check.gaps.items()]
        found.append(
            Finding(
                "info",
                f"{counted(sum(check.gaps.values()), 'point')} without a value of any sensor, in "
                f"{counted(len(check.gaps), 'episode')}: {shortlist(shown)}; so are gaps in time filled, and the "
                "network sees the last value there",
            )
        )
    return found


def truth_findings(episodes: Episodes) -> list[Finding]:
    """Sensors that known faults name and that were not recorded."""
    blamed = {name for faults in episodes.faults or () for fault in faults for name in fault.sensors}
    unknown = sorted(blamed - set(episodes.sensors))
    if not unknown:
        return []
    return [
        Finding(
            "warning",
            f"known faults are in sensors that are not there: {shortlist(unknown)}; no diagnosis can be judged by "
            "them: mend the names, or keep these sensors",
        )
    ]


def sensor_findings(
    check: DataCheck, absent: dict[str, int], examples: dict[str, list[str]], between: float
) -> list[Finding]:
    """Sensors that are missing, constant, stuck, copies of others, or tell the answer.

    `between` is the share of points that are missing because an episode was recorded more slowly than others.
    """
    found: list[Finding] = []

    def add(level: Literal["error", "warning", "info"], message: str) -> None:
        found.append(Finding(level, message))

    if check.infinite_values:
        add(
            "error",
            f"infinite values in {shortlist(check.infinite_values)}: correct them, or read them as missing "
            f"({spelled_in_reading('infinite_as_missing', True)}); beyond 3.4e38, 32 bits end",
        )
    if check.empty_sensors:
        remedy = f"leave them out ({spelled_in_reading('drop_sensors', ...)})"
        add("error", f"no value at all in {shortlist(check.empty_sensors)}: {remedy}")
    constant = [name for name in check.constant_sensors if name not in check.offset_sensors]
    if constant:
        add(
            "info",
            f"one value throughout, which tells nothing and may be left out: {shortlist(constant)}",
        )
    if check.offset_sensors:
        add(
            "warning",
            f"{ONE_LARGE_VALUE}: {shortlist(check.offset_sensors)}; {REMEDY_IF_SEVERAL}",
        )
    if check.rounded_sensors:
        add("warning", f"{ROUNDED}: {shortlist(check.rounded_sensors)}; {REMEDY}")
    if check.telltale_sensors:
        add(
            "warning",
            f"as good as the label: {shortlist(check.telltale_sensors)} has one highest value in all normal and "
            "another in all anomalous episodes; if it is a label and no measurement, leave it out "
            f"({spelled_in_reading('drop_sensors', ...)})",
        )
    if check.duplicated_sensors:
        groups = [" = ".join(group) for group in check.duplicated_sensors]
        add(
            "warning",
            f"identical sensors: {shortlist(groups)}; keep one of each ({spelled_in_reading('drop_sensors', ...)}), or "
            "blame will be shared",
        )
    much = [name for name, share in check.missing_by_sensor.items() if share - between > MUCH_MISSING and share < 1]
    if much:
        shares = [f"{name} ({check.missing_by_sensor[name]:.0%})" for name in much]
        add(
            "warning",
            f"many missing values in {shortlist(shares)}: find out why, or leave the sensors out "
            f"({spelled_in_reading('drop_sensors', ...)})",
        )
    if absent:
        shown = [f"{name} ({counted(count, 'episode')})" for name, count in absent.items()]
        add("warning", f"without a single value in some episodes: {shortlist(shown)}; was the sensor off or renamed?")
    still = {
        name: f"{name} ({counted(count, 'episode')}, such as {examples[name][0]})"
        for name, count in check.stuck_sensors.items()
    }
    off = [shown for name, shown in still.items() if check.stuck_sensors[name] > check.episodes / 2]
    stuck = [shown for shown in still.values() if shown not in off]
    if off:
        add(
            "info",
            f"standing still in most episodes, though lively in others: {shortlist(off)}; switched off, or stuck?",
        )
    if stuck:
        add(
            "warning",
            f"standing still for more than half of some episodes, though lively in others: {shortlist(stuck)}; "
            "stuck, or a machine that does not use it? correct the recordings or leave the episodes out",
        )
    return found


def shape_findings(check: DataCheck, n_timepoints: int, tally: Tally) -> list[Finding]:
    """Lengths that differ much or are too short, and arrays that look transposed."""
    found = []
    likeness = tally.sensor_steps.value / tally.time_steps.value if tally.time_steps.value > 0 else np.inf
    many = len(check.sensors) > 2 * n_timepoints
    smooth = len(check.sensors) >= ALIKE_SENSORS and likeness < ALIKE_RATIO
    if many or smooth:
        why = (
            f"{len(check.sensors)} sensors and only {n_timepoints} points"
            if many
            else f"neighbouring sensors are {1 / max(likeness, 1e-9):.0f} times more alike than neighbouring points"
        )
        found.append(
            Finding("warning", f"{why}: are the axes transposed? expected (episode, sensor, timepoint); swap them")
        )
    if 0 < check.shortest < FEWEST_POINTS:
        found.append(
            Finding(
                "warning",
                f"the shortest episode has {check.shortest} points, and training needs {FEWEST_POINTS} (fewer with "
                f"fewer {spelled('blocks')}); leave short episodes out",
            )
        )
    if check.longest > LENGTH_RATIO * check.shortest:
        found.append(
            Finding(
                "info",
                f"lengths from {check.shortest} to {check.longest} points: the classes should not differ by length, "
                "and the shortest must hold a segment",
            )
        )
    for ids in check.duplicated_episodes[:5]:
        found.append(Finding("warning", f"episodes with the same content: {shortlist(ids)}; keep one of them"))
    if len(check.duplicated_episodes) > 5:
        more = len(check.duplicated_episodes) - 5
        found.append(Finding("warning", f"{more} more sets of episodes with the same content; keep one of each"))
    return found
