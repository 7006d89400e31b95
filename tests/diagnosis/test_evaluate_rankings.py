"""All metrics of some rankings: by level, by kind, with what is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from dfstrans.diagnosis.examples import NormalCells

from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.metrics import KnownCause, MetricResult, Ranking, Results, evaluate_rankings, known_causes
from dfstrans.errors import DfstransError

OF_SENSORS = {"hit_rate@100%", "hit_rate@150%", "ndcg", "rc_top_1", "rc_top_3", "ac@1", "ac@3", "avg@3", "mrr"}


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


def as_rankings(causes: list[KnownCause], sign: float = 1.0) -> dict[str, Ranking]:
    """The truth itself, or its contrary."""
    return {one.episode_id: Ranking.from_cells(sign * np.asarray(one.cells, dtype=float)) for one in causes}


def value(results: Results, level: str, kind: str, metric: str) -> float | None:
    return results[level][kind][metric].value


def test_results_are_grouped_by_level_kind_and_metric() -> None:
    results = evaluate_rankings(as_rankings(CAUSES), CAUSES, ks=(1, 3))
    assert list(results) == ["sensors", "segments", "cells"]
    for of_level in results.values():
        assert list(of_level) == ["all", "bump", "rust"]
    assert set(results["sensors"]["all"]) == OF_SENSORS | {"graded_ndcg"}
    assert set(results["segments"]["all"]) == OF_SENSORS | {"auprc", "time_overlap", "graded_ndcg"}
    assert set(results["cells"]["bump"]) == {"auprc", "auroc", "graded_ndcg"}
    json.dumps(results["cells"]["all"]["auroc"].to_dict())


def test_the_truth_itself_is_perfect_and_beats_chance() -> None:
    results = evaluate_rankings(as_rankings(CAUSES), CAUSES, ks=(1,))
    for level, of_level in results.items():
        for name, result in of_level["all"].items():
            if name != "graded_ndcg":  # which asks for more than to tell affected from not
                assert result.value == pytest.approx(1), (level, name)
                assert result.chance is not None
                assert result.chance < 1


def test_episodes_with_degenerate_truth_are_left_out_of_that_level_only() -> None:
    results = evaluate_rankings(as_rankings(CAUSES), CAUSES)
    segments = results["segments"]["all"]["mrr"]
    assert (segments.n_episodes, [one.episode_id for one in segments.left_out]) == (2, ["y"])
    assert results["sensors"]["all"]["mrr"].n_episodes == 3
    alone = results["segments"]["rust"]["mrr"]
    assert (alone.value, alone.chance, alone.n_episodes) == (None, None, 0)
    graded = results["cells"]["all"]["graded_ndcg"]
    assert (graded.n_episodes, {one.reason for one in graded.left_out}) == (1, {"not known"})


def test_results_of_a_kind_are_those_of_its_episodes_alone() -> None:
    scores = {one.episode_id: Ranking.from_cells(np.random.default_rng(3).random((2, 3))) for one in CAUSES}
    whole = evaluate_rankings(scores, CAUSES)
    alone = evaluate_rankings({"x": scores["x"]}, CAUSES[:1])
    assert {level: of_level["bump"] for level, of_level in whole.items()} == {
        level: of_level["all"] for level, of_level in alone.items()
    }


def test_without_graded_truth_there_are_no_graded_metrics_and_levels_may_be_absent() -> None:
    results = evaluate_rankings({"z": Ranking(cells=np.eye(2, 3))}, CAUSES[2:])
    assert list(results) == ["cells"]
    assert set(results["cells"]["all"]) == {"auprc", "auroc"}
    assert value(results, "cells", "all", "auroc") == pytest.approx(3 / 10)  # zeros tie with three of five


def test_constant_scores_earn_chance() -> None:
    constant = {one.episode_id: Ranking.from_cells(np.ones((2, 3))) for one in CAUSES}
    for of_level in evaluate_rankings(constant, CAUSES).values():
        for result in of_level["all"].values():
            assert isinstance(result, MetricResult)
            assert result.value == pytest.approx(result.chance)


def test_episodes_that_are_only_on_one_side_are_named() -> None:
    rankings = as_rankings(CAUSES)
    with pytest.raises(DfstransError, match="causes of episodes without a ranking: y, z; mend the ids"):
        evaluate_rankings({"x": rankings["x"]}, CAUSES)
    with pytest.raises(DfstransError, match="rankings of episodes without known causes: y, z; mend the ids"):
        evaluate_rankings(rankings, CAUSES[:1])
    with pytest.raises(DfstransError, match="at least one episode"):
        evaluate_rankings({}, [])


def test_scores_of_another_shape_or_of_some_levels_only_are_named() -> None:
    with pytest.raises(DfstransError, match=r"shape \(2,\) for the segments of episode 'z', got \(4,\)"):
        evaluate_rankings({"z": Ranking(segments=np.zeros(4))}, CAUSES[2:])
    with pytest.raises(DfstransError, match="same levels"):
        evaluate_rankings({**as_rankings(CAUSES), "z": Ranking(sensors=np.zeros(3))}, CAUSES)


@pytest.mark.parametrize("ks", [(), (0, 1)])
def test_places_below_one_are_refused(ks: tuple[int, ...]) -> None:
    with pytest.raises(DfstransError, match="places k from 1 on"):
        evaluate_rankings(as_rankings(CAUSES), CAUSES, ks=ks)


def test_the_floor_finds_loud_planted_faults() -> None:
    episodes = planted_episodes(80, 24, n_sensors=4, n_timepoints=200, strength=2.0)
    labels = episodes.require_labels()
    anomalous = episodes[labels == 1]
    cells = NormalCells.fit(episodes[labels == 0], segment_length=20).scores(anomalous)
    rankings = {str(name): Ranking.from_cells(one) for name, one in zip(anomalous.ids, cells, strict=True)}
    results = evaluate_rankings(rankings, known_causes(anomalous, segment_length=20))
    assert set(results["sensors"]) == {"all", "burst", "offset"}
    for level, metric in (("sensors", "rc_top_1"), ("segments", "rc_top_1"), ("cells", "auroc")):
        found = results[level]["all"][metric]
        assert found.low is not None
        assert found.low > 0.9, (level, metric)


def test_the_examples_of_the_document_run(capsys: pytest.CaptureFixture[str]) -> None:
    document = Path(__file__).parents[2] / "docs" / "diagnosis-metrics.md"
    printed = []
    for code in re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL):
        exec(code, {})
        printed.append(capsys.readouterr().out)
    assert [text.split("=")[0].split(":")[0] for text in printed] == ["MetricResult(value", "{'comprehensiveness'"]
