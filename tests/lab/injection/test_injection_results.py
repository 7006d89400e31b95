"""Intervals of the shares that a study of planted faults finds."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binomtest

from dfstrans.lab.injection.study import METRICS, ConditionResult, assessed_metric, share_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 7), (2, 2), (3, 20), (20, 20)])
def test_the_interval_of_a_share_is_wilsons(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert share_interval(hits / n, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_the_share_that_is_detected_has_its_interval() -> None:
    content = ConditionResult("spike", 1, "spreads", 7, 0, 0.0, 0.9, 0.9, {}).to_dict()
    assert (content["recall_low"], content["recall_high"]) == pytest.approx((0.0, 0.3543), abs=1e-4)
    untried = ConditionResult("spike", 1, "spreads", 0, 0, None, None, None, {}).to_dict()
    assert (untried["recall_low"], untried["recall_high"]) == (None, None)


@pytest.mark.parametrize("name", METRICS)
def test_two_right_diagnoses_of_two_leave_a_wide_interval(name: str) -> None:
    metric = assessed_metric(assessed(METRICS[name], value=1.0, chance=0.2, low=1.0, high=1.0), *METRICS[name])
    assert (metric.low, metric.high) == pytest.approx((0.3424, 1.0), abs=1e-4)


def test_certain_or_undefined_metric_has_no_interval() -> None:
    where = METRICS["sensor_ac_at_3"]
    sure = assessed_metric(assessed(where, value=1.0, chance=1.0, low=1.0, high=1.0), *where)  # of three sensors
    assert (sure.low, sure.high) == (1.0, 1.0)
    untold = assessed_metric(assessed(where, value=None, chance=None, low=None, high=None), *where)
    assert (untold.low, untold.high) == (None, None)


def assessed(where: tuple[str, str], **shown: float | None) -> dict[str, Any]:
    """The part of an assessment of two episodes that a metric is taken from."""
    level, name = where
    ranking = {level: {"all": {name: {**shown, "n_episodes": 2}}}}
    return {"rankings": {"shown": ranking, "z-score": ranking}}
