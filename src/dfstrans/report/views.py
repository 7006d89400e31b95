"""What the pictures of a diagnosis show, as plain numbers: shared by those for the screen and those for print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.diagnosis import Diagnosis, in_time
from dfstrans.diagnosis.recordings import Recording
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from dfstrans.diagnosis.trust import AttentionTrust


Array = npt.NDArray[np.float64]


class AttentionView(NamedTuple):
    """A matrix whose rows attend to its columns, its column sums, and of each the edge of the 99 % normal band.

    Unknown (NaN) edges are those of scores whose band the model does not keep.

    Shape:
        attention, usual (the normal median) and attention_edge (query, key); relevance and relevance_edge (key,)
    """

    attention: Array
    usual: Array
    attention_edge: Array
    relevance: Array
    relevance_edge: Array

    @property
    def cells_beyond(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns of the weights above their normal band."""
        rows, columns = np.nonzero(self.attention > self.attention_edge)
        return rows, columns

    @property
    def bars_beyond(self) -> npt.NDArray[np.bool_]:
        """Which relevances are above their normal band."""
        return np.asarray(self.relevance > self.relevance_edge)


def between_moments(diagnosis: Diagnosis) -> AttentionView:
    """A^G and a^G: how moments attend to one another, over all sensors."""
    return _view(diagnosis, "global_temporal_attention", "global_temporal_relevance", ())


def between_sensors(diagnosis: Diagnosis, segment: int | None = None) -> AttentionView:
    """B^G and b^G: how sensors attend to one another, over all moments; B^(τ) and b^(τ) at one of them."""
    if segment is None:
        return _view(diagnosis, "global_spatial_attention", "global_spatial_relevance", ())
    return _view(diagnosis, "spatial_attention", "spatial_relevance", (segment,))


def relevance_edge(diagnosis: Diagnosis, sensor: int) -> Array:
    """The edge of the normal band of a^(s), one sensor's temporal relevance: (segment,); NaN where it is not kept."""
    return _of_band(diagnosis, "temporal_relevance", "edge", (sensor,))


def _view(diagnosis: Diagnosis, matrix: str, sums: str, at: tuple[int, ...]) -> AttentionView:
    return AttentionView(
        getattr(diagnosis, matrix)[at],
        _of_band(diagnosis, matrix, "centre", at),
        _of_band(diagnosis, matrix, "edge", at),
        getattr(diagnosis, sums)[at],
        _of_band(diagnosis, sums, "edge", at),
    )


def _of_band(diagnosis: Diagnosis, score: str, what: str, at: tuple[int, ...]) -> Array:
    band, shape = diagnosis.bands.get(score), getattr(diagnosis, score).shape
    return np.asarray(np.broadcast_to(np.nan if band is None else getattr(band, what), shape)[at])


Floats = npt.NDArray[np.float32]
SIGNALS = 4  # sensors whose signals are shown large
MOMENTS = 5  # that are marked, at most
BESIDE_STRONGEST = 1 / 3  # of the strongest moment's place in the ranking; weaker ones are not marked beside it
MOST_POINTS = 16_000  # of a signal that is shown large
MOST_POINTS_IN_LANE = 2_000  # of one among many, a few pixels high


class Line(NamedTuple):
    """Values at even distances: the first at `start`, then one every `step`."""

    start: float
    step: float
    values: Floats

    @property
    def time(self) -> Array:
        """When each value was taken."""
        return self.start + self.step * np.arange(len(self.values), dtype=np.float64)


class Band(NamedTuple):
    """Where normal recordings run, a step per segment: `edges` (segment + 1,), `low` and `high` (segment,)."""

    edges: Array
    low: Array
    high: Array


class Signal(NamedTuple):
    """One sensor's recording, where normal ones run, and a normal one like it."""

    title: str
    line: Line
    usual: Band | None
    nearest: Line | None


class RelevanceCourse(NamedTuple):
    """How much each moment of one sensor acts on its others, a^(s)_τ, over the recording itself."""

    episode_id: str
    is_anomaly: bool
    line: Line
    centre: Array
    relevance: Array
    edge: Array  # of its normal band; NaN where the model keeps none
    time_title: str


class Span(NamedTuple):
    """Moments of the ranking that follow one another: their segments, start and end, and how far from normal.

    `loss`, where the ranking is made by occlusion, is what the logit loses at the first of them.
    """

    first: int
    last: int
    start: float
    end: float
    deviation: float
    loss: float | None

    @property
    def segments(self) -> str:
        """Their numbers, in words."""
        return f"segment {self.first}" if self.first == self.last else f"segments {self.first} – {self.last}"


def thinned(values: npt.NDArray[np.floating], step: float, most: int) -> Line:
    """Values for the eye: of each stretch its smallest and its largest, so that nothing that is short gets lost."""
    if len(values) <= most:
        return Line(0.0, step, np.asarray(values, dtype=np.float32))
    per = -(-2 * len(values) // most)
    filled = np.full(-(-len(values) // per) * per, np.nan, dtype=np.float32)
    filled[: len(values)] = values
    stretches = filled.reshape(-1, per)
    pairs = np.stack([np.fmin.reduce(stretches, axis=1), np.fmax.reduce(stretches, axis=1)], axis=1)
    return Line((per / 2 - 1) / 2 * step, per / 2 * step, pairs.reshape(-1))


def signals(diagnosis: Diagnosis, recording: Recording, n: int = SIGNALS) -> list[Signal]:
    """The recordings of the first sensors of the ranking."""
    return [signal(diagnosis, recording, diagnosis.sensors.index(ranked.sensor)) for ranked in diagnosis.top_sensors(n)]


def signal(diagnosis: Diagnosis, recording: Recording, sensor: int) -> Signal:
    """One sensor's recording with what to compare it with."""
    nearest, course = recording.nearest, diagnosis.usual_course
    return Signal(
        named(diagnosis.sensors[sensor], recording.units[sensor]),
        thinned(recording.episode.values[sensor], recording.step, MOST_POINTS),
        None if course is None else Band(edges(diagnosis), course[:, sensor, 0], course[:, sensor, 1]),
        None if nearest is None else thinned(nearest.values[sensor], recording.step, MOST_POINTS),
    )


def named(sensor: str, unit: str) -> str:
    """A sensor with its unit, where one is known."""
    return f"{sensor} [{unit}]" if unit else sensor


def lanes(recording: Recording) -> list[Line]:
    """Every sensor in a lane of its own, the first on top: lane i runs from −i to 0.9 − i."""
    found = []
    for lane, values in enumerate(recording.episode.values):
        line = thinned(values, recording.step, MOST_POINTS_IN_LANE)
        low, high = np.fmin.reduce(line.values), np.fmax.reduce(line.values)
        span = high - low if high > low else 1.0
        found.append(line._replace(values=((line.values - low) / span * 0.9 - lane).astype(np.float32)))
    return found


def edges(diagnosis: Diagnosis) -> Array:
    """Where one segment ends and the next begins: (segment + 1,)."""
    return np.append(diagnosis.segment_bounds[:, 0], diagnosis.segment_bounds[-1, 1])


def spans(diagnosis: Diagnosis) -> list[Span]:
    """The moments to look at, neighbours joined; the one with the highest place first."""
    found: list[list[int]] = []
    strength = diagnosis.ranking.max(axis=1)
    first = (moment.segment for moment in diagnosis.top_segments(MOMENTS))
    for segment in sorted(t for t in first if strength[t] >= BESIDE_STRONGEST * strength.max()):
        if found and found[-1][-1] == segment - 1:
            found[-1].append(segment)
        else:
            found.append([segment])
    bounds = diagnosis.segment_bounds
    found.sort(key=lambda segments: -float(strength[segments].max()))
    return [
        Span(
            segments[0],
            segments[-1],
            float(bounds[segments[0], 0]),
            float(bounds[segments[-1], 1]),
            float(diagnosis.segment_deviation[segments].max()),
            None if diagnosis.occlusion is None else float(strength[segments].max()),
        )
        for segments in found
    ]


def shaded(diagnosis: Diagnosis) -> list[tuple[float, float]]:
    """From when to when the moments to look at are, in the order of time."""
    return sorted((span.start, span.end) for span in spans(diagnosis))


def worst_moment(diagnosis: Diagnosis, sensor: str) -> tuple[float, float]:
    """When a sensor is highest in the ranking: start and end."""
    start, end = diagnosis.segment_bounds[int(diagnosis.ranking[:, diagnosis.sensors.index(sensor)].argmax())]
    return float(start), float(end)


def ranking_title(diagnosis: Diagnosis) -> str:
    """What the ranking measures."""
    return "distance from normal" if diagnosis.occlusion is None else "what the decision loses"


def chosen_moments(diagnosis: Diagnosis, segments: Sequence[int] | None = None) -> dict[int, str]:
    """Segments whose B^(τ) is shown, with a title each: the two first of the ranking, and the last for comparison."""
    if segments is None:
        first = [moment.segment for moment in diagnosis.top_segments(2)]
        quiet = int(diagnosis.ranking.max(axis=1).argmin())
        segments = list(dict.fromkeys([*first, quiet]))
    wrong = [segment for segment in segments if not 0 <= segment < len(diagnosis.segment_bounds)]
    if wrong:
        raise DfstransError(
            f"expected segments from 0 to {len(diagnosis.segment_bounds) - 1}, got {', '.join(map(str, wrong))}; "
            "correct them"
        )
    return {
        segment: f"segment {segment}: {in_time(start, end, diagnosis.time_unit)}"
        for segment in segments
        for start, end in [diagnosis.segment_bounds[segment]]
    }


def relevance_courses(shown: Sequence[tuple[Diagnosis, Recording]], sensor: str) -> list[RelevanceCourse]:
    """One sensor's local temporal relevance in several episodes, with the recordings."""
    found = []
    for diagnosis, recording in shown:
        if sensor not in diagnosis.sensors:
            raise DfstransError(
                f"expected one of the sensors {', '.join(diagnosis.sensors)}, got {sensor!r}; correct it"
            )
        row = diagnosis.sensors.index(sensor)
        found.append(
            RelevanceCourse(
                diagnosis.episode_id,
                diagnosis.is_anomaly,
                thinned(recording.episode.values[row], recording.step, MOST_POINTS),
                diagnosis.segment_bounds.mean(axis=1),
                diagnosis.temporal_relevance[row],
                relevance_edge(diagnosis, row),
                recording.time_title,
            )
        )
    return found


def edge_beside(courses: Sequence[RelevanceCourse]) -> tuple[Array, Array]:
    """Time and edge of the normal band that courses drawn over one another share: that of the length most of them have.

    Nothing where the model keeps no band.
    """
    lengths = [len(course.edge) for course in courses]
    usual = courses[lengths.index(max(lengths, key=lengths.count))]
    known = ~np.isnan(usual.edge)
    return usual.centre[known], usual.edge[known]


def trust_boxes(trust: AttentionTrust, kinds: Sequence[str]) -> dict[str, dict[str, Array]]:
    """AT_k of each episode and its controls, by kind of fault ("" where it is not known).

    A random control is the mean over an episode's draws.

    Shape:
        by kind and by "top", "random", "bottom": (episode, k)
    """
    values = {"top": trust.top, "random": trust.random.mean(axis=2), "bottom": trust.bottom}
    names = np.array(kinds)
    return {kind: {which: one[names == kind] for which, one in values.items()} for kind in sorted(set(kinds))}
