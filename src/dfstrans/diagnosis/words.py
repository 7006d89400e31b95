"""Phrases that the summary of a diagnosis and its page share."""

from __future__ import annotations

TRUST_WORDS = {
    "supported": "The attention explains the decision: without its largest weights, the recording looks far less "
    "anomalous.",
    "weak": "The attention explains only part of the decision: read the raw attention with care.",
    "not supported": "The attention does not explain the decision: do not rely on the raw attention.",
}
RANKED_BY_DROP = (
    "The list is a what-if test: one sensor at one moment is replaced by its normal signal, and the more the anomaly "
    "score drops, the higher the sensor and the moment stand"
)
STILL_BY_DISTANCE = (
    "Replacing a single sensor at a single moment by its normal signal hardly changes the anomaly score, so sensors "
    "and moments are ranked by their distance from normal"
)


def in_time(start: float, end: float, unit: str, between: str = " – ") -> str:
    """Format a span of time.

    >>> in_time(9, 10.5, "s"), in_time(9, 10.5, "", " to ")
    ('9 – 10.5 s', '9 to 10.5')
    """
    return f"{start:g}{between}{end:g} {unit}".rstrip()
