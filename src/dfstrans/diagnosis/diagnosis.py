"""`Diagnosis`: which sensors, at which moments, how they hang together, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfstrans.diagnosis.bands import BeyondBand, Usual, beyond_band
from dfstrans.diagnosis.health import Finding
from dfstrans.diagnosis.known_faults import Resemblance
from dfstrans.diagnosis.scores import EpisodeScores
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from dfstrans.diagnosis.trust import Verdict
    from dfstrans.training.evaluation import ChanceCheck


class RankedSensor(NamedTuple):
    """A sensor, how far it is from normal at its strangest moment (1 is usual), and what it adds to the logit.

    `loss`, where the ranking is made by occlusion, is what it is ranked by: what the logit loses at its worst moment.
    """

    sensor: str
    deviation: float
    contribution: float
    direction: str
    loss: float | None = None


class RankedSegment(NamedTuple):
    """A moment from start to end, in the episode's own time, and how far from normal its strangest sensor is.

    `loss` as in `RankedSensor`.
    """

    segment: int
    start: float
    end: float
    deviation: float
    loss: float | None = None


class RankedPair(NamedTuple):
    """At some moment `looking` attends to `at` more than it normally does: `excess` 1 is the edge of the 99 % band."""

    looking: str
    at: str
    segment: int
    excess: float


Array = npt.NDArray[np.float64]
SCHEMA_VERSION = 1
MOST_PAIRS = 20  # whose change is told
STANDS_OUT = 1.5  # times the usual distance from normal; 1 is usual
CLEARLY = 2.0  # deviations of a level from which on it is called higher or lower


@dataclass(frozen=True, eq=False, repr=False)  # arrays have no single answer to ==, and fill screens
class Diagnosis:
    """One episode: how anomalous, which sensors and moments are unlike normal ones, and who attends to whom.

    Shape:
        segment_bounds (segment, 2), start and end in the unit of the sampling interval, or in points;
        deviation (segment, sensor), see `NormalReference.deviation`
    """

    episode_id: str
    probability: float
    threshold: float
    sensors: tuple[str, ...]
    segment_bounds: Array
    scores: EpisodeScores
    deviation: Array
    contribution: Array  # (segment, sensor): what each adds to the logit beyond what is usual
    level: Array  # (segment, sensor): distance of the mean value from normal, in deviations
    bands: Mapping[str, Usual]  # what is normal of each score, by its name in `scores`; older models keep only some
    health: tuple[Finding, ...]
    resembles: tuple[Resemblance, ...] = ()  # kinds of the nearest known anomalies, where some are known
    time_unit: str = ""  # of `segment_bounds`: "points" without an interval, empty where nobody knows
    trust: Verdict | None = None  # None where it was not asked for
    chance_check: ChanceCheck | None = (
        None  # whether the detector itself is better than guessing; None where nobody asked
    )
    occlusion: Array | None = None  # (segment, sensor): fall of the logit were it normal; see `ranking`
    usual_course: Array | None = (
        None  # (segment, sensor, 2): lowest and highest value of normal ones; see `NormalCourse`
    )

    def __repr__(self) -> str:
        verdict = "anomalous" if self.is_anomaly else "not anomalous"
        shape = f"{len(self.sensors)} sensors, {len(self.segment_bounds)} segments"
        return f"Diagnosis({self.episode_id!r}, {verdict}, probability={self.probability:.3f}, {shape})"

    @property
    def is_anomaly(self) -> bool:
        """Whether the probability reaches the model's threshold."""
        return self.probability >= self.threshold

    @property
    def ranking(self) -> Array:
        """What sensors and moments are ranked by: deviation, or occlusion where attention has no support."""
        return self.deviation if self.occlusion is None else self.occlusion

    @cached_property
    def sensor_deviation(self) -> Array:
        """How far each sensor is from normal at its strangest moment: (sensor,)."""
        return np.asarray(self.deviation.max(axis=0))

    @cached_property
    def segment_deviation(self) -> Array:
        """How far each moment is from normal in its strangest sensor: (segment,)."""
        return np.asarray(self.deviation.max(axis=1))

    def excess(self, score: str) -> Array:
        """How far a score is above its normal band, in its shape: 0 is the normal median, 1 the edge.

        Unknown (NaN) where the model keeps no band of it; `score` is a name in `scores`.
        """
        values: Array = getattr(self.scores, score)
        return self.bands[score].strangeness(values) if score in self.bands else np.full(values.shape, np.nan)

    @property
    def top_sensor(self) -> str:
        """The first of the ranking."""
        return self.sensors[int(self.ranking.max(axis=0).argmax())]

    @property
    def top_segment(self) -> int:
        """The first moment of the ranking, counted from 0."""
        return int(self.ranking.max(axis=1).argmax())

    @property
    def only_a_guess(self) -> bool:
        """Whether the detector is not shown to be better than guessing."""
        return self.chance_check is not None and self.chance_check.better_than_guessing is False

    @property
    def likely_cause(self) -> str | None:
        """The kind of fault that most of the nearest known anomalies had."""
        return self.resembles[0].kind if self.resembles else None

    @property
    def leading_words(self) -> str:
        """What the first sensor and moment of the ranking are."""
        if self.occlusion is not None:
            return "the decision rests most on"
        return "least like normal:" if self.stands_out else "nothing stands out, and least usual is"

    @property
    def stands_out(self) -> bool:
        """Whether the sensors are ranked by a distance from normal that is more than usual."""
        return self.occlusion is None and bool(self.sensor_deviation.max() >= STANDS_OUT)

    @property
    def no_cell_matters(self) -> bool:
        """Whether attention has no support, and no single cell made normal changes the decision either."""
        return self.trust is not None and self.trust.support == "not supported" and self.occlusion is None

    @property
    def without_readings(self) -> list[str]:
        """Sensors that are missing from beginning to end."""
        return [one.sensor for one in self.health if one.symptom == "missing" and one.share == 1]

    @property
    def instrument_suspected(self) -> bool:
        """Whether the first sensor of the ranking is itself unhealthy."""
        return any(finding.sensor == self.top_sensor for finding in self.health)

    def top_sensors(self, n: int = 3) -> list[RankedSensor]:
        """The first sensors of the ranking."""
        return [
            RankedSensor(
                self.sensors[s],
                float(self.sensor_deviation[s]),
                float(self.contribution[:, s].sum()),
                self._direction(int(s)),
                self._loss(slice(None), int(s)),
            )
            for s in _largest(self.ranking.max(axis=0), n)
        ]

    def top_segments(self, n: int = 3) -> list[RankedSegment]:
        """The first moments of the ranking."""
        order = _largest(self.ranking.max(axis=1), n)
        return [self._segment(int(t)) for t in order]

    def top_pairs(self, n: int = 3) -> list[RankedPair]:
        """Pairs of sensors whose attention is furthest above its normal band, each pair at its strangest moment."""
        pair_excess = self.excess("spatial")
        strangest = pair_excess.max(axis=0)
        np.fill_diagonal(strangest, -np.inf)
        found = []
        for looking, at in zip(*np.unravel_index(_largest(strangest.ravel(), n), strangest.shape), strict=True):
            if np.isfinite(strangest[looking, at]):
                moment = int(pair_excess[:, looking, at].argmax())
                found.append(RankedPair(self.sensors[looking], self.sensors[at], moment, float(strangest[looking, at])))
        return found

    @cached_property
    def changed_pairs(self) -> list[RankedPair]:
        """The first pairs, as far as they are beyond their band."""
        return [pair for pair in self.top_pairs(MOST_PAIRS) if pair.excess > 1]

    @cached_property
    def beyond_band(self) -> list[BeyondBand]:
        """Sensors, moments and pairs whose attention is above its 99 % normal band, when and by how much."""
        return beyond_band(
            self.sensors,
            self.segment_bounds,
            self.excess("sensor"),
            self.excess("segment"),
            self.excess("spatial"),
            self.changed_pairs,
        )

    def related_sensors(self, sensor: str, segment: int) -> pd.DataFrame:
        """At a moment when one sensor looks odd, how are the others related: its row of B^(τ), largest first.

        Beside the attention its normal median and its excess (1 is the edge of the 99 % band); by sensor.
        """
        row = (self._check_segment(segment), self._check_sensor(sensor))
        return self._beside_normal("spatial", row, pd.Index(self.sensors, name="sensor"))

    def triggers(self, sensor: str, segment: int) -> pd.DataFrame:
        """In an odd sensor, which moments act on a given one: its row of A^(s), largest first, by segment.

        Beside the attention its normal median and its excess, as in `related_sensors`.
        """
        row = (self._check_sensor(sensor), self._check_segment(segment))
        return self._beside_normal("temporal", row, pd.RangeIndex(len(self.segment_bounds), name="segment"))

    def summary(self) -> str:
        """A few plain sentences."""
        if len(self.without_readings) == len(self.sensors):
            return f"{self.episode_id}: nothing can be said of it: no sensor has a single reading."
        verdict = "anomalous" if self.is_anomaly else "not anomalous"
        text = (
            f"{self.episode_id}: {verdict} (probability {self.probability:.3f}, anomalous from {self.threshold:.3f} on)"
        )
        if self.is_anomaly:
            text += "".join(
                f"; resembles {kind} ({n} of {of} nearest known cases)" for kind, n, of in self.resembles[:1]
            )
        sensor, moment = self.top_sensors(1)[0], self.top_segments(1)[0]
        text += f"; {self.leading_words} sensor {sensor.sensor} "
        if self.occlusion is None:
            text += f"({sensor.deviation:.1f} times the usual distance, {sensor.direction}) "
        text += f"and the time from {in_time(moment.start, moment.end, self.time_unit, ' to ')}."
        if self.is_anomaly and self.trust is not None:
            text += f" Attention is {self.trust.support}: {self.trust.reason}."
        if self.occlusion is not None:
            furthest = int(self.sensor_deviation.argmax())
            text += (
                " Therefore ranked by what the logit loses when one sensor at one moment is made normal; furthest from "
                f"normal: {self.sensors[furthest]} ({self.sensor_deviation[furthest]:.1f} times the usual distance)."
            )
        if self.is_anomaly and self.no_cell_matters:
            text += " No single sensor at one moment decides it, either, so the ranking stays the distance from normal."
        if self.without_readings:
            text += f" No readings of {', '.join(self.without_readings)}."
        if self.instrument_suspected:
            symptoms = ", ".join(f"{f.symptom} ({f.share:.0%})" for f in self.health if f.sensor == self.top_sensor)
            text += f" Instrument fault suspected: {self.top_sensor} is {symptoms}."
        if self.chance_check is not None and self.only_a_guess:
            text += f" But {self.chance_check.sentence}."
        return text

    def to_frame(self) -> pd.DataFrame:
        """One row for each sensor at each moment, with all that is known of it."""
        t, s = self.deviation.shape
        segment, sensor = np.divmod(np.arange(t * s), s)
        return pd.DataFrame(
            {
                "episode_id": self.episode_id,
                "sensor": np.array(self.sensors)[sensor],
                "segment": segment,
                "start": self.segment_bounds[segment, 0],
                "end": self.segment_bounds[segment, 1],
                "deviation": self.deviation.ravel(),
                "contribution": self.contribution.ravel(),
                "level": self.level.ravel(),
                "loss": np.nan if self.occlusion is None else self.occlusion.ravel(),
                "temporal_relevance": self.scores.temporal_relevance.T.ravel(),
                "spatial_relevance": self.scores.spatial_relevance.ravel(),
                "temporal_relevance_excess": self.excess("temporal_relevance").T.ravel(),
                "spatial_relevance_excess": self.excess("spatial_relevance").ravel(),
            }
        )

    def to_dict(self, n: int = 5) -> dict[str, Any]:
        """What matters, as plain data for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "episode_id": self.episode_id,
            "is_anomaly": self.is_anomaly,
            "severity": self.probability,
            "score": self.scores.logit,
            "threshold": self.threshold,
            "time_unit": self.time_unit,
            "interpretation": [self._interpretation(sensor) for sensor in self.top_sensors(n)],
            "segments": [moment._asdict() for moment in self.top_segments(n)],
            "pairs": [pair._asdict() for pair in self.top_pairs(n)],
            "beyond_band": [one.to_dict() for one in self.beyond_band],
            "resembles": [case._asdict() for case in self.resembles],
            "health": [finding._asdict() for finding in self.health],
            "instrument_suspected": self.instrument_suspected,
            "trust": None if self.trust is None else self.trust.to_dict(),
            "detector": None if self.chance_check is None else self.chance_check._asdict(),
            "ranked_by": "deviation" if self.occlusion is None else "occlusion",
            "summary": self.summary(),
        }

    def _beside_normal(self, score: str, row: tuple[int, int], index: pd.Index) -> pd.DataFrame:
        """One row of an attention tensor beside what is normal of it; unknown in models that keep no band of it."""
        attention, band = getattr(self.scores, score), self.bands.get(score)
        usual = np.broadcast_to(np.nan if band is None else band.centre, attention.shape)
        columns = {"attention": attention[row], "usual": usual[row], "excess": self.excess(score)[row]}
        frame = pd.DataFrame(columns, index=index)
        return frame.sort_values("attention", ascending=False, kind="stable")

    def _interpretation(self, ranked: RankedSensor) -> dict[str, Any]:
        sensor = self.sensors.index(ranked.sensor)
        moments = _largest(self.ranking[:, sensor], 3)
        pairs = [pair for pair in self.changed_pairs if ranked.sensor in (pair.looking, pair.at)]
        return {
            **ranked._asdict(),
            "segments": [self._segment(int(t), sensor)._asdict() for t in moments],
            "changed_pairs": [pair._asdict() for pair in pairs],
        }

    def _segment(self, segment: int, sensor: int | slice = slice(None)) -> RankedSegment:
        """A moment of one sensor, or of its strangest one."""
        start, end = self.segment_bounds[segment]
        deviation = float(self.deviation[segment, sensor].max())
        return RankedSegment(segment, float(start), float(end), deviation, self._loss(segment, sensor))

    def _loss(self, segment: int | slice, sensor: int | slice) -> float | None:
        return None if self.occlusion is None else float(self.occlusion[segment, sensor].max())

    def _direction(self, sensor: int) -> str:
        """Whether the values at its strangest moment are higher or lower than normal, or only of another shape."""
        level = self.level[int(self.ranking[:, sensor].argmax()), sensor]
        return "higher than normal" if level > CLEARLY else "lower than normal" if level < -CLEARLY else "another shape"

    def _check_sensor(self, sensor: str) -> int:
        if sensor not in self.sensors:
            raise DfstransError(f"expected one of the sensors {', '.join(self.sensors)}, got {sensor!r}; correct it")
        return self.sensors.index(sensor)

    def _check_segment(self, segment: int) -> int:
        n = len(self.segment_bounds)
        if not isinstance(segment, int | np.integer) or not 0 <= segment < n:
            raise DfstransError(f"expected a segment from 0 to {n - 1}, got {segment!r}; correct it")
        return segment


def in_time(start: float, end: float, unit: str, between: str = " – ") -> str:
    """A stretch of time in words.

    >>> in_time(9, 10.5, "s"), in_time(9, 10.5, "", " to ")
    ('9 – 10.5 s', '9 to 10.5')
    """
    return f"{start:g}{between}{end:g} {unit}".rstrip()


def _largest(values: Array, n: int) -> npt.NDArray[np.intp]:
    """Where the n largest values are, the largest first."""
    if n < 0:
        raise DfstransError(f"expected a number of 0 or more to be shown, got {n}; correct it")
    return np.argsort(-values, kind="stable")[:n]


DECIMALS = 5


NAMES = {  # of the eight scores, by their names in `EpisodeScores`
    "temporal": "temporal_attention",
    "temporal_relevance": "temporal_relevance",
    "global_temporal": "global_temporal_attention",
    "segment": "global_temporal_relevance",
    "spatial": "spatial_attention",
    "spatial_relevance": "spatial_relevance",
    "global_spatial": "global_spatial_attention",
    "sensor": "global_spatial_relevance",
}


def raw_numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """The paper's eight scores and what each sensor at each moment is ranked by, as nested lists; null where unknown.

    `normal` has the median and the edge of the 99 % band of each score that the model keeps one of, in its shape.

    Shape:
        as in docs/notation.md; deviation, contribution, level and loss (segment, sensor); usual_course (segment,
        sensor, 2), the lowest and the highest value of normal episodes
    """
    scores = {score: getattr(diagnosis.scores, score) for score in NAMES}
    arrays = {
        "segment_bounds": diagnosis.segment_bounds,
        **{NAMES[score]: values for score, values in scores.items()},
        "deviation": diagnosis.deviation,
        "contribution": diagnosis.contribution,
        "level": diagnosis.level,
        "loss": diagnosis.occlusion,
        "usual_course": diagnosis.usual_course,
    }
    normal = {
        NAMES[score]: {
            "median": _nested(np.broadcast_to(band.centre, scores[score].shape)),
            "edge": _nested(np.broadcast_to(band.edge, scores[score].shape)),
        }
        for score, band in diagnosis.bands.items()
    }
    return {
        "sensors": list(diagnosis.sensors),
        **{name: None if array is None else _nested(array) for name, array in arrays.items()},
        "normal": normal,
    }


def _nested(array: npt.NDArray[np.float64]) -> Any:
    """Lists in lists, without NaN, which JSON does not have."""
    rounded = np.round(array, DECIMALS).astype(object)
    rounded[~np.isfinite(array)] = None
    return rounded.tolist()
