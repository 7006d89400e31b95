"""Phrases that the summary of a diagnosis and its page share."""

from __future__ import annotations

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
