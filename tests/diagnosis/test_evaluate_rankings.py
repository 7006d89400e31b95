"""Metrics over episodes: by level and kind, with chance, interval, and what is skipped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.metrics import KnownCause, MetricResult, NormalCells, Ranking, evaluate_rankings, known_causes
from dfstrans.diagnosis.metrics.evaluation import Skipped, bootstrap_interval, measure
from dfstrans.diagnosis.metrics.rankings import hit_rate
from dfstrans.errors import DfstransError

FIRST = np.array([True, False, False, False])
TOP_METRICS = {"hit_rate@100%", "hit_rate@150%", "ndcg", "avg@5", "mrr"} | {
    f"{name}{k}" for name in ("rc_top_", "ac@") for k in (1, 3, 5)
}


def cause(name: str, kind: str, cells: list[list[int]], relevance: list[list[float]] | None = None) -> KnownCause:
    """Segments of ten points, faulty throughout."""
    mask = np.array(cells, dtype=bool)
    points = np.full(len(mask), 10)
    grades = None if relevance is None else np.array(relevance)
    return KnownCause(name, kind, mask.shape[1], mask.any(axis=1) * points, points, mask, grades)


CAUSES = [
    cause("x", "bump", [[1, 0, 0], [0, 0, 0]], [[3, 0.5, 0], [0.5, 0, 0]]),
    cause("y", "rust", [[0, 1, 0], [0, 1, 0]]),  # every segment is to blame
    cause("z", "", [[0, 0, 0], [0, 0, 1]]),
]
PERFECT = {one.episode_id: Ranking.from_cells(np.asarray(one.cells, dtype=float)) for one in CAUSES}


def test_value_and_chance_are_means_over_the_episodes_that_are_used() -> None:
    scores = [np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 3, 4]), np.array([9.0, 0])]
    found = measure(hit_rate, ["a", "b", "c"], scores, [FIRST, ~FIRST, np.array([True, False])])
    assert found == MetricResult(1, pytest.approx((1 / 4 + 3 / 4 + 1 / 2) / 3), 1, 1, 3)


def test_degenerate_and_unknown_truth_is_skipped_and_named() -> None:
    truths = [FIRST, np.zeros(4, dtype=bool), np.ones(4, dtype=bool), None]
    found = measure(hit_rate, list("abcd"), [np.arange(4.0)] * 4, truths)
    assert found.n_episodes == 1
    reasons = {"b": "none of 4 blamed", "c": "all of 4 blamed", "d": "not known"}
    assert found.skipped == tuple(Skipped(*one) for one in reasons.items())
    nothing = measure(hit_rate, ["d"], [np.arange(4.0)], [None])
    assert json.loads(json.dumps(nothing.to_dict())) == {
        **dict.fromkeys(("value", "chance", "low", "high")),
        "n_episodes": 0,
        "skipped": [{"episode_id": "d", "reason": "not known"}],
    }


def test_an_episode_with_bad_scores_is_named() -> None:
    with pytest.raises(DfstransError, match="episode 'b': expected a number"):
        measure(hit_rate, ["a", "b"], [np.arange(4.0), np.full(4, np.nan)], [FIRST, FIRST])


def test_bootstrap_interval_is_seeded() -> None:
    values = np.random.default_rng(1).random(400)
    low, high = bootstrap_interval(values, seed=3)
    error = values.std() / np.sqrt(400)
    assert (low, high) == pytest.approx((values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.2 * error)
    assert bootstrap_interval(values, seed=3, at_once=1200) == pytest.approx((low, high))
    assert bootstrap_interval(values, seed=4) != (low, high)


@pytest.mark.slow
def test_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    intervals = [bootstrap_interval(rng.random(60) ** 2, seed=draw) for draw in range(400)]
    assert np.mean([low <= 1 / 3 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.035)


def test_truth_scores_perfectly_on_every_metric() -> None:
    results = evaluate_rankings(PERFECT, CAUSES)
    assert {level: set(kinds["all"]) for level, kinds in results.items()} == {
        "sensors": TOP_METRICS | {"graded_ndcg"},
        "segments": TOP_METRICS | {"auprc", "time_overlap", "graded_ndcg"},
        "cells": {"auprc", "auroc", "graded_ndcg"},
    }
    for level, kinds in results.items():
        assert list(kinds) == ["all", "bump", "rust"]
        for name, result in kinds["all"].items():
            if name != "graded_ndcg":  # which asks for more than to tell affected from not
                assert result.value == pytest.approx(1), (level, name)
                assert result.chance is not None
                assert result.chance < 1 or name.endswith(("3", "5"))  # places for all of three


def test_constant_scores_earn_chance() -> None:
    constant = {one.episode_id: Ranking.from_cells(np.ones((2, 3))) for one in CAUSES}
    for kinds in evaluate_rankings(constant, CAUSES).values():
        for result in kinds["all"].values():
            assert result.value == pytest.approx(result.chance)


def test_episodes_with_degenerate_truth_are_skipped_of_that_level_only() -> None:
    results = evaluate_rankings(PERFECT, CAUSES)
    segments = results["segments"]["all"]["mrr"]
    assert (segments.n_episodes, [one.episode_id for one in segments.skipped]) == (2, ["y"])
    assert results["sensors"]["all"]["mrr"].n_episodes == 3
    assert results["segments"]["rust"]["mrr"].value is None
    graded = results["cells"]["all"]["graded_ndcg"]
    assert (graded.n_episodes, {one.reason for one in graded.skipped}) == (1, {"not known"})
    assert "graded_ndcg" not in evaluate_rankings({"z": PERFECT["z"]}, CAUSES[2:])["cells"]["all"]


def test_results_of_a_kind_are_those_of_its_episodes_alone() -> None:
    scores = {one.episode_id: Ranking.from_cells(np.random.default_rng(3).random((2, 3))) for one in CAUSES}
    whole = evaluate_rankings(scores, CAUSES)
    alone = evaluate_rankings({"x": scores["x"]}, CAUSES[:1])
    assert {level: kinds["bump"] for level, kinds in whole.items()} == {
        level: kinds["all"] for level, kinds in alone.items()
    }


@pytest.mark.parametrize(
    ("rankings", "causes", "message"),
    [
        ({"x": PERFECT["x"]}, CAUSES, "without a ranking: y, z"),
        (PERFECT, CAUSES[:1], "without known causes: y, z"),
        ({}, [], "at least one episode"),
        (
            {"z": PERFECT["z"]._replace(segments=np.zeros(4))},
            CAUSES[2:],
            r"shape \(2,\) for the segments of episode 'z'",
        ),
    ],
)
def test_rankings_that_do_not_fit_the_causes_are_refused(
    rankings: dict[str, Ranking], causes: list[KnownCause], message: str
) -> None:
    with pytest.raises(DfstransError, match=message):
        evaluate_rankings(rankings, causes)


def test_the_z_score_ranking_finds_loud_planted_faults() -> None:
    episodes = planted_episodes(80, 24, n_sensors=4, n_timepoints=200, strength=2.0)
    normal, anomalous = (episodes[episodes.require_labels() == label] for label in (0, 1))
    cells = NormalCells.fit(normal, segment_length=20).scores(anomalous)
    rankings = {str(name): Ranking.from_cells(one) for name, one in zip(anomalous.ids, cells, strict=True)}
    results = evaluate_rankings(rankings, known_causes(anomalous, segment_length=20))
    assert set(results["sensors"]) == {"all", "burst", "offset"}
    for level, metric in (("sensors", "rc_top_1"), ("segments", "rc_top_1"), ("cells", "auroc")):
        found = results[level]["all"][metric]
        assert found.low is not None
        assert found.low > 0.9, (level, metric)


def test_the_examples_of_the_document_run(capsys: pytest.CaptureFixture[str]) -> None:
    document = Path(__file__).parents[2] / "docs" / "reference" / "diagnosis-metrics.md"
    printed = []
    for code in re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL):
        exec(code, {})
        printed.append(capsys.readouterr().out)
    assert [text.split("=")[0].split(":")[0] for text in printed] == ["MetricResult(value", "{'comprehensiveness'"]
