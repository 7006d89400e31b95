"""Quality of the diagnoses of anomalies with known causes, compared with raw relevance and two rivals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import check_finite
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.counterfactual import RankingCurves, integrated_gradients, ranking_curves, require_captum
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.metrics.evaluation import KnownCause, Ranking, evaluate_rankings, known_causes
from dfstrans.diagnosis.recordings import CELL_STATISTICS, cell_statistics
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.diagnosis.scores import Array
from dfstrans.diagnosis.tree_reference import TreeReference
from dfstrans.errors import DfstransError, option_name
from dfstrans.progress import Progress, no_progress, track

SHOWN, RELEVANCE, Z_SCORE, GRADIENTS = "shown", "relevance", "z-score", "gradients"
NO_ATTENTION = "the trees decide alone, which have neither attention nor gradients"
ORDERS_PER_EPISODE = 5  # random orders; few, since the control is a mean over all episodes
MIN_FOR_INTERVAL = 5  # episodes
SMALLEST_DEVIATION = 0.001  # of a sensor's normal range, or of 1 if it is constant
HEADLINES = (("sensors", "hit_rate@100%"), ("sensors", "ac@3"), ("segments", "ac@3"), ("cells", "auroc"))


def assess(
    detector: Detector,
    reference: NormalReference | TreeReference,
    diagnoses: Iterable[Diagnosis],
    episodes: Episodes,
    normal: Episodes,
    progress: Progress = no_progress,
    trees: TreeReference | None = None,
) -> dict[str, Any]:
    """Return metrics of four rankings of the detected episodes with known causes, by ranking, level, kind and metric.

    "shown" is the ranking of the diagnosis, "relevance" the paper's raw scores. Two are rivals: "z-score", the
    distance of simple statistics of each cell from those of `normal` episodes, and "gradients", the size of integrated
    gradients; `missing` says why one of them is not available. `curves` shows how much the decision depends on the
    cells that are ranked first: on the trees of a committee, with `trees` as the reference, if they explain it.
    """
    segment_length = detector.network_settings_.segment_length
    causes = {cause.episode_id: cause for cause in known_causes(episodes, segment_length) if cause.segments.any()}
    if not causes:
        raise _none_detected(episodes, 0, "use anomalous recordings with known faults")
    by_id = {d.episode_id: d for d in diagnoses if d.is_anomaly and d.episode_id in causes}
    if not by_id:
        remedy = f"train a better model, or one with a lower {option_name('threshold_value')}"
        raise _none_detected(episodes, len(causes), f"none of these is predicted anomalous: {remedy}")
    detected = episodes[[row for row, name in enumerate(episodes.ids) if str(name) in by_id]]
    found = {str(name): by_id[str(name)] for name in detected.ids}
    rankings = {SHOWN: {name: Ranking.from_cells(d.ranking) for name, d in found.items()}}
    missing = {}
    if isinstance(reference, NormalReference):
        rankings[RELEVANCE] = {
            name: Ranking(d.global_spatial_relevance, d.global_temporal_relevance, d.cell_relevance)
            for name, d in found.items()
        }
    else:
        missing = dict.fromkeys((RELEVANCE, GRADIENTS), NO_ATTENTION)
    try:
        cells = NormalCells.fit(normal, segment_length).scores(detected)
        rankings[Z_SCORE] = {name: Ranking.from_cells(own) for name, own in zip(found, cells, strict=True)}
    except TooFewNormalError as error:
        missing[Z_SCORE] = str(error)
    if isinstance(reference, NormalReference):
        try:
            require_captum()
        except DfstransError as error:
            missing[GRADIENTS] = str(error)
        else:
            rankings[GRADIENTS] = {
                name: Ranking.from_cells(np.abs(integrated_gradients(detector, detected[row], reference)))
                for row, name in track(enumerate(found), "integrated gradients", len(found), progress)
            }
    curves = [
        ranking_curves(
            detector,
            detected[row],
            one.ranking,
            trees if trees is not None and one.explained_by == "trees" else reference,
            draws=ORDERS_PER_EPISODE,
            seed=row,
        )
        for row, one in track(enumerate(found.values()), "deletion and insertion", len(found), progress)
    ]
    return {
        "detected": len(found),
        "with_known_cause": len(causes),
        "support": dict(sorted(Counter(d.trust.support for d in found.values() if d.trust is not None).items())),
        "curves": mean_curves(curves),
        "rankings": {name: _plain(ranking, [causes[one] for one in found]) for name, ranking in rankings.items()},
        "missing": missing,
    }


def _none_detected(episodes: Episodes, n_known: int, remedy: str) -> DfstransError:
    return DfstransError(
        f"expected detected episodes whose cause is known, got none among {len(episodes)} anomalous ones "
        f"({n_known} with a known cause); {remedy}"
    )


def mean_curves(curves: list[RankingCurves]) -> dict[str, Any]:
    """Average curves and measures over episodes, with their random controls."""
    plain = [one.to_dict() for one in curves]
    means: dict[str, Any] = {"percentages": plain[0]["percentages"]}
    for name in ("deletion", "insertion", "random_deletion", "random_insertion"):
        means[name] = np.mean([one[name] for one in plain], axis=0).tolist()
    for which in ("metrics", "random_metrics"):
        means[which] = {name: float(np.mean([one[which][name] for one in plain])) for name in plain[0][which]}
    return means


def _plain(rankings: dict[str, Ranking], causes: list[KnownCause]) -> dict[str, Any]:
    """Return the results of one ranking as plain data."""
    return {
        level: {kind: {name: one.to_dict() for name, one in metrics.items()} for kind, metrics in kinds.items()}
        for level, kinds in evaluate_rankings(rankings, causes).items()
    }


def headline(assessment: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and rows of a short table: the shown ranking with its interval, chance, and the other rankings."""
    rankings = assessment["rankings"]
    others = [name for name in rankings if name != SHOWN]
    rows = []
    for level, metric in HEADLINES:
        for kind, metrics in rankings[SHOWN][level].items():
            shown = metrics[metric]
            reliable = shown["low"] is not None and shown["n_episodes"] >= MIN_FOR_INTERVAL
            interval = f"{shown['low']:.2f} to {shown['high']:.2f}" if reliable else "–"
            beside = [rankings[name][level][kind][metric]["value"] for name in others]
            figures = ("–" if value is None else f"{value:.2f}" for value in (shown["chance"], *beside))
            value = "–" if shown["value"] is None else f"{shown['value']:.2f}"
            rows.append((level, metric, kind, str(shown["n_episodes"]), value, interval, *figures))
    return ("level", "metric", "kind", "n", SHOWN, "95 % interval", "chance", *others), rows


# ---- the z-score ranking --------------------------------------------------------------------------------------------


class TooFewNormalError(DfstransError):
    """Too few normal episodes for z-scores; other rankings can still be evaluated."""


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Mean and deviation of each statistic of each (segment, sensor) cell over normal episodes.

    A cell with values in fewer than two normal episodes is compared with all cells of its sensor.

    Shape:
        mean, deviation (n_segments, n_sensors, n_statistics); sensor_mean, sensor_deviation (n_sensors, n_statistics)
    """

    sensors: tuple[str, ...]
    segment_length: int
    mean: Array
    deviation: Array
    sensor_mean: Array
    sensor_deviation: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int) -> Self:
        """Learn from normal episodes in one pass, with one of them in memory at a time (Welford)."""
        if len(normal) < 2:
            raise TooFewNormalError(
                f"expected at least two normal episodes to compare with, got {len(normal)}; add recordings "
                "labelled normal"
            )
        shape = (count_segments(int(normal.lengths.max()), segment_length), normal.n_sensors, len(CELL_STATISTICS))
        count, mean, squares = np.zeros((*shape[:2], 1)), np.zeros(shape), np.zeros(shape)
        lowest, highest = np.full(normal.n_sensors, np.inf), np.full(normal.n_sensors, -np.inf)
        for episode in normal:
            check_finite(episode.values, episode.id, normal.sensors)
            found = cell_statistics(episode.values, segment_length)
            here = slice(len(found))
            present = ~np.isnan(found[..., :1])
            count[here] += present
            step = np.where(present, found - mean[here], 0.0)
            mean[here] += step / np.maximum(count[here], 1)
            squares[here] += step * np.where(present, found - mean[here], 0.0)
            lowest = np.fmin(lowest, np.fmin.reduce(found[..., CELL_STATISTICS.index("min")]))
            highest = np.fmax(highest, np.fmax.reduce(found[..., CELL_STATISTICS.index("max")]))
        span = np.where(highest > lowest, highest - lowest, 1.0)
        smallest = SMALLEST_DEVIATION * span[:, None]
        every = np.where(count.any(axis=0), count.sum(axis=0), np.nan)
        sensor_mean = (count * mean).sum(axis=0) / every
        sensor_squares = (squares + count * (mean - sensor_mean) ** 2).sum(axis=0)
        sensor_deviation = np.maximum(np.sqrt(sensor_squares / every), smallest)
        known = count >= 2
        deviation = np.maximum(np.sqrt(squares / np.maximum(count, 1)), smallest)
        return cls(
            normal.sensors,
            segment_length,
            np.where(known, mean, sensor_mean),
            np.where(known, deviation, sensor_deviation),
            sensor_mean,
            sensor_deviation,
        )

    def scores(self, episodes: Episodes) -> Iterator[Array]:
        """Yield, for each episode, the root mean square of z over the statistics of each cell.

        z = (statistic − its normal mean) / its normal deviation. A cell without values, or of a sensor without
        values in normal episodes, scores 0.

        Shape:
            (n_segments, n_sensors) each
        """
        if episodes.sensors != self.sensors:
            raise DfstransError(
                f"expected the sensors of the normal episodes, {', '.join(self.sensors)}, got "
                f"{', '.join(episodes.sensors)}; select the same sensors in the same order"
            )
        for episode in episodes:
            check_finite(episode.values, episode.id, episodes.sensors)
            found = cell_statistics(episode.values, self.segment_length)
            mean, deviation = self._by_segment(len(found))
            z = np.nan_to_num((found - mean) / deviation, nan=0.0)
            yield np.sqrt((z**2).mean(axis=-1))

    def _by_segment(self, n_segments: int) -> tuple[Array, Array]:
        """Return mean and deviation by segment; beyond the longest normal episode, those of the whole sensor."""
        beyond = max(n_segments - len(self.mean), 0)
        mean = np.concatenate([self.mean, np.tile(self.sensor_mean, (beyond, 1, 1))])
        deviation = np.concatenate([self.deviation, np.tile(self.sensor_deviation, (beyond, 1, 1))])
        return mean[:n_segments], deviation[:n_segments]
