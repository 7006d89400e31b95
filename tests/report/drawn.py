"""A diagnosis made by hand, to be drawn."""

from __future__ import annotations

import numpy as np

from dfstrans.data.episodes import Episode, Fault
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.schema import ComparedWith, HealthFinding, TrustVerdict
from dfstrans.diagnosis.scores import SCORES, AttentionScores, NormalBand


def bands_with(scores: AttentionScores, **excess: np.ndarray) -> dict[str, NormalBand]:
    """Bands of width 0.1 that scores exceed by so many widths (0 unless given), by the name of the score."""
    shape = {name: np.zeros_like(getattr(scores, name)) for name in SCORES}
    return {
        name: NormalBand(getattr(scores, name) - 0.1 * (shape[name] + excess.get(name, 0)), shape[name] + 0.1, 1e-3)
        for name in SCORES
    }


def made_diagnosis(
    n_sensors: int = 4,
    n_segments: int = 6,
    segment_length: int = 10,
    *,
    probability: float = 0.9,
    strange: tuple[int, int] = (3, 1),
    name: str = "run <1>",
) -> tuple[Diagnosis, Recording]:
    """A diagnosis whose strangest cell is `strange` (segment, sensor), with its recording, a point every 0.5."""
    random = np.random.default_rng(0)
    t, s = n_segments, n_sensors
    temporal, spatial = random.random((s, t, t)), random.random((t, s, s))
    scores = AttentionScores(
        temporal / temporal.sum(axis=-1, keepdims=True), spatial / spatial.sum(axis=-1, keepdims=True)
    )
    contribution, level = random.normal(size=(2, t, s))
    deviation = 1 + random.random((t, s))
    deviation[strange] = 40
    pair_excess = random.random((t, s, s))
    pair_excess[strange[0], 0, strange[1]] = 3
    starts = np.arange(t) * segment_length
    sensors = tuple(f"S{i}" for i in range(s))
    diagnosis = Diagnosis(
        scores.temporal_attention,
        scores.spatial_attention,
        episode_id=name,
        probability=probability,
        raw_logit=1.0,
        network_logit=1.0,
        members={"network": 0.9, "trees": 0.8},
        threshold=0.5,
        sensors=sensors,
        segment_bounds=np.stack([starts, starts + segment_length], axis=1) * 0.5,
        deviation=deviation,
        contribution=contribution,
        level=level,
        bands=bands_with(
            scores,
            global_spatial_relevance=np.linspace(0.5, 1.5, s),
            global_temporal_relevance=np.where(np.arange(t) // 2 == strange[0] // 2, 2.0, 0.5),
            spatial_attention=pair_excess,
            spatial_relevance=np.where(np.arange(t * s).reshape(t, s) == strange[0] * s, 2.0, 0.5),
            temporal_relevance=np.full((s, t), 0.5),
            global_temporal_attention=np.eye(t) * 2,
            global_spatial_attention=np.eye(s) * 2,
        ),
        clock=Clock("s"),
        health=(HealthFinding("S2", "stuck", 0.4, 0.01),),
        trust=TrustVerdict("supported", "the logit falls", 5.0, 3.0, 0.1, 1.0),
        compared_with=ComparedWith("", 30, ""),
        normal_range=np.stack([np.full((t, s), -2.0), np.full((t, s), 2.0)], axis=-1),
    )
    values = random.normal(size=(s, t * segment_length)).astype(np.float32)
    fault = Fault(segment_length, 2 * segment_length, (sensors[0],), "bump")
    episode = Episode(name, values, 1, None, (fault,))
    nearest = Episode("normal_1", np.zeros_like(values), 0, None, ())
    return diagnosis, Recording(episode, 0.5, ("m", *[""] * (s - 1)), nearest, time_unit="s")
