"""Quality of the diagnoses of anomalies with known causes, compared with raw relevance and two baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.counterfactual import RankingCurves, integrated_gradients, ranking_curves, require_captum
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.metrics import KnownCause, NormalCells, Ranking, evaluate_rankings, known_causes
from dfstrans.diagnosis.metrics.z_scores import TooFewNormalError
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.errors import DfstransError, option_name
from dfstrans.progress import Progress, no_progress, track

SHOWN, RELEVANCE, Z_SCORE, GRADIENTS = "shown", "relevance", "z-score", "gradients"
ORDERS_PER_EPISODE = 5  # random orders; few, since the control is a mean over all episodes
MIN_FOR_INTERVAL = 5  # episodes
HEADLINES = (("sensors", "hit_rate@100%"), ("sensors", "ac@3"), ("segments", "ac@3"), ("cells", "auroc"))


def assess(
    detector: Detector,
    reference: NormalReference,
    diagnoses: Iterable[Diagnosis],
    episodes: Episodes,
    normal: Episodes,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return metrics of four rankings of the detected episodes with known causes, by ranking, level, kind and metric.

    "shown" is the ranking of the diagnosis, "relevance" the paper's raw scores. Two are baselines: "z-score", the
    distance of simple statistics of each cell from those of `normal` episodes, and "gradients", the size of integrated
    gradients; `missing` says why one of them is not available. `curves` shows how much the decision depends on the
    cells that are ranked first.
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
    rankings = {
        SHOWN: {name: Ranking.from_cells(d.ranking) for name, d in found.items()},
        RELEVANCE: {
            name: Ranking(d.global_spatial_relevance, d.global_temporal_relevance, d.cell_relevance)
            for name, d in found.items()
        },
    }
    missing = {}
    try:
        cells = NormalCells.fit(normal, segment_length).scores(detected)
        rankings[Z_SCORE] = {name: Ranking.from_cells(own) for name, own in zip(found, cells, strict=True)}
    except TooFewNormalError as error:
        missing[Z_SCORE] = str(error)
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
        ranking_curves(detector, detected[row], one.ranking, reference, draws=ORDERS_PER_EPISODE, seed=row)
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
    for which in ("figures", "random_figures"):
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
