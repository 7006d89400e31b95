"""A metric over episodes: mean, chance, interval, and what is left out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dfstrans.diagnosis.metrics import LeftOut, MetricResult, hit_rate, measure
from dfstrans.diagnosis.metrics.evaluation import bootstrap_interval
from dfstrans.errors import DfstransError

FIRST = np.array([True, False, False, False])


def test_value_and_chance_are_means_over_the_episodes_that_are_used() -> None:
    scores = [np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 3, 4]), np.array([9.0, 0])]
    truths = [FIRST, ~FIRST, np.array([True, False])]
    found = measure(hit_rate, ["a", "b", "c"], scores, truths)
    assert found.value == 1
    assert found.chance == pytest.approx((1 / 4 + 3 / 4 + 1 / 2) / 3)
    assert (found.low, found.high, found.n_episodes, found.left_out) == (1, 1, 3, ())


def test_degenerate_and_unknown_truth_is_left_out_counted_and_named() -> None:
    truths = [FIRST, np.zeros(4, dtype=bool), np.ones(4, dtype=bool), None]
    found = measure(hit_rate, list("abcd"), [np.arange(4.0)] * 4, truths)
    assert found.n_episodes == 1
    assert found.left_out == (
        LeftOut("b", "none of 4 blamed"),
        LeftOut("c", "all of 4 blamed"),
        LeftOut("d", "not known"),
    )


def test_without_a_usable_episode_there_is_no_number() -> None:
    found = measure(hit_rate, ["a"], [np.arange(4.0)], [None])
    assert found == MetricResult(None, None, None, None, 0, (LeftOut("a", "not known"),))


def test_an_episode_with_bad_scores_is_named() -> None:
    with pytest.raises(DfstransError, match="episode 'b': expected a number"):
        measure(hit_rate, ["a", "b"], [np.arange(4.0), np.full(4, np.nan)], [FIRST, FIRST])


def test_a_result_becomes_json() -> None:
    result = MetricResult(0.5, 0.2, 0.4, 0.6, 9, (LeftOut("b", "none of 4 blamed"),))
    assert json.loads(json.dumps(result.to_dict())) == {
        "value": 0.5,
        "chance": 0.2,
        "low": 0.4,
        "high": 0.6,
        "n_episodes": 9,
        "left_out": [{"episode_id": "b", "reason": "none of 4 blamed"}],
    }


def test_the_interval_is_that_of_a_mean_and_the_same_for_the_same_seed() -> None:
    values = np.random.default_rng(1).random(400)
    low, high = bootstrap_interval(values, seed=3)
    error = values.std() / np.sqrt(400)
    assert (low, high) == pytest.approx((values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.2 * error)
    assert bootstrap_interval(values, seed=3) == (low, high)
    assert bootstrap_interval(values, seed=4) != (low, high)


def test_the_interval_does_not_depend_on_how_much_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).random(50)
    whole = bootstrap_interval(values)
    monkeypatch.setattr("dfstrans.diagnosis.metrics.evaluation._AT_ONCE", 120)
    assert bootstrap_interval(values) == pytest.approx(whole)


@pytest.mark.slow
def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    intervals = [bootstrap_interval(rng.random(60) ** 2, seed=draw) for draw in range(400)]
    assert np.mean([low <= 1 / 3 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.035)
