"""`Diagnosis`: which sensors deviate, when, which pairs are coupled unusually, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.habits import MAX_LEVEL
from dfstrans.diagnosis.ranking import RankedCells, strongest
from dfstrans.diagnosis.schema import (
    DIAGNOSIS_SCHEMA_VERSION,
    BaselineUsed,
    ComparedWith,
    DetectorCheck,
    DiagnosisContent,
    HealthFinding,
    Member,
    RawScores,
    Resemblance,
    TrustVerdict,
    nested_lists,
)
from dfstrans.diagnosis.scores import SCORES, Array, largest
from dfstrans.diagnosis.words import (
    LEARNED_LITTLE,
    ONLY_TREES_CALL,
    RANKED_BY_DROP,
    STILL_BY_DISTANCE,
    TREES_ALONE,
    TREES_FOR_NETWORK,
    callers,
    describe_baseline,
    describe_members,
    describe_trust,
    named_machine,
    reasons_to_doubt,
)
from dfstrans.model.novelty import verdicts

if TYPE_CHECKING:  # which loads scikit-learn
    from dfstrans.training.evaluation import ChanceCheck

FAR_FROM_NORMAL = 2  # times the normal spread of a sensor on its machine


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)  # arrays make == ambiguous and repr long
class Diagnosis(RankedCells):
    """The diagnosis of one episode: its probability, the deviation of sensors and segments, and the paper's scores.

    Shape:
        normal_range (place, sensor, 2), see `places`; the times of segments and places are in the unit of `clock`
    """

    episode_id: str
    probability: float
    members: Mapping[str, float]  # probability by each member of a committee; empty if one decides alone
    machine: str | None = None  # the group of the episode
    baseline: BaselineUsed | None = None  # whether its machine has one; None if the model knows no machines
    raw_logit: float  # before calibration
    threshold: float
    novelty: float = np.nan  # how unlike training the recording is: above 1, it is not seen before; NaN: unknown
    strangest_sensor: str | None = None  # that makes it unlike training most; None if no single one does
    normal_range: Array  # lowest and highest value of normal recordings; see `NormalCourse`
    compared_with: ComparedWith  # the recordings behind `normal_range` and `health`
    health: tuple[HealthFinding, ...]
    resembles: tuple[Resemblance, ...] = ()  # kinds of the nearest known anomalies
    clock: Clock = Clock()  # noqa: RUF009 frozen
    trust: TrustVerdict | None = None  # None if not requested
    learned_little: bool = False  # whether the network is hardly better than a constant on its training episodes
    chance_check: ChanceCheck | None = None  # whether the detector is better than guessing; None if not checked

    def __repr__(self) -> str:
        verdict = "anomalous" if self.is_anomaly else "not anomalous"
        shape = f"{len(self.sensors)} sensors, {self.n_segments} segments"
        return f"Diagnosis({self.episode_id!r}, {verdict}, probability={self.probability:.3f}, {shape})"

    @property
    def explained_by(self) -> Member:
        """Who explains: the network if there is one, unless only the trees call the episode anomalous.

        The call of a network that has learned little does not count.
        """
        called = callers(self.members, self.threshold)
        by_trees = self.is_anomaly and "trees" in called and ("network" not in called or self.learned_little)
        return "trees" if self.network_logit is None or by_trees else "network"

    # ---- the verdict ------------------------------------------------------------------------------------------------

    @property
    def is_anomaly(self) -> bool:
        """Whether the probability reaches the model's threshold."""
        return self.probability >= self.threshold

    @property
    def not_seen_before(self) -> bool:
        """Whether the recording is unlike anything in training."""
        return self.novelty > 1

    @property
    def verdict(self) -> str:
        """`anomalous`, `normal` or `not seen before`."""
        return verdicts(np.array([self.is_anomaly]), np.array([self.novelty]))[0]

    @property
    def members_disagree(self) -> bool:
        """Whether some members of the committee, but not all, call the episode anomalous."""
        return 0 < len(callers(self.members, self.threshold)) < len(self.members)

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt the decision itself, whatever the attention."""
        return reasons_to_doubt(
            self.baseline,
            self.machine,
            not_seen_before=self.not_seen_before,
            members_disagree=self.members_disagree,
            learned_little=self.learned_little,
        )

    @property
    def members_words(self) -> str:
        """What each member of the committee finds and, if they disagree, what to do; empty without a committee."""
        return describe_members(self.members, self.probability, self.threshold)

    @property
    def novelty_words(self) -> str:
        """What a recording is like that was not seen before; else empty."""
        if not self.not_seen_before:
            return ""
        unlike = "unlike anything in training"
        return f"{unlike}, most in sensor {self.strangest_sensor}" if self.strangest_sensor else unlike

    @property
    def baseline_words(self) -> str:
        """What to do if the machine has no baseline; else empty."""
        return describe_baseline(self.baseline, self.machine)

    @property
    def trees_words(self) -> str:
        """Why the trees explain the decision; empty if the network does."""
        if self.explained_by == "network":
            return ""
        if not self.members:
            return TREES_ALONE
        return TREES_FOR_NETWORK if self.learned_little else ONLY_TREES_CALL

    @property
    def trust_words(self) -> str:
        """What the verdict on the attention means for a reader; empty without one."""
        return "" if self.trust is None else describe_trust(self.trust.support, self.doubts)

    @property
    def likely_cause(self) -> str | None:
        """The most frequent kind of fault among the nearest known anomalies."""
        return self.resembles[0].kind if self.resembles else None

    @property
    def nearest_words(self) -> str:
        """How many of the nearest known cases are of the likely cause, and what the others are; empty without any."""
        if not self.resembles:
            return ""
        first, *others = self.resembles
        found = f"{first.cases} of {first.of} nearest known cases"
        return f"{found}; others: {', '.join(one.kind for one in others)}" if others else found

    @property
    def no_cell_matters(self) -> bool:
        """Whether making a single cell normal was tested, since attention is no help, and changes no decision."""
        doubtful = self.trust is not None and self.trust.support == "not supported"
        return self.is_anomaly and (doubtful or self.explained_by == "trees") and self.occlusion is None

    @property
    def only_a_guess(self) -> bool:
        """Whether the detector is not shown to be better than guessing."""
        return self.chance_check is not None and self.chance_check.better_than_guessing is False

    @property
    def without_readings(self) -> list[str]:
        """Sensors without a single value."""
        return [one.sensor for one in self.health if one.symptom == "missing" and one.share == 1]

    @property
    def suspected_instrument(self) -> str | None:
        """The highest-ranked of the sensors behind the moments to look at that is itself unhealthy; None if none is."""
        unhealthy = {finding.sensor for finding in self.health}
        behind = {sensor for run in self.marked_runs for sensor in strongest(run).sensors}
        first = largest(self.sensor_ranking, len(self.sensors))
        return next((self.sensors[i] for i in first if self.sensors[i] in behind & unhealthy), None)

    @property
    def places(self) -> Array:
        """The times at which `normal_range` is known, the same number in each segment: (place,)."""
        per_segment = len(self.normal_range) // self.n_segments
        share = (np.arange(per_segment) + 0.5) / per_segment
        return np.asarray((self.segment_bounds[:, :1] + share * np.diff(self.segment_bounds[0])).ravel())

    # ---- output as text and as data ---------------------------------------------------------------------------------

    def summary(self) -> str:
        """Describe the diagnosis in a few sentences."""
        if len(self.without_readings) == len(self.sensors):
            return f"{self.episode_id}: no diagnosis, because no sensor has any readings."
        sentences = [f"{self.episode_id}: {'; '.join(self._verdict_clauses())}."]
        sentences += filter(None, (self.spread_words, self.members_words, self.baseline_words))
        if self.is_anomaly and self.trust is not None:
            sentences.append(f"Attention is {self.trust.support}: {self.trust.reason}.")
        if self.occlusion is not None:
            furthest = int(self.sensor_deviation.argmax())
            sentences.append(
                f"{RANKED_BY_DROP}. Furthest from normal: {self.sensors[furthest]} "
                f"({self.sensor_deviation[furthest]:.1f} times the typical distance)."
            )
        if self.no_cell_matters:
            sentences.append(f"{STILL_BY_DISTANCE}.")
        if self.explained_by == "trees":
            sentences.append(self.trees_words)
        if self.without_readings:
            sentences.append(f"No readings of {', '.join(self.without_readings)}.")
        if self.suspected_instrument is not None:
            sentences.append(f"Instrument fault suspected: {self.suspected_instrument} is {self.symptoms}.")
        if self.chance_check is not None and self.only_a_guess:
            sentences.append(f"But {self.chance_check.sentence}.")
        if self.learned_little and self.explained_by == "network":
            sentences.append(f"{LEARNED_LITTLE}.")
        return " ".join(sentences)

    @property
    def symptoms(self) -> str:
        """The symptoms of the suspected instrument, each with its share of the points."""
        own = (finding for finding in self.health if finding.sensor == self.suspected_instrument)
        return ", ".join(f"{finding.symptom} ({100 * finding.share:.0f} % of its points)" for finding in own)

    @property
    def spread_words(self) -> str:
        """How far the first sensor is from its normal value on this machine; empty if not far, or not compared with it.

        The spread is the distance from the middle to the edge of the range of the machine's normal recordings.
        """
        sensor, machine = self.top_sensors(1)[0], self.compared_with.machine
        level = self.level[sensor.segments[0].segment, self.sensors.index(sensor.sensor)]
        if not machine or abs(level) < FAR_FROM_NORMAL:
            return ""
        times = f"{abs(level):.0f}" if abs(level) < MAX_LEVEL else f"over {MAX_LEVEL:.0f}"
        side = "above" if level > 0 else "below"
        return (
            f"There, {sensor.sensor} lies {times} normal spreads {side} its normal value on {named_machine(machine)}."
        )

    @property
    def leading_words(self) -> str:
        """Words that introduce the first sensor and segment of the ranking."""
        if self.occlusion is not None:
            return "the decision depends most on"
        return "furthest from normal:" if self.stands_out else "nothing stands out; furthest from normal:"

    def _verdict_clauses(self) -> list[str]:
        numbers = f"(probability {self.probability:.3f}, threshold {self.threshold:.3f})"
        if self.not_seen_before:
            clauses = [f"{self.verdict} {numbers}: {self.novelty_words}"]
        else:
            clauses = [f"{'anomalous' if self.is_anomaly else 'not anomalous'} {numbers}"]
        if self.is_anomaly and self.resembles:
            clauses.append(f"resembles {self.likely_cause} ({self.nearest_words})")
        sensor, segment = self.top_sensors(1)[0], self.top_segments(1)[0]
        distance = f"({sensor.value:.1f} times the typical distance, {sensor.direction}) "
        when = self.clock.span(segment.start, segment.end, " to ")
        what = f"sensor {sensor.sensor} {distance if self.occlusion is None else ''}and the time from {when}"
        return [*clauses, f"{self.leading_words} {what}"]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per sensor and segment, with all its scores."""
        segment, sensor = (index.ravel() for index in np.indices(self.deviation.shape))
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
                "drop": np.nan if self.occlusion is None else self.occlusion.ravel(),
                "temporal_relevance": self.temporal_relevance.T.ravel(),
                "spatial_relevance": self.spatial_relevance.ravel(),
                "temporal_relevance_excess": self.excess("temporal_relevance").T.ravel(),
                "spatial_relevance_excess": self.excess("spatial_relevance").ravel(),
            }
        )

    def to_dict(self, n: int = 5, *, raw: bool = False) -> dict[str, Any]:
        """Return plain data for JSON, described by `diagnosis_schema`; with `raw`, also every score of every cell."""
        check = self.chance_check
        content = asdict(
            DiagnosisContent(
                schema_version=DIAGNOSIS_SCHEMA_VERSION,
                episode_id=self.episode_id,
                is_anomaly=self.is_anomaly,
                probability=self.probability,
                members=dict(self.members),
                members_disagree=self.members_disagree,
                machine=self.machine,
                baseline=self.baseline,
                raw_logit=self.raw_logit,
                explained_by=self.explained_by,
                network_logit=self.network_logit,
                threshold=self.threshold,
                verdict=self.verdict,
                novelty=None if np.isnan(self.novelty) else self.novelty,
                strangest_sensor=self.strangest_sensor,
                time_unit=self.clock.unit,
                offset=self.clock.offset,
                started=None if self.clock.start is None else str(self.clock.start.astype("M8[us]")),
                time_zone=self.clock.zone,
                interpretation=self.top_sensors(n),
                segments=self.top_segments(n),
                marked_segments=min(n, len(self.marked_segments)),
                pairs=self.top_pairs(n),
                beyond_band=self.beyond_band,
                resembles=list(self.resembles),
                health=list(self.health),
                compared_with=self.compared_with,
                suspected_instrument=self.suspected_instrument,
                trust=self.trust,
                detector=None if check is None else DetectorCheck(check.better_than_guessing, check.note, check.why),
                ranked_by=self.ranked_by,
                summary=self.summary(),
            )
        )
        del content["raw"]
        return content | {"raw": vars(self._raw_scores())} if raw else content

    def _raw_scores(self) -> RawScores:
        scores: dict[str, Array] = {name: getattr(self, name) for name in SCORES}
        return RawScores(
            sensors=list(self.sensors),
            segment_bounds=nested_lists(self.segment_bounds),
            deviation=nested_lists(self.deviation),
            contribution=nested_lists(self.contribution),
            level=nested_lists(self.level),
            drop=None if self.occlusion is None else nested_lists(self.occlusion),
            places=nested_lists(self.places),
            normal_range=nested_lists(self.normal_range),
            normal={
                name: {
                    "median": nested_lists(np.broadcast_to(self.bands[name].centre, values.shape)),
                    "edge": nested_lists(np.broadcast_to(self.bands[name].edge, values.shape)),
                }
                for name, values in scores.items()
            },
            **{name: nested_lists(values) for name, values in scores.items()},
        )
