"""`Diagnosis`: what an episode's attention says about sensors and moments, compared with normal episodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.causes import Resemblance, resembling
from dfstrans.diagnosis.scores import (
    global_spatial_relevance,
    global_temporal_relevance,
    spatial_relevance,
    temporal_relevance,
)

if TYPE_CHECKING:
    from dfstrans.diagnoser import Diagnoser

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Relevances:
    """Three of the diagnostic scores of an episode, or their median over normal episodes.

    Shape:
        sensor (n_sensors,), segment (n_segments,), cell (n_segments, n_sensors)
    """

    sensor: Array
    segment: Array
    cell: Array


@dataclass(frozen=True)
class Diagnosis:
    """One episode: how anomalous, and which sensors and moments are attended to more than in normal episodes.

    An excess is a relevance minus its median over normal episodes: 0 means "as always".
    """

    episode_id: str
    probability: float
    is_anomaly: bool
    sensors: tuple[str, ...]
    segment_bounds: Array  # (n_segments, 2): start and end, in points or in the time unit of the sampling interval
    excess: Relevances
    resembles: tuple[Resemblance, ...] = ()  # kinds of the nearest known anomalies, where some are known

    @property
    def top_sensor(self) -> str:
        """The sensor with the largest excess."""
        return self.sensors[int(self.excess.sensor.argmax())]

    @property
    def top_segment(self) -> int:
        """The segment with the largest excess, counted from 0."""
        return int(self.excess.segment.argmax())

    @property
    def likely_cause(self) -> str | None:
        """The kind of fault that most of the nearest known anomalies had."""
        return self.resembles[0].kind if self.resembles else None

    def summary(self) -> str:
        """One sentence in plain words."""
        start, end = self.segment_bounds[self.top_segment]
        verdict = "anomalous" if self.is_anomaly else "not anomalous"
        cases = [f"{kind} ({n} of {of} nearest known cases)" for kind, n, of in self.resembles[:1] if self.is_anomaly]
        return (
            f"{self.episode_id}: {verdict} (probability {self.probability:.2f}); "
            + "".join(f"resembles {case}; " for case in cases)
            + f"attention is drawn most to sensor {self.top_sensor} and to the time from {start:g} to {end:g}"
        )


def diagnose(
    detector: Diagnoser, episodes: Episodes, normal: Episodes, known: Episodes | None = None
) -> list[Diagnosis]:
    """Diagnose each episode against normal ones and, when there are any, against `known` anomalies with their kinds."""
    probabilities = detector.predict_proba(episodes)[:, 1]
    usual = _medians(relevances(detector, normal))
    resembles = _resemblances(detector, episodes, known)
    found = []
    for row, own in enumerate(relevances(detector, episodes)):
        reference = usual.get(len(own.segment), Relevances(np.array(1.0), np.array(1.0), np.array(1.0)))
        length = detector.network_settings_.segment_length
        starts = np.arange(len(own.segment)) * length
        bounds = np.stack([starts, np.minimum(starts + length, episodes.lengths[row])], axis=1)
        found.append(
            Diagnosis(
                episode_id=str(episodes.ids[row]),
                probability=float(probabilities[row]),
                is_anomaly=bool(probabilities[row] >= detector.threshold_.value),
                sensors=detector.sensors_,
                segment_bounds=bounds * (episodes.interval or 1),
                excess=Relevances(
                    own.sensor - reference.sensor, own.segment - reference.segment, own.cell - reference.cell
                ),
                resembles=resembles[row],
            )
        )
    return found


def relevances(detector: Diagnoser, episodes: Episodes) -> list[Relevances]:
    """The relevances of each episode, from the last layer's attention, heads averaged."""
    found = []
    for forward in detector.forward(episodes, return_attention=True):
        assert forward.attention is not None  # it was asked for
        temporal, spatial = (weights[:, -1].mean(dim=2).double().numpy() for weights in forward.attention)
        for a, b in zip(temporal, spatial, strict=True):
            there = int((b.sum(axis=(1, 2)) > 0).sum())  # padded segments carry no attention
            a, b = a[:, :there, :there], b[:there]
            moment = global_temporal_relevance(a)
            cell = temporal_relevance(a).T * spatial_relevance(b)
            found.append(Relevances(global_spatial_relevance(b, moment), moment, cell))
    return found


def _resemblances(detector: Diagnoser, episodes: Episodes, known: Episodes | None) -> list[tuple[Resemblance, ...]]:
    kinds = [] if known is None else known.fault_kinds()
    rows = [row for row, kind in enumerate(kinds) if kind]
    if known is None or not rows:
        return [()] * len(episodes)
    features, cases = (
        np.concatenate([forward.features.double().numpy() for forward in detector.forward(part)])
        for part in (episodes, known[rows])
    )
    return resembling(features, cases, [kinds[row] for row in rows])


def _medians(all_relevances: list[Relevances]) -> dict[int, Relevances]:
    """The median of each score over episodes with the same number of segments."""
    alike: dict[int, list[Relevances]] = defaultdict(list)
    for one in all_relevances:
        alike[len(one.segment)].append(one)
    return {
        n: Relevances(
            np.median([one.sensor for one in group], axis=0),
            np.median([one.segment for one in group], axis=0),
            np.median([one.cell for one in group], axis=0),
        )
        for n, group in alike.items()
    }
