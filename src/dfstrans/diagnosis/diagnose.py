"""From a detector and episodes to diagnoses, one after the other."""

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

LEAST_LOSS = 0.1  # of a logit: some 2 % of probability


def diagnose(
    detector: Detector,
    episodes: Episodes,
    reference: NormalReference,
    known: KnownCases,
    *,
    trust: bool = False,
) -> Iterator[Diagnosis]:
    """Diagnose each episode against normal ones and, where there are any, against anomalies of `known` kinds.

    With `trust`, the attention of each anomalous episode is judged, and where it has no support the ranking is made by
    occlusion.
    """
    length, interval = detector.network_settings_.segment_length, episodes.interval or 1
    for row, (episode, scores) in enumerate(zip(episodes, episode_scores(detector, episodes), strict=True)):
        if not np.isfinite(scores.logit):
            require_finite_logits(episodes[row], np.array([scores.logit]))
        starts = np.arange(len(scores.segment)) * length
        bounds = np.stack([starts, np.minimum(starts + length, episode.values.shape[1])], axis=1)
        diagnosis = Diagnosis(
            episode_id=episode.id,
            probability=detector.probability(scores.logit),
            threshold=detector.decision_threshold,
            sensors=detector.sensors_,
            segment_bounds=times(bounds, interval),
            scores=scores,
            deviation=reference.deviation(scores),
            contribution=scores.contribution - reference.usual(scores, "contribution"),
            level=reference.strangeness(scores, "level"),
            bands=reference.bands(scores),
            health=reference.health.examine(episode.values, detector.scaler_),
            resembles=known.resembled_by(episode.id, scores.features),
            chance_check=detector.chance_check,
            time_unit=episodes.time_unit if episodes.interval else "points",
            usual_course=None if reference.course is None else reference.course.of(len(starts)),
        )
        if trust and diagnosis.is_anomaly:
            diagnosis = _with_trust(diagnosis, detector, episodes[row], reference)
        yield diagnosis


def times(points: npt.NDArray[np.int64], interval: float) -> npt.NDArray[np.float64]:
    """When points are, without the digits that arithmetic leaves.

    >>> (29 * 0.1, times(np.array([29]), 0.1).tolist())
    (2.9000000000000004, [2.9])
    """
    return np.array([float(f"{time:.12g}") for time in (points * interval).ravel()]).reshape(points.shape)


def _with_trust(diagnosis: Diagnosis, detector: Detector, episode: Episodes, reference: NormalReference) -> Diagnosis:
    verdict = judge(detector, episode, diagnosis.is_anomaly)
    fallback = occlusion(detector, episode, reference) if verdict.support == "not supported" else None
    if fallback is not None and fallback.max() < LEAST_LOSS:
        fallback = None  # no single cell matters to the decision: a ranking by that would be noise
    return replace(diagnosis, trust=verdict, occlusion=fallback)
