"""Phrases that the summary of a diagnosis and its page share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

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

TREES_ALONE = "The trees decide alone; they have no attention to show."
ONLY_TREES_CALL = "Only the trees call this recording anomalous, so they explain it; they have no attention to show."
TREES_FOR_NETWORK = (
    "The network has learned little (see the model card), so the trees explain this recording; they have no attention "
    "to show."
)
LEARNED_LITTLE = (
    "The network has learned little (see the model card), so do not rely on the sensors and moments that it points to; "
    "train it for more epochs"
)


def reasons_to_doubt(
    baseline: str | None, machine: str | None, *, not_seen_before: bool, members_disagree: bool, learned_little: bool
) -> list[str]:
    """Return the reasons to doubt a decision itself, whatever the attention."""
    no_baseline = "the machine is unknown" if machine is None else "the machine has no baseline"
    reasons = {
        "the recording is unlike anything in training": not_seen_before,
        "the members of the committee disagree": members_disagree,
        no_baseline: baseline == "fleet",
        "the network has learned little": learned_little,
    }
    return [reason for reason, holds in reasons.items() if holds]


def describe_trust(support: str, doubts: Sequence[str]) -> str:
    """Say what the verdict on the attention means for a reader."""
    if support == "weak" and doubts:
        return f"Read this diagnosis with care: {' and '.join(doubts)}."
    return TRUST_WORDS[support]


def describe_members(members: Mapping[str, float], probability: float, threshold: float) -> str:
    """Give the probability from each member of a committee and, if they disagree, say what to do; empty without one.

    The committee may be surer or less sure than all of its members: its weighted logit is calibrated once more.

    >>> describe_members({"network": 0.93, "trees": 0.88}, 0.91, 0.5)
    'Committee: network 0.93, trees 0.88.'
    >>> describe_members({"network": 0.93, "trees": 0.88}, 0.99, 0.5).split("; ")[1]
    'together 0.99, more than either alone, as calibrated on validation recordings.'
    """
    if not members:
        return ""
    found = f"Committee: {', '.join(f'{name} {one:.2f}' for name, one in members.items())}"
    each = [round(one, 2) for one in members.values()]
    if min(each) <= round(probability, 2) <= max(each):
        found += "."
    else:
        beyond = "more" if probability > max(each) else "less"
        found += f"; together {probability:.2f}, {beyond} than either alone, as calibrated on validation recordings."
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


def named_machine(machine: str) -> str:
    """Name a machine in a sentence.

    >>> named_machine("pump 3"), named_machine("machine-1-1")
    ('machine pump 3', 'machine-1-1')
    """
    return machine if "machine" in machine.lower() else f"machine {machine}"
