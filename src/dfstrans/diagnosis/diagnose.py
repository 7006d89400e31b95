"""Diagnose episodes one by one, against normal ones and the known anomalies that they resemble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import require_finite_logits
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.counterfactual import occlusion
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.habits import level_in_range
from dfstrans.diagnosis.inspection import Detector, episode_scores
from dfstrans.diagnosis.ranking import MATERIAL_DROP
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.diagnosis.schema import ComparedWith, Resemblance
from dfstrans.diagnosis.scores import SCORES, Array, NormalBand
from dfstrans.diagnosis.tree_reference import EpisodeCells, TreeReference
from dfstrans.diagnosis.trust import judge

NEAREST_CASES = 5
MAX_CASES = 1000  # known anomalies that a model keeps


def diagnose(
    detector: Detector,
    episodes: Episodes,
    reference: NormalReference | TreeReference,
    known: KnownCases,
    *,
    trees: TreeReference | None = None,
    trust: bool = False,
) -> Iterator[Diagnosis]:
    """Diagnose each episode against normal ones and, if there are any, against anomalies of `known` kinds.

    With `trust`, the attention of each anomalous episode is tested; if it is not supported, the ranking is by
    occlusion. Trees have no attention: anomalies that they explain are ranked by occlusion if any cell matters. Those
    of a committee explain by `trees`; see `Diagnosis.explained_by`.
    """
    length, interval = detector.network_settings_.segment_length, episodes.interval or 1
    decide, thresholds = detector.decisions(episodes), detector.thresholds(episodes)
    novelty = detector.novelty(episodes)
    for row, (episode, found) in enumerate(zip(episodes, explanations(detector, episodes, reference), strict=True)):
        if not np.isfinite(found.logit):
            require_finite_logits(episodes[row], np.array([found.logit]))
        n_segments, decision = len(found.deviation), decide(row, found.logit)
        starts = np.arange(n_segments) * length
        habits = reference.fleet.of(episode.group)
        course = habits.course.of_length(episode.values.shape[1], length, reference.n_segments)
        bounds = np.stack([starts, np.minimum(starts + length, episode.values.shape[1])], axis=1)
        diagnosis = Diagnosis(
            temporal_attention=found.temporal_attention,
            spatial_attention=found.spatial_attention,
            episode_id=episode.id,
            probability=decision.probability,
            members=decision.members,
            machine=episode.group,
            baseline=decision.baseline,
            raw_logit=decision.raw_logit,
            network_logit=found.logit if found.cells is None else None,
            threshold=float(thresholds[row]),
            novelty=float(novelty[row]),
            strangest_sensor=detector.strangest_sensor(episodes[[row]]) if novelty[row] > 1 else None,
            sensors=detector.sensors_,
            segment_bounds=times(bounds, interval),
            deviation=found.deviation / habits.typical_distance(n_segments),
            contribution=found.contribution,
            bands=found.bands,
            level=level_in_range(episode.values, length, course),
            normal_range=course,
            compared_with=ComparedWith(habits.machine, habits.recordings, habits.why_all),
            health=habits.health.examine(episode.values, detector.scaler_),
            resembles=known.resembled_by(episode.id, found.features),
            learned_little=detector.learned_little,
            chance_check=detector.chance_check,
            clock=Clock.of(episodes, episode),
        )
        cells = found.cells
        if trees is not None and diagnosis.explained_by == "trees":
            cells = trees.cells(detector, episodes[[row]])
            diagnosis = replace(diagnosis, deviation=cells.deviation)
        if diagnosis.is_anomaly and cells is not None:
            diagnosis = replace(diagnosis, occlusion=_material(cells.drops()))
        elif diagnosis.is_anomaly and trust and isinstance(reference, NormalReference):
            diagnosis = with_trust(diagnosis, detector, episodes[row], reference)
        yield diagnosis


class Explanation(NamedTuple):
    """What explains the logit of an episode: the network, or trees, which have `cells` but no attention (NaN).

    Shape:
        deviation and contribution (segment, sensor), features (width,); attention as in `AttentionScores`
    """

    logit: float
    deviation: Array
    contribution: Array
    temporal_attention: Array
    spatial_attention: Array
    bands: Mapping[str, NormalBand]
    features: Array
    cells: EpisodeCells | None = None


def explanations(
    detector: Detector, episodes: Episodes, reference: NormalReference | TreeReference
) -> Iterator[Explanation]:
    """Yield the explanation of each episode by the network or, if it decides without one, by the trees."""
    if isinstance(reference, TreeReference):
        for row in range(len(episodes)):
            yield _by_trees(reference.cells(detector, episodes[[row]]))
        return
    for scores in episode_scores(detector, episodes):
        usual = reference.band(scores.n_segments, "contribution").centre
        yield Explanation(
            logit=scores.logit,
            deviation=reference.deviation(scores),
            contribution=scores.contribution - usual,
            temporal_attention=scores.temporal_attention,
            spatial_attention=scores.spatial_attention,
            bands=reference.bands(scores.n_segments),
            features=scores.features,
        )


def _by_trees(cells: EpisodeCells) -> Explanation:
    t, s = cells.shape
    unknown = NormalBand(np.array(np.nan), np.array(np.nan), np.nan)
    return Explanation(
        logit=cells.logit,
        deviation=cells.deviation,
        contribution=np.full((t, s), np.nan),
        temporal_attention=np.broadcast_to(np.nan, (s, t, t)),
        spatial_attention=np.broadcast_to(np.nan, (t, s, s)),
        bands=dict.fromkeys(SCORES, unknown),
        features=cells.features,
        cells=cells,
    )


def with_trust(
    diagnosis: Diagnosis,
    detector: Detector,
    episode: Episodes,
    reference: NormalReference,
    smallest_drop: float = MATERIAL_DROP,
) -> Diagnosis:
    """Add the verdict on the attention and, if it is not supported, a ranking by occlusion if any cell matters."""
    verdict = judge(detector, episode, diagnosis.is_anomaly)
    if diagnosis.doubts and verdict.support == "supported":
        reason = f"{verdict.reason}, but {' and '.join(diagnosis.doubts)}"
        verdict = replace(verdict, support="weak", reason=reason)
    drops = occlusion(detector, episode, reference) if verdict.support == "not supported" else None
    return replace(diagnosis, trust=verdict, occlusion=None if drops is None else _material(drops, smallest_drop))


def _material(drops: Array, smallest: float = MATERIAL_DROP) -> Array | None:
    """Return the drops, or None if no single cell affects the decision, so that a ranking by them would be noise."""
    return drops if drops.max() >= smallest else None


def times(points: npt.NDArray[np.int64], interval: float) -> npt.NDArray[np.float64]:
    """Return the times of points, without digits that are only rounding errors.

    >>> (29 * 0.1, times(np.array([29]), 0.1).tolist())
    (2.9000000000000004, [2.9])
    """
    return np.array([float(f"{time:.12g}") for time in (points * interval).ravel()]).reshape(points.shape)


# ---- known anomalies ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownCases:
    """Training anomalies of known kind, which a model keeps to find those most similar to an episode.

    Shape:
        ids and kinds (n_cases,), features (n_cases, width)
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    features: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> Self:
        """No known case."""
        return cls((), (), np.zeros((0, 0), dtype=np.float32))

    @classmethod
    def of(cls, detector: Detector, episodes: Episodes, reference: NormalReference | TreeReference) -> Self:
        """Collect at most `MAX_CASES` episodes of known kind; none if all are of one kind, which is uninformative."""
        kinds = episodes.fault_kinds()
        rows = [row for row, kind in enumerate(kinds) if kind][:MAX_CASES]
        if len({kinds[row] for row in rows}) < 2:
            return cls.none()
        features = [one.features for one in explanations(detector, episodes[rows], reference)]
        ids = tuple(str(episodes.ids[row]) for row in rows)
        return cls(ids, tuple(kinds[row] for row in rows), np.stack(features).astype(np.float32))

    def resembled_by(self, episode_id: str, features: Array) -> tuple[Resemblance, ...]:
        """Return the kinds that an episode resembles, excluding itself; see `resembling`."""
        others = [case for case, name in enumerate(self.ids) if name != episode_id]
        if not others:
            return ()
        kinds = [self.kinds[case] for case in others]
        rarest = min(Counter(kinds).values())
        n_nearest = min(NEAREST_CASES, 2 * rarest - 1)  # few enough for the rarest kind to win
        return resembling(features, self.features[others].astype(np.float64), kinds, n_nearest)


def resembling(
    features: Array, known: Array, kinds: Sequence[str], n_nearest: int = NEAREST_CASES
) -> tuple[Resemblance, ...]:
    """Return the kinds of the nearest known cases, the most frequent first; ties are ordered by nearness.

    Features are the input of the classifier; nearness is measured by the angle between them.

    Shape:
        features (width,), known (n_known, width)

    >>> resembling(np.array([1.0, 0.1]), np.array([[1, 0], [0.9, 0], [0, 1]]), ["bump", "bump", "rust"], 2)
    (Resemblance(kind='bump', cases=2, of=2),)
    """
    nearest = np.argsort(-(_unit(known) @ _unit(features)), kind="stable")[:n_nearest]
    counted = Counter(kinds[case] for case in nearest)  # keeps the order of first appearance, which is nearness
    return tuple(Resemblance(kind, n, len(nearest)) for kind, n in counted.most_common())


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
