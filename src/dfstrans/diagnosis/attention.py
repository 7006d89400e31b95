"""The attention of an episode compared with normal: sensors, segments and pairs above their normal band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from dfstrans.diagnosis.schema import BeyondBand, RankedPair
from dfstrans.diagnosis.scores import Array, AttentionScores, NormalBand, largest, runs
from dfstrans.errors import DfstransError

MAX_CHANGED_PAIRS = 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)  # arrays make == ambiguous and repr long
class ComparedAttention(AttentionScores):
    """The eight scores of an episode, each with its normal band.

    Shape:
        segment_bounds (segment, 2), start and end; the eight scores as in `AttentionScores`
    """

    sensors: tuple[str, ...]
    segment_bounds: Array
    bands: Mapping[str, NormalBand]  # normal band of each of the eight scores, by name

    def excess(self, score: str) -> Array:
        """Return how far one of the eight scores is above normal, in its shape: 0 is the normal median, 1 the edge."""
        return self.bands[score].excess(getattr(self, score))

    def top_pairs(self, n: int = 3) -> list[RankedPair]:
        """Return the sensor pairs with attention furthest above the normal band, each in its most unusual segment."""
        excess = self.excess("spatial_attention")
        highest = excess.max(axis=0)
        np.fill_diagonal(highest, -np.inf)
        return [
            RankedPair(self.sensors[q], self.sensors[k], int(excess[:, q, k].argmax()), float(highest[q, k]))
            for q, k in zip(*np.unravel_index(largest(highest.ravel(), n), highest.shape), strict=True)
            if np.isfinite(highest[q, k])
        ]

    @cached_property
    def changed_pairs(self) -> list[RankedPair]:
        """Return the top pairs that are beyond their normal band."""
        return [pair for pair in self.top_pairs(MAX_CHANGED_PAIRS) if pair.excess > 1]

    @cached_property
    def beyond_band(self) -> list[BeyondBand]:
        """Return attention above its 99 % normal band: sensors, then segments, then pairs, the furthest first.

        A pair is listed with the consecutive segments around its most unusual one.
        """
        by_sensor = self.excess("global_spatial_relevance").tolist()
        by_segment, by_pair = self.excess("global_temporal_relevance"), self.excess("spatial_attention")
        sensors = [
            self._beyond_band((name,), (0, self.n_segments - 1), excess)
            for name, excess in zip(self.sensors, by_sensor, strict=True)
            if excess > 1
        ]
        segments = [
            self._beyond_band((), run, float(by_segment[run[0] : run[1] + 1].max())) for run in runs(by_segment > 1)
        ]
        pairs = []
        for pair in self.changed_pairs:
            names = pair.query_sensor, pair.key_sensor
            course = by_pair[:, self.sensors.index(names[0]), self.sensors.index(names[1])]
            around = next(run for run in runs(course > 1) if run[0] <= pair.segment <= run[1])
            pairs.append(self._beyond_band(names, around, pair.excess))
        return [one for found in (sensors, segments, pairs) for one in sorted(found, key=lambda one: -one.excess)]

    def _beyond_band(self, sensors: tuple[str, ...], run: tuple[int, int], excess: float) -> BeyondBand:
        first, last = run
        when = f"segment {first}" if first == last else f"segments {first}-{last}"
        names = "-".join(sensors)
        what = (f"relevance of {when}", f"relevance of {names}", f"{names} coupling in {when}")[len(sensors)]
        sentence = f"{what} is above its 99 % normal band ({excess:.1f} times the edge)"
        start, end = float(self.segment_bounds[first, 0]), float(self.segment_bounds[last, 1])
        return BeyondBand(sensors, first, last, start, end, excess, sentence)

    def related_sensors(self, sensor: str, segment: int) -> pd.DataFrame:
        """Return the attention of a sensor to the others in a segment: its row of B^(τ), the largest first, by sensor.

        Columns: the attention, its normal median and its excess (1 is the edge of the 99 % band).
        """
        row = self._check_segment(segment), self._check_sensor(sensor)
        return self._compare_with_normal("spatial_attention", row, pd.Index(self.sensors, name="sensor"))

    def triggers(self, sensor: str, segment: int) -> pd.DataFrame:
        """Return the attention of a segment to the others of a sensor: its row of A^(s), the largest first, by segment.

        Columns as in `related_sensors`.
        """
        row = self._check_sensor(sensor), self._check_segment(segment)
        return self._compare_with_normal("temporal_attention", row, pd.RangeIndex(self.n_segments, name="segment"))

    def _compare_with_normal(self, score: str, row: tuple[int, int], index: pd.Index) -> pd.DataFrame:
        attention = getattr(self, score)
        normal = np.broadcast_to(self.bands[score].centre, attention.shape)
        columns = {"attention": attention[row], "normal": normal[row], "excess": self.excess(score)[row]}
        return pd.DataFrame(columns, index=index).sort_values("attention", ascending=False, kind="stable")

    def _check_sensor(self, sensor: str) -> int:
        if sensor not in self.sensors:
            raise DfstransError(f"expected one of the sensors {', '.join(self.sensors)}, got {sensor!r}; correct it")
        return self.sensors.index(sensor)

    def _check_segment(self, segment: int) -> int:
        if not isinstance(segment, int | np.integer) or not 0 <= segment < self.n_segments:
            raise DfstransError(f"expected a segment from 0 to {self.n_segments - 1}, got {segment!r}; correct it")
        return segment
