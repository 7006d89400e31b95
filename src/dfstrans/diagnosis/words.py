"""Phrases that the summary of a diagnosis and its page share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

TRUST_WORDS = {
    "supported": "The attention explains the decision: without its largest weights, the recording looks far less "
    "anomalous.",
    "weak": "The attention explains only part of the decision: read the attention plots with care.",
    "not supported": "The attention does not explain the decision: do not rely on the attention plots.",
}
RANKED_BY_DROP = (
    "Sensors and moments are ranked by a what-if test: one sensor at one moment is replaced by its normal signal, and "
    "the more the anomaly score drops, the higher they rank"
)
STILL_BY_DISTANCE = (
    "Replacing a single sensor at a single moment by its normal signal hardly changes the anomaly score, so sensors "
    "and moments are ranked by their distance from normal"
)


def describe_members(members: Mapping[str, float], threshold: float) -> str:
    """Say how likely an anomaly is to each member of a committee and, if they disagree, what to do; empty without one.

    >>> describe_members({"network": 0.93, "trees": 0.88}, 0.5)
    'Committee: network 0.93, trees 0.88.'
    """
    if not members:
        return ""
    found = f"Committee: {', '.join(f'{name} {probability:.2f}' for name, probability in members.items())}."
    called, not_called = callers(members, threshold), [name for name in members if members[name] < threshold]
    if not called or not not_called:
        return found
    return (
        f"{found} They disagree: anomalous to the {' and '.join(called)}, normal to the {' and '.join(not_called)}. "
        "Compare the signals with normal ones before you act, and label this recording for the next training."
    )


def callers(members: Mapping[str, float], threshold: float) -> list[str]:
    """Return the members of a committee that call an episode anomalous."""
    return [name for name, probability in members.items() if probability >= threshold]


def describe_baseline(baseline: str | None, machine: str | None) -> str:
    """Say what to do if a recording is not compared with the baseline of its machine; else empty."""
    if baseline != "fleet":
        return ""
    if machine is None:
        return "Its machine is unknown, so it is compared with the fleet: name the machine (--machine …)."
    return (
        f"Machine {machine} has no baseline, so this recording is compared with the fleet: commission the machine "
        f"(dfstrans commission MODEL RECORDINGS --machine {shlex.quote(machine)})."
    )
