"""Diagnose episodes one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import require_finite_logits
from dfstrans.diagnosis.counterfactual import occlusion
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.inspection import Detector, episode_scores
from dfstrans.diagnosis.known_faults import KnownCases
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.diagnosis.trust import judge

SMALLEST_LOSS = 0.1  # of the logit: about 2 % of probability


def diagnose(
    detector: Detector,
    episodes: Episodes,
    reference: NormalReference,
    known: KnownCases,
    *,
    trust: bool = False,
) -> Iterator[Diagnosis]:
    """Diagnose each episode against normal ones and, if there are any, against anomalies of `known` kinds.

    With `trust`, the attention of each anomalous episode is tested; if it is not supported, the ranking is by
    occlusion.
    """
    length, interval = detector.network_settings_.segment_length, episodes.interval or 1
    for row, (episode, scores) in enumerate(zip(episodes, episode_scores(detector, episodes), strict=True)):
        if not np.isfinite(scores.logit):
            require_finite_logits(episodes[row], np.array([scores.logit]))
        n_segments = scores.n_segments
        starts = np.arange(n_segments) * length
        bounds = np.stack([starts, np.minimum(starts + length, episode.values.shape[1])], axis=1)
        diagnosis = Diagnosis(
            temporal_attention=scores.temporal_attention,
            spatial_attention=scores.spatial_attention,
            episode_id=episode.id,
            probability=detector.probability(scores.logit),
            raw_logit=scores.logit,
            threshold=detector.decision_threshold,
            sensors=detector.sensors_,
            segment_bounds=times(bounds, interval),
            deviation=reference.deviation(scores),
            contribution=scores.contribution - reference.band(n_segments, "contribution").centre,
            level=reference.band(n_segments, "level").excess(scores.level),
            bands=reference.bands(n_segments),
            usual_course=reference.course.of_length(n_segments),
            health=reference.health.examine(episode.values, detector.scaler_),
            resembles=known.resembled_by(episode.id, scores.features),
            chance_check=detector.chance_check,
            time_unit=episodes.time_unit if episodes.interval else "points",
        )
        if trust and diagnosis.is_anomaly:
            diagnosis = with_trust(diagnosis, detector, episodes[row], reference)
        yield diagnosis


def with_trust(
    diagnosis: Diagnosis,
    detector: Detector,
    episode: Episodes,
    reference: NormalReference,
    smallest_loss: float = SMALLEST_LOSS,
) -> Diagnosis:
    """Add the verdict on the attention and, if it is not supported, a ranking by occlusion if any cell matters."""
    verdict = judge(detector, episode, diagnosis.is_anomaly)
    losses = occlusion(detector, episode, reference) if verdict.support == "not supported" else None
    if losses is not None and losses.max() < smallest_loss:
        losses = None  # no single cell affects the decision, so a ranking by occlusion would be noise
    return replace(diagnosis, trust=verdict, occlusion=losses)


def times(points: npt.NDArray[np.int64], interval: float) -> npt.NDArray[np.float64]:
    """Return the times of points, without digits that are only rounding errors.

    >>> (29 * 0.1, times(np.array([29]), 0.1).tolist())
    (2.9000000000000004, [2.9])
    """
    return np.array([float(f"{time:.12g}") for time in (points * interval).ravel()]).reshape(points.shape)
