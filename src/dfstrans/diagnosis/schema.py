"""The JSON form of a diagnosis: every field with its type and its description.

`Diagnosis` fills these classes, `Diagnosis.to_dict` turns them into plain data, `diagnosis_schema` into a JSON Schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter

DIAGNOSIS_SCHEMA_VERSION = 4
DECIMALS = 5  # of raw scores

Support = Literal["supported", "weak", "not supported"]
BaselineUsed = Literal["own", "fleet"]
Member = Literal["network", "trees"]


@dataclass(frozen=True)
class RankedSegment:
    """A segment of the ranking."""

    segment: int
    """Number of the segment, from 0."""
    start: float
    """Start, counted from the beginning of the episode, in `time_unit`."""
    end: float
    """End, counted from the beginning of the episode, in `time_unit`."""
    deviation: float
    """Distance from normal of its most deviating sensor (or of the sensor it is listed under): 1 is typical, 3 rare."""
    drop: float | None
    """If `ranked_by` is `occlusion`: the largest drop in the logit when one sensor is made normal then; else null."""
    value: float
    """What it is ranked by: the value of the first of `sensors` in this segment, in terms of `ranked_by`."""
    sensors: list[str]
    """The sensor that determines `value`, then at most two others at least a third as strong, and material, then."""


@dataclass(frozen=True)
class RankedPair:
    """Two sensors, the first of which attends to the second more than it normally does."""

    query_sensor: str
    """Sensor that attends."""
    key_sensor: str
    """Sensor that is attended to."""
    segment: int
    """Segment in which the attention is furthest above normal."""
    excess: float
    """How far above normal: 0 is the normal median, 1 the edge of the 99 % band."""


@dataclass(frozen=True)
class RankedSensor:
    """A sensor of the ranking."""

    sensor: str
    """Name of the sensor."""
    deviation: float
    """Distance from normal in its most deviating segment: 1 is typical, 3 rare."""
    contribution: float | None
    """Contribution to the logit beyond the normal one; above 0 it points to an anomaly. Null if trees decide alone."""
    direction: Literal["higher than normal", "lower than normal", "another shape"]
    """Whether it is above, below or within the range of normal values in its first segment of the ranking."""
    drop: float | None
    """If `ranked_by` is `occlusion`: drop in the logit when it is made normal in its decisive segment; else null."""
    segments: list[RankedSegment]
    """Its first three segments, with the deviation and the value of this sensor; the first one determines `value`."""
    changed_pairs: list[RankedPair]
    """Pairs with this sensor that are beyond their normal band."""
    value: float
    """What it is ranked by: its value in the first of its `segments`, in terms of `ranked_by`."""
    material: bool
    """False if its `drop` is below 0.25, so that it is no sign of a cause; true if ranked by deviation."""


@dataclass(frozen=True)
class BeyondBand:
    """Attention above the 99 % normal band, over consecutive segments."""

    sensors: tuple[str, ...]
    """One: a sensor over the whole episode (b^G). None: segments (a^G). Two: query and key sensor of a pair (B^(τ))."""
    first: int
    """First segment."""
    last: int
    """Last segment."""
    start: float
    """Start of the first segment, in `time_unit`."""
    end: float
    """End of the last segment, in `time_unit`."""
    excess: float
    """Largest excess over normal: 0 is the normal median, 1 the edge of the band."""
    sentence: str
    """The finding in plain words."""


@dataclass(frozen=True)
class Resemblance:
    """A kind of fault among the nearest known anomalies."""

    kind: str
    """Kind of fault."""
    cases: int
    """How many of the nearest known anomalies are of this kind."""
    of: int
    """How many nearest known anomalies were compared."""


@dataclass(frozen=True)
class HealthFinding:
    """A symptom of an unhealthy sensor."""

    sensor: str
    """Name of the sensor."""
    symptom: str
    """`missing`, `stuck`, `clipped` or `out of training range`."""
    share: float
    """Share of its points with the symptom, 0 to 1."""
    normal: float
    """The largest share that is normal in the recordings of `compared_with`."""


@dataclass(frozen=True)
class ComparedWith:
    """The normal recordings of training that show what is normal for the signals and for the health of sensors."""

    machine: str
    """The machine (the group of the episode), if its own recordings are used; empty: those of all machines."""
    recordings: int
    """The number of these recordings."""
    why_all: str
    """Why those of all machines are used; empty if machines are not told apart."""


@dataclass(frozen=True)
class TrustVerdict:
    """Whether the decision depends on what the attention points to."""

    support: Support
    """The verdict."""
    reason: str
    """The reason, as a sentence."""
    percentage: float
    """Percentage of the attention weights that were removed."""
    drop: float
    """Drop in the logit without the largest weights."""
    random_drop: float
    """Mean drop in the logit without as many random weights."""
    percentile: float
    """Share of random draws with a smaller drop, 0 to 1."""


@dataclass(frozen=True)
class DetectorCheck:
    """Whether the detector itself is better than guessing."""

    better_than_guessing: bool | None
    """False: its held-out episodes do not show it, so try it on more before you act on it. Null: too few to tell."""
    note: str
    """The same in words."""
    why: str
    """The test results behind it."""


@dataclass(frozen=True)
class RawScores:
    """All numbers behind the page as nested lists, rounded to five decimals; null where unknown."""

    sensors: list[str]
    """Order of the sensors."""
    segment_bounds: list[Any]
    """Start and end of each segment: (segment, 2)."""
    temporal_attention: list[Any]
    """A^(s): (sensor, query segment, key segment)."""
    temporal_relevance: list[Any]
    """a^(s): (sensor, segment)."""
    global_temporal_attention: list[Any]
    """A^G: (query segment, key segment)."""
    global_temporal_relevance: list[Any]
    """a^G: (segment,)."""
    spatial_attention: list[Any]
    """B^(τ): (segment, query sensor, key sensor)."""
    spatial_relevance: list[Any]
    """b^(τ): (segment, sensor)."""
    global_spatial_attention: list[Any]
    """B^G: (query sensor, key sensor)."""
    global_spatial_relevance: list[Any]
    """b^G: (sensor,)."""
    deviation: list[Any]
    """Distance from normal: (segment, sensor)."""
    contribution: list[Any]
    """Contribution to the logit beyond the normal one: (segment, sensor)."""
    level: list[Any]
    """Place in the range of normal values: 0 is its middle, 1 and -1 are its edges: (segment, sensor).

    The place of the mean, unless many points are outside on one side only.
    """
    drop: list[Any] | None
    """Drop in the logit when a sensor is made normal in a segment: (segment, sensor); null unless ranked by it."""
    places: list[Any]
    """Times at which `normal_range` is known, from the start of the episode: (place,)."""
    normal_range: list[Any]
    """Lowest and highest value of normal recordings at each of `places`: (place, sensor, 2)."""
    normal: dict[str, dict[str, list[Any]]]
    """For each of the eight scores, in its shape: `median` of normal episodes, and `edge`, which 99 % stay below."""


@dataclass(frozen=True)
class DiagnosisContent:
    """A diagnosis of one episode."""

    __pydantic_config__: ClassVar = ConfigDict(use_attribute_docstrings=True)  # also of the classes above

    schema_version: int
    """Version of this format; raised when a field is renamed or changes its meaning."""
    episode_id: str
    """The episode."""
    is_anomaly: bool
    """Whether `probability` reaches `threshold`."""
    probability: float
    """Calibrated probability that the episode is anomalous, 0 to 1."""
    members: dict[str, float]
    """Probability from each member of the committee; empty if one decides alone."""
    members_disagree: bool
    """Whether some members, but not all, reach the threshold."""
    machine: str | None
    """The machine of the episode (its group); null if unknown."""
    baseline: BaselineUsed | None
    """`own`: compared with the baseline of its machine; `fleet`: there is none; null if the model knows no machines."""
    raw_logit: float
    """Output of the detector, before calibration: not the logit of `probability`."""
    explained_by: Member
    """Whose logit the ranking explains: `network`, or `trees` if they decide alone or only they call it anomalous.

    A network that has learned little does not count. Attention, `pairs`, `beyond_band`, contributions and `resembles`
    are always those of the network, if there is one.
    """
    network_logit: float | None
    """Output of the network, with `contribution` as a part: `raw_logit` if it decides alone; null if trees do."""
    threshold: float
    """Lowest probability at which an episode counts as anomalous."""
    verdict: str
    """`not seen before` if `novelty` is above 1, else `anomalous` or `normal`."""
    novelty: float | None
    """How unlike training the recording is: above 1, it is unlike anything in training; null if unknown."""
    strangest_sensor: str | None
    """If not seen before: the sensor that makes it unlike training most; null if no single one does."""
    time_unit: str
    """Unit of every `start`, `end` and `offset`: such as `s`; `points` without an interval; empty if unknown."""
    offset: float
    """If the episode is a piece of a recording: its start, counted from the beginning of the recording; else 0."""
    started: str | None
    """Date and time of its start, as the clock of the recording showed it; null if unknown."""
    time_zone: str
    """Zone of `started`: `UTC`, an offset such as `+02:00`, or empty if unknown."""
    interpretation: list[RankedSensor]
    """The first five sensors of the ranking."""
    segments: list[RankedSegment]
    """The first five segments of the ranking."""
    marked_segments: int
    """How many of `segments` to look at: the fewest that carry half of the evidence."""
    pairs: list[RankedPair]
    """The five pairs of sensors whose attention is furthest above normal, whether beyond the band or not."""
    beyond_band: list[BeyondBand]
    """What the network attends to more than in 99 % of normal episodes: sensors, then segments, then pairs."""
    resembles: list[Resemblance]
    """Kinds of the nearest training anomalies, the most frequent first; empty if fewer than two kinds are known."""
    health: list[HealthFinding]
    """Sensors that look unhealthy."""
    compared_with: ComparedWith
    """The normal recordings behind `health` and the range of normal signals."""
    suspected_instrument: str | None
    """The highest-ranked sensor behind the moments to look at that is itself unhealthy; null if none is."""
    trust: TrustVerdict | None
    """Verdict on the attention; null if not requested, and for episodes that are not anomalous."""
    detector: DetectorCheck | None
    """What is known about the detector itself; null if not checked."""
    ranked_by: Literal["deviation", "occlusion"]
    """`occlusion` if attention is not supported and some cell changes the decision when made normal."""
    summary: str
    """The diagnosis in a few sentences."""
    raw: RawScores | None = None
    """All numbers behind the page; only with `--raw`."""


def diagnosis_schema() -> dict[str, Any]:
    """JSON Schema of `Diagnosis.to_dict`, with the description of every field."""
    return TypeAdapter(DiagnosisContent).json_schema(mode="serialization")


def nested_lists(array: npt.NDArray[np.float64]) -> list[Any]:
    """Return nested lists, with None for NaN, which JSON lacks."""
    rounded = np.round(array, DECIMALS).astype(object)
    rounded[~np.isfinite(array)] = None
    nested: list[Any] = rounded.tolist()
    return nested
