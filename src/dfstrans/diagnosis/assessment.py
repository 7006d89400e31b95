"""How good the diagnoses of detected anomalies are, where causes are known, beside raw relevance and two floors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.counterfactual import RankingCurves, integrated_gradients, ranking_curves, require_captum
from dfstrans.diagnosis.examples import NormalCells, TooFewNormalError
from dfstrans.diagnosis.metrics import KnownCause, Ranking, evaluate_rankings, known_causes
from dfstrans.errors import DfstransError, option_name
from dfstrans.progress import Progress, no_progress, track

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dfstrans.diagnosis.diagnosis import Diagnosis
    from dfstrans.diagnosis.inspection import Detector
    from dfstrans.diagnosis.reference import NormalReference

SHOWN, RELEVANCE, Z_SCORE, GRADIENTS = "shown", "relevance", "z-score", "gradients"
DRAWS = 5  # random orders per episode; the control is a mean over all episodes
FEWEST_FOR_INTERVAL = 5  # episodes; of fewer a bootstrap knows too little


def assess(
    detector: Detector,
    reference: NormalReference,
    diagnoses: Iterable[Diagnosis],
    episodes: Episodes,
    normal: Episodes,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Metrics of four rankings of the detected episodes whose cause is known, by ranking, level, kind and metric.

    "shown" is what a diagnosis shows, "relevance" the paper's raw scores. Two are floors: "z-score", how far simple
    statistics of each cell lie from those of `normal` episodes, and "gradients", the size of integrated gradients;
    where these cannot be had, `missing` tells why. `curves` tells how far the decision follows what is shown.
    """
    segment_length = detector.network_settings_.segment_length
    causes = {cause.episode_id: cause for cause in known_causes(episodes, segment_length) if cause.segments.any()}
    if not causes:
        raise _none_detected(episodes, 0, "give anomalous recordings whose faults are known")
    found = {d.episode_id: d for d in diagnoses if d.is_anomaly and d.episode_id in causes}
    if not found:
        remedy = f"train a better model, or one with a lower {option_name('threshold_value')}"
        raise _none_detected(episodes, len(causes), f"none of these is called anomalous: {remedy}")
    detected = episodes[[row for row, name in enumerate(episodes.ids) if str(name) in found]]
    found = {str(name): found[str(name)] for name in detected.ids}
    rankings = {
        SHOWN: {name: Ranking.from_cells(d.ranking) for name, d in found.items()},
        RELEVANCE: {name: Ranking(d.scores.sensor, d.scores.segment, d.scores.cell) for name, d in found.items()},
    }
    missing = {}
    try:
        floor = NormalCells.fit(normal, segment_length).scores(detected)
    except TooFewNormalError as error:
        missing[Z_SCORE] = str(error)
    else:
        rankings[Z_SCORE] = {name: Ranking.from_cells(cells) for name, cells in zip(found, floor, strict=True)}
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
        ranking_curves(detector, detected[row], one.ranking, reference, draws=DRAWS, seed=row)
        for row, one in track(enumerate(found.values()), "deletion and insertion", len(found), progress)
    ]
    return {
        "detected": len(found),
        "with_known_cause": len(causes),
        "support": _supports(list(found.values())),
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
    """The measures and the curves of all episodes, in the mean, each beside its random control."""
    every = [one.to_dict() for one in curves]
    return {
        "percentages": every[0]["percentages"],
        **{
            name: np.mean([one[name] for one in every], axis=0).tolist()
            for name in ("deletion", "insertion", "random_deletion", "random_insertion")
        },
        **{
            which: {name: float(np.mean([one[which][name] for one in every])) for name in every[0][which]}
            for which in ("figures", "random_figures")
        },
    }


def headline(assessment: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and the few rows for people: what was shown with its interval, chance, and the other rankings."""
    others = [name for name in assessment["rankings"] if name != SHOWN]
    rows = []
    wanted = (("sensors", "hit_rate@100%"), ("sensors", "ac@3"), ("segments", "ac@3"), ("cells", "auroc"))
    for level, metric in wanted:
        for kind, metrics in assessment["rankings"][SHOWN].get(level, {}).items():
            shown = metrics[metric]
            beside = [assessment["rankings"][name][level][kind][metric]["value"] for name in others]
            told = shown["low"] is not None and shown["n_episodes"] >= FEWEST_FOR_INTERVAL
            interval = f"{shown['low']:.2f} to {shown['high']:.2f}" if told else "–"
            figures = (_figure(shown["value"]), interval, *map(_figure, (shown["chance"], *beside)))
            rows.append((level, metric, kind, str(shown["n_episodes"]), *figures))
    return ("level", "metric", "kind", "n", SHOWN, "95 % interval", "chance", *others), rows


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _plain(rankings: dict[str, Ranking], causes: list[KnownCause]) -> dict[str, Any]:
    """The results of one ranking as plain data."""
    results = evaluate_rankings(rankings, causes)
    return {
        level: {
            kind: {name: result.to_dict() for name, result in metrics.items()} for kind, metrics in of_level.items()
        }
        for level, of_level in results.items()
    }


def _supports(diagnoses: list[Diagnosis]) -> dict[str, int]:
    """How many diagnoses got each verdict."""
    words = [d.trust.support for d in diagnoses if d.trust is not None]
    return {str(word): int(count) for word, count in zip(*np.unique(words, return_counts=True), strict=True)}
