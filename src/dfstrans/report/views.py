"""The numbers shown in figures of a diagnosis, shared by the interactive and the print figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.ranking import strongest
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.schema import RankedSegment
from dfstrans.diagnosis.scores import AttentionTrust

Array = npt.NDArray[np.float64]

SIGNALS = 5  # number of sensors shown in large panels
MOST_POINTS = 16_000  # per signal in a large panel
MOST_POINTS_IN_LANE = 2_000  # per signal in a lane, which is a few pixels high


class AttentionView(NamedTuple):
    """An attention matrix and its column sums (the relevance), each with its normal values.

    An edge is the upper edge of the 99 % normal band.

    Shape:
        attention, normal (its median in normal recordings) and attention_edge (query, key);
        relevance and relevance_edge (key,)
    """

    attention: Array
    normal: Array
    attention_edge: Array
    relevance: Array
    relevance_edge: Array

    @property
    def cells_beyond(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return the rows and columns of the weights above their normal band."""
        rows, columns = np.nonzero(self.attention > self.attention_edge)
        return rows, columns

    @property
    def bars_beyond(self) -> npt.NDArray[np.bool_]:
        """Return which relevances are above their normal band."""
        return np.asarray(self.relevance > self.relevance_edge)


def between_moments(diagnosis: Diagnosis) -> AttentionView:
    """Return A^G and a^G: attention between moments, over all sensors."""
    return _view(diagnosis, "global_temporal_attention", "global_temporal_relevance")


def between_sensors(diagnosis: Diagnosis, segment: int | None = None) -> AttentionView:
    """Return B^G and b^G, attention between sensors over all moments, or B^(τ) and b^(τ) for one segment."""
    if segment is None:
        return _view(diagnosis, "global_spatial_attention", "global_spatial_relevance")
    return _view(diagnosis, "spatial_attention", "spatial_relevance", (segment,))


def _view(diagnosis: Diagnosis, matrix: str, sums: str, at: tuple[int, ...] = ()) -> AttentionView:
    return AttentionView(
        getattr(diagnosis, matrix)[at],
        _normal(diagnosis, matrix, "centre")[at],
        _normal(diagnosis, matrix, "edge")[at],
        getattr(diagnosis, sums)[at],
        _normal(diagnosis, sums, "edge")[at],
    )


def _normal(diagnosis: Diagnosis, score: str, what: str) -> Array:
    """Return the centre or the edge of a score's normal band, in the shape of the score."""
    return np.broadcast_to(getattr(diagnosis.bands[score], what), getattr(diagnosis, score).shape)


class Line(NamedTuple):
    """Evenly spaced values: the first at `start`, then one every `step`."""

    start: float
    step: float
    values: npt.NDArray[np.float32]

    @property
    def time(self) -> Array:
        """The time of each value."""
        return self.start + self.step * np.arange(len(self.values), dtype=np.float64)


class Signal(NamedTuple):
    """One sensor's recording, the range of normal recordings, and the most similar normal recording.

    Shape:
        normal_range (time, 2), at `range_times`
    """

    title: str
    line: Line
    normal_range: Array | None
    nearest: Line | None


def signals(diagnosis: Diagnosis, recording: Recording) -> list[Signal]:
    """Return the signals of the top-ranked sensors."""
    nearest, course = recording.nearest, diagnosis.normal_range
    found = []
    for ranked in diagnosis.top_sensors(SIGNALS):
        sensor = diagnosis.sensors.index(ranked.sensor)
        found.append(
            Signal(
                named(ranked.sensor, recording.units[sensor]),
                thinned(recording.episode.values[sensor], recording.step, MOST_POINTS),
                None if course is None else np.pad(course[:, sensor], ((1, 1), (0, 0)), mode="edge"),
                None if nearest is None else thinned(nearest.values[sensor], recording.step, MOST_POINTS),
            )
        )
    return found


def lanes(recording: Recording) -> list[Line]:
    """Scale every sensor into its own lane, the first on top: lane i spans −i to 0.9 − i."""
    found = []
    for lane, values in enumerate(recording.episode.values):
        line = thinned(values, recording.step, MOST_POINTS_IN_LANE)
        low, high = np.fmin.reduce(line.values), np.fmax.reduce(line.values)
        span = high - low if high > low else 1.0
        found.append(line._replace(values=((line.values - low) / span * 0.9 - lane).astype(np.float32)))
    return found


def thinned(values: npt.NDArray[np.floating], step: float, most: int) -> Line:
    """Reduce a signal to at most `most` values: the minimum and maximum of each stretch, so that peaks stay visible."""
    if len(values) <= most:
        return Line(0.0, step, np.asarray(values, dtype=np.float32))
    per = -(-2 * len(values) // most)
    filled = np.full(-(-len(values) // per) * per, np.nan, dtype=np.float32)
    filled[: len(values)] = values
    stretches = filled.reshape(-1, per)
    pairs = np.stack([np.fmin.reduce(stretches, axis=1), np.fmax.reduce(stretches, axis=1)], axis=1)
    return Line((per / 2 - 1) / 2 * step, per / 2 * step, pairs.reshape(-1))


def named(sensor: str, unit: str) -> str:
    """Format a sensor's name with its unit, if known."""
    return f"{sensor} [{unit}]" if unit else sensor


def edges(diagnosis: Diagnosis) -> Array:
    """Return the boundaries between segments: (segment + 1,)."""
    return np.append(diagnosis.segment_bounds[:, 0], diagnosis.segment_bounds[-1, 1])


def range_times(diagnosis: Diagnosis) -> Array:
    """Return the times of `Signal.normal_range`, from the start to the end of the recording."""
    start, end = diagnosis.segment_bounds[0, 0], diagnosis.segment_bounds[-1, 1]
    return np.asarray(np.minimum([start, *diagnosis.places, end], end))


class Span(NamedTuple):
    """Consecutive moments to look at: first and last segment, start and end time, and those of the strongest one.

    `value` is the ranking value of the strongest segment, and `sensors` are those that make it.
    """

    first: int
    last: int
    start: float
    end: float
    value: float
    sensors: tuple[str, ...]

    @property
    def segments(self) -> str:
        """The segment numbers as text."""
        return f"segment {self.first}" if self.first == self.last else f"segments {self.first} – {self.last}"


def spans(diagnosis: Diagnosis) -> list[Span]:
    """Return the moments to look at, with neighbours joined, the highest-ranked first."""
    return spans_of(diagnosis.marked_runs)


def spans_of(runs: list[list[RankedSegment]]) -> list[Span]:
    """Return runs of neighbouring segments, the highest-ranked first."""
    found = []
    for run in runs:
        first, last, top = run[0], run[-1], strongest(run)
        found.append(Span(first.segment, last.segment, first.start, last.end, top.value, tuple(top.sensors)))
    return sorted(found, key=lambda span: -span.value)


class Scale(NamedTuple):
    """The scale of bars and colours: logarithmic from 1 on for distances, linear from 0 on for drops in the score."""

    logarithmic: bool
    limit: float

    def height(self, values: Array) -> Array:
        """Return where values are on the scale, from 0 to `limit`."""
        return np.log10(np.maximum(values, 1)) if self.logarithmic else np.maximum(values, 0)

    def share(self, value: float) -> float:
        """Return the length of a bar, 0 to 1; a little remains visible of the smallest."""
        return max(0.02, float(self.height(np.array(value))) / self.limit)


def ranking_scale(diagnosis: Diagnosis) -> Scale:
    """Return the one scale on which a page shows ranking values."""
    return scale_to(float(diagnosis.sensor_ranking.max()), by_distance=diagnosis.occlusion is None)


def scale_to(largest: float, *, by_distance: bool) -> Scale:
    """Return the scale of ranking values up to the largest one."""
    if by_distance:
        return Scale(True, max(1.0, float(np.log10(max(largest, 1.0)))))
    return Scale(False, max(largest, 1e-6))


def shaded(diagnosis: Diagnosis) -> list[tuple[float, float]]:
    """Return the start and end of each moment to look at, in order of time."""
    return sorted((span.start, span.end) for span in spans(diagnosis))


def ranking_title(diagnosis: Diagnosis) -> str:
    """Return the name of the ranking value."""
    return "distance from normal" if diagnosis.occlusion is None else "drop in score"


def chosen_moments(diagnosis: Diagnosis) -> dict[int, str]:
    """Return the segments whose B^(τ) is shown, with titles: the two top-ranked and, to compare, the last-ranked."""
    top = [moment.segment for moment in diagnosis.top_segments(2)]
    quiet = int(diagnosis.segment_ranking.argmin())
    bounds = diagnosis.segment_bounds.tolist()
    when = [diagnosis.clock.span(start, end, within=bounds[-1][1]) for start, end in bounds]
    return {segment: f"segment {segment}: {when[segment]}" for segment in dict.fromkeys([*top, quiet])}


class RelevanceCourse(NamedTuple):
    """One sensor's local temporal relevance a^(s) over its recording, with the edge of its normal band.

    Shape:
        centre (the middle of each segment in time), relevance and edge (segment,)
    """

    episode_id: str
    is_anomaly: bool
    line: Line
    centre: Array
    relevance: Array
    edge: Array
    time_title: str


def relevance_courses(shown: Sequence[tuple[Diagnosis, Recording]], sensor: str) -> list[RelevanceCourse]:
    """Return one sensor's local temporal relevance in several episodes."""
    found = []
    for diagnosis, recording in shown:
        row = diagnosis.sensors.index(sensor)
        found.append(
            RelevanceCourse(
                diagnosis.episode_id,
                diagnosis.is_anomaly,
                thinned(recording.episode.values[row], recording.step, MOST_POINTS),
                diagnosis.segment_bounds.mean(axis=1),
                diagnosis.temporal_relevance[row],
                _normal(diagnosis, "temporal_relevance", "edge")[row],
                recording.time_title,
            )
        )
    return found


def trust_boxes(trust: AttentionTrust, kinds: Sequence[str]) -> dict[str, dict[str, Array]]:
    """Return AT_k and its controls by kind of fault ("" if unknown); random controls are averaged over draws.

    Shape:
        by kind, then by "top", "random" and "bottom": (episode, k)
    """
    values = {"top": trust.top, "random": trust.random.mean(axis=2), "bottom": trust.bottom}
    names = np.array(kinds)
    return {kind: {which: one[names == kind] for which, one in values.items()} for kind in sorted(set(kinds))}
