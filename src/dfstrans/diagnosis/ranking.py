"""The ranking of sensors and segments: by distance from normal, or by how far the logit drops without a cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dfstrans.diagnosis.attention import ComparedAttention
from dfstrans.diagnosis.schema import RankedSegment, RankedSensor
from dfstrans.diagnosis.scores import Array, largest, rank_segments, rank_sensors

SEGMENTS_PER_SENSOR = 3
STANDS_OUT = 1.5  # times the typical distance from normal
BESIDE_STRONGEST = 1 / 3  # of the strongest ranking value; weaker sensors and moments are not named beside it
MATERIAL_DROP = 0.25  # of the logit: the odds fall by a fifth; a smaller drop is no sign of a cause
MOST_MARKED = 5  # moments to look at
MOST_LEADING = 3  # maximum number of sensors named for a segment


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)  # arrays make == ambiguous and repr long
class RankedCells(ComparedAttention):
    """The cells of an episode, each sensor in each segment, and the sensors and segments ranked by them.

    Shape:
        deviation, contribution, level, occlusion (segment, sensor)
    """

    network_logit: float | None  # `contribution` is a part of it; None if trees decide alone, without attention (NaN)
    deviation: Array  # distance from normal, 1 is typical; see `NormalReference.deviation`
    contribution: Array  # to the logit, beyond the normal contribution
    level: Array  # of the values in their normal range; see `level_in_range`
    occlusion: Array | None = None  # drop in the logit when a cell is made normal; see `ranking`

    @property
    def ranking(self) -> Array:
        """The values that rank sensors and segments: deviation, or occlusion if attention is not supported."""
        return self.deviation if self.occlusion is None else self.occlusion

    @cached_property
    def sensor_ranking(self) -> Array:
        """What sensors are ranked by, each in its most prominent segment: (sensor,)."""
        return rank_sensors(self.ranking)

    @cached_property
    def segment_ranking(self) -> Array:
        """What segments are ranked by, each by its most prominent sensor: (segment,)."""
        return rank_segments(self.ranking)

    @property
    def ranked_by(self) -> Literal["deviation", "occlusion"]:
        """The name of the ranking values."""
        return "deviation" if self.occlusion is None else "occlusion"

    @cached_property
    def sensor_deviation(self) -> Array:
        """Distance from normal of each sensor in its most deviating segment: (sensor,)."""
        return rank_sensors(self.deviation)

    @cached_property
    def segment_deviation(self) -> Array:
        """Distance from normal of each segment in its most deviating sensor: (segment,)."""
        return rank_segments(self.deviation)

    @property
    def top_sensor(self) -> str:
        """The first sensor of the ranking."""
        return self.sensors[int(self.sensor_ranking.argmax())]

    @property
    def top_segment(self) -> int:
        """The first segment of the ranking, counted from 0."""
        return int(self.segment_ranking.argmax())

    @property
    def stands_out(self) -> bool:
        """Whether the ranking is by distance from normal and some sensor is clearly further than is typical."""
        return self.occlusion is None and bool(self.sensor_deviation.max() >= STANDS_OUT)

    def top_sensors(self, n: int = 3) -> list[RankedSensor]:
        """The first sensors of the ranking."""
        return [self._ranked_sensor(int(sensor)) for sensor in largest(self.sensor_ranking, n)]

    def top_segments(self, n: int = 3) -> list[RankedSegment]:
        """The first segments of the ranking."""
        return [self._ranked_segment(int(segment)) for segment in largest(self.segment_ranking, n)]

    @cached_property
    def marked_segments(self) -> list[RankedSegment]:
        """The fewest segments that carry half of the evidence, at most five, none far weaker than the strongest.

        The evidence of a segment is its ranking value beyond what is typical: 1 for a distance, 0 for a drop in the
        score.
        """
        typical = 1.0 if self.occlusion is None else 0.0
        half = float(np.maximum(self.segment_ranking - typical, 0).sum()) / 2
        first, *others = self.top_segments(MOST_MARKED)
        found, carried = [first], max(first.value - typical, 0.0)
        for moment in others:
            if carried >= half or moment.value < self._least_beside(first.value):
                break
            found.append(moment)
            carried += moment.value - typical
        return found

    @property
    def marked_runs(self) -> list[list[RankedSegment]]:
        """The marked segments in order of time, neighbours together; the strongest of a run makes its number."""
        return runs_of(self.marked_segments)

    def _ranked_sensor(self, sensor: int) -> RankedSensor:
        name, segments = self.sensors[sensor], largest(self.ranking[:, sensor], SEGMENTS_PER_SENSOR)
        value = float(self.sensor_ranking[sensor])
        return RankedSensor(
            name,
            float(self.sensor_deviation[sensor]),
            None if self.network_logit is None else float(self.contribution[:, sensor].sum()),
            _direction(self.level[segments[0], sensor]),
            None if self.occlusion is None else value,
            [self._ranked_cell(int(segment), sensor) for segment in segments],
            [pair for pair in self.changed_pairs if name in (pair.query_sensor, pair.key_sensor)],
            value,
            self.occlusion is None or value >= MATERIAL_DROP,
        )

    def _ranked_segment(self, segment: int) -> RankedSegment:
        """Describe a segment over all sensors."""
        deviation, value = self.segment_deviation[segment], self.segment_ranking[segment]
        return self._describe(segment, deviation, value, self._leading_sensors(segment))

    def _ranked_cell(self, segment: int, sensor: int) -> RankedSegment:
        """Describe a segment of one sensor."""
        at = segment, sensor
        return self._describe(segment, self.deviation[at], self.ranking[at], [self.sensors[sensor]])

    def _describe(self, segment: int, deviation: float, value: float, sensors: list[str]) -> RankedSegment:
        start, end = map(float, self.segment_bounds[segment])
        drop = None if self.occlusion is None else float(value)
        return RankedSegment(segment, start, end, float(deviation), drop, float(value), sensors)

    def _leading_sensors(self, segment: int) -> list[str]:
        """Return the sensor that makes the number of a segment, and those that come near it and stand out, too."""
        values = self.ranking[segment]
        least = max(self._least_beside(values.max()), STANDS_OUT if self.occlusion is None else 0.0)
        first, *others = largest(values, MOST_LEADING)
        return [self.sensors[sensor] for sensor in (first, *(other for other in others if values[other] >= least))]

    def _least_beside(self, strongest: float) -> float:
        """Return the smallest ranking value of what is named beside the strongest."""
        return max(BESIDE_STRONGEST * strongest, 0.0 if self.occlusion is None else MATERIAL_DROP)


def runs_of(moments: list[RankedSegment]) -> list[list[RankedSegment]]:
    """Return segments in order of time, neighbours together."""
    runs: list[list[RankedSegment]] = []
    for moment in sorted(moments, key=lambda one: one.segment):
        if runs and runs[-1][-1].segment == moment.segment - 1:
            runs[-1].append(moment)
        else:
            runs.append([moment])
    return runs


def _direction(level: float) -> Literal["higher than normal", "lower than normal", "another shape"]:
    if level > 1:
        return "higher than normal"
    return "lower than normal" if level < -1 else "another shape"


def strongest(run: list[RankedSegment]) -> RankedSegment:
    """Return the highest-ranked of several segments."""
    return max(run, key=lambda one: one.value)
