"""A diagnosis made by hand, to be drawn."""

from __future__ import annotations

import numpy as np

from dfstrans.data.episodes import Episode, Fault
from dfstrans.diagnosis.bands import Usual
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.health import Finding
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.scores import EpisodeScores
from dfstrans.diagnosis.trust import Verdict


def bands_with(scores: EpisodeScores, **excess: np.ndarray) -> dict[str, Usual]:
    """Bands of width 0.1 that scores exceed by so many widths, by the name of the score."""
    return {
        name: Usual(getattr(scores, name) - 0.1 * values, np.full_like(values, 0.1, dtype=np.float64), 1e-3)
        for name, values in excess.items()
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
    scores = EpisodeScores(
        logit=1.0,
        temporal=temporal / temporal.sum(axis=-1, keepdims=True),
        spatial=spatial / spatial.sum(axis=-1, keepdims=True),
        embedding=np.zeros((t, s, 2)),
        encoding=np.zeros((t, 2)),
        contribution=random.normal(size=(t, s)),
        level=random.normal(size=(t, s)),
        features=np.ones(2),
    )
    deviation = 1 + random.random((t, s))
    deviation[strange] = 40
    pair_excess = random.random((t, s, s))
    pair_excess[strange[0], 0, strange[1]] = 3
    starts = np.arange(t) * segment_length
    sensors = tuple(f"S{i}" for i in range(s))
    diagnosis = Diagnosis(
        episode_id=name,
        probability=probability,
        threshold=0.5,
        sensors=sensors,
        segment_bounds=np.stack([starts, starts + segment_length], axis=1) * 0.5,
        scores=scores,
        deviation=deviation,
        contribution=scores.contribution,
        level=scores.level,
        bands=bands_with(
            scores,
            sensor=np.linspace(0.5, 1.5, s),
            segment=np.where(np.arange(t) // 2 == strange[0] // 2, 2.0, 0.5),
            spatial=pair_excess,
            spatial_relevance=np.where(np.arange(t * s).reshape(t, s) == strange[0] * s, 2.0, 0.5),
            temporal_relevance=np.full((s, t), 0.5),
            global_temporal=np.eye(t) * 2,
            global_spatial=np.eye(s) * 2,
            temporal=np.zeros((s, t, t)),
        ),
        time_unit="s",
        health=(Finding("S2", "stuck", 0.4, 0.01),),
        trust=Verdict("supported", "the logit falls", 5.0, 3.0, 0.1, 1.0),
        usual_course=np.stack([np.full((t, s), -2.0), np.full((t, s), 2.0)], axis=-1),
    )
    values = random.normal(size=(s, t * segment_length)).astype(np.float32)
    fault = Fault(segment_length, 2 * segment_length, (sensors[0],), "bump")
    episode = Episode(name, values, 1, None, (fault,))
    nearest = Episode("normal_1", np.zeros_like(values), 0, None, ())
    return diagnosis, Recording(episode, 0.5, ("m", *[""] * (s - 1)), nearest, "s")
