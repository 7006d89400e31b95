"""How good the diagnoses of detected anomalies are, where causes are known: beside the paper's scores and a floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.metrics import KnownCause, Ranking, evaluate_rankings, known_causes
from dfstrans.diagnosis.normal_cells import NormalCells
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfstrans.diagnosis.diagnosis import Diagnosis

SHOWN, RELEVANCE, FLOOR = "shown", "relevance", "z-score"


def assess(diagnoses: Iterator[Diagnosis], episodes: Episodes, normal: Episodes, segment_length: int) -> dict[str, Any]:
    """Metrics of three rankings of the detected episodes whose cause is known.

    "shown" is what a diagnosis shows, "relevance" the paper's raw scores, "z-score" the floor: how far simple
    statistics of each cell lie from those of `normal` episodes. Results are by ranking, level, kind and metric.
    """
    causes = {cause.episode_id: cause for cause in known_causes(episodes, segment_length) if cause.segments.any()}
    found = {d.episode_id: d for d in diagnoses if d.is_anomaly and d.episode_id in causes}
    if not found:
        raise DfstransError(
            f"expected detected episodes whose cause is known, got none among {len(episodes)} ({len(causes)} with a "
            "known cause); evaluate recordings with faults or graded truth"
        )
    detected = episodes[[row for row, name in enumerate(episodes.ids) if str(name) in found]]
    floor = zip(detected.ids, NormalCells.fit(normal, segment_length).scores(detected), strict=True)
    rankings = {
        SHOWN: {name: Ranking.from_cells(d.ranking) for name, d in found.items()},
        RELEVANCE: {name: Ranking(d.scores.sensor, d.scores.segment, d.scores.cell) for name, d in found.items()},
        FLOOR: {str(name): Ranking.from_cells(cells) for name, cells in floor},
    }
    return {
        "detected": len(found),
        "with_known_cause": len(causes),
        "support": _supports(list(found.values())),
        "rankings": {name: _plain(ranking, [causes[one] for one in found]) for name, ranking in rankings.items()},
    }


def headline(assessment: dict[str, Any]) -> list[tuple[str, str, str, dict[str, float | None]]]:
    """The few rows for people: level, metric, kind of fault, and the value of each ranking with the chance level."""
    rows = []
    wanted = (("sensors", "hit_rate@100%"), ("sensors", "ac@3"), ("segments", "ac@3"), ("cells", "auroc"))
    for level, metric in wanted:
        kinds = assessment["rankings"][SHOWN].get(level, {})
        for kind, metrics in kinds.items():
            values = {name: ranking[level][kind][metric]["value"] for name, ranking in assessment["rankings"].items()}
            rows.append((level, metric, kind, {**values, "chance": metrics[metric]["chance"]}))
    return rows


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
