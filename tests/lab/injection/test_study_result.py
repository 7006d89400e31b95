"""What a study of injected faults comes to: intervals, words, figure and page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dfstrans.lab.injection.page import PANELS, strength_figure, verdict, write_injection
from dfstrans.lab.injection.study import (
    METRICS,
    ConditionResult,
    Metric,
    StudyResult,
    assessed_metric,
    share_interval,
)
from dfstrans.training.evaluation import ChanceCheck


def condition(
    kind: str, strength: float, recall: float, roc_auc: float | None = 0.95, trials: int = 20
) -> ConditionResult:
    unit = {"spike": "standard deviations", "stuck": "% of the episode"}.get(kind, "")
    return ConditionResult(kind, strength, unit, trials, round(trials * recall), recall, roc_auc, 0.6, {})


RESULT = StudyResult(
    statements=("lag is skipped: no two sensors <move> together",),
    training_episodes=70,
    training_injected=35,
    epochs=9,
    normal_tested=15,
    false_alarms_per_100_normal=6.7,
    threshold=0.625,
    threshold_note="so few that no false alarm is allowed",
    chance_check=ChanceCheck(False, "this detector is not shown to be better than guessing", "rank-sum test"),
    sensors=10,
    split="random",
    settings={},
    conditions=tuple(
        replace(one, diagnosis={"sensor_hit_rate": Metric(0.5, 0.1, 0.2, 0.8, 0.4)} if one.detected else {})
        for one in (
            condition("spike", 1, 0.0, 0.75, trials=4),
            condition("spike", 10, 0.75, 0.75, trials=4),
            condition("stuck", 30, 1.0, 0.75, trials=4),
        )
    ),
)

# ---- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 7), (2, 2), (3, 20), (20, 20)])
def test_interval_of_a_share_is_wilsons(hits: int, n: int) -> None:
    z2, p = 1.9599639845400545**2, hits / n
    middle, half = p + z2 / (2 * n), (z2 * p * (1 - p) / n + (z2 / (2 * n)) ** 2) ** 0.5
    expected = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
    assert share_interval(hits / n, n) == pytest.approx(expected, abs=1e-9)


def test_recall_has_its_interval() -> None:
    content = condition("spike", 1, 0.0, trials=7).to_dict()
    assert (content["recall_low"], content["recall_high"]) == pytest.approx((0.0, 0.3543), abs=1e-4)
    untried = ConditionResult("spike", 1, "standard deviations", 0, 0, None, None, None, {}).to_dict()
    assert (untried["recall_low"], untried["recall_high"]) == (None, None)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("value", "chance", "interval"),
    [
        (1.0, 0.2, (0.3424, 1.0)),  # two right diagnoses of two leave a wide interval
        (1.0, 1.0, (1.0, 1.0)),  # certain, such as the best three of three sensors
        (None, None, (None, None)),
    ],
)
def test_interval_of_a_diagnosis_metric(name: str, value: Any, chance: Any, interval: tuple[Any, Any]) -> None:
    level, metric = METRICS[name]
    shown = {"value": value, "chance": chance, "low": value, "high": value, "n_episodes": 2}
    ranking = {level: {"all": {metric: shown}}}
    found = assessed_metric({"rankings": {"shown": ranking, "z-score": ranking}}, level, metric)
    assert (found.low, found.high) == pytest.approx(interval, abs=1e-4)


# ---- words ----------------------------------------------------------------------------------------------------------

RELIABLE = "found in at least 80 % of the trials"
SOMETIMES = "found sometimes, but not reliably at the strengths tested"
BELOW = "ranked above normal episodes, but never above the threshold"
HIDDEN = "not distinguished from normal episodes at the strengths tested"
FEW = "too few trials to tell"


@pytest.mark.parametrize(
    ("conditions", "normal", "said"),
    [
        pytest.param(
            [("drift", 1, 0.9), ("drift", 3, 0.5), ("drift", 10, 0.85), ("drift", 30, 1.0)],
            30,
            [f"{RELIABLE}: drift from 10 standard deviations on"],
            id="found only if all greater strengths are",
        ),
        pytest.param(
            [("stuck", 30, 0.8), ("gain", 1, 0.1, 0.5), ("gain", 3, 0.6), ("lag", 3, 0.05, 0.52)],
            30,
            [
                f"{RELIABLE}: stuck from 30 % of the episode on",
                f"{SOMETIMES}: gain (at most 60 %)",
                f"{HIDDEN}: lag",
            ],
            id="kinds are grouped",
        ),
        pytest.param(
            [("noise-burst", 1, 0.05, 0.5), ("noise-burst", 3, 0.0, 0.8), ("noise-burst", 10, 0.0, 0.9)],
            30,
            [f"{BELOW}: noise-burst (at 3, 10 standard deviations)"],
            id="ranked high but never detected",
        ),
        pytest.param([("stuck", 30, 0.0)], 30, [f"{BELOW}: stuck (at 30 % of the episode)"], id="with its unit"),
        pytest.param([("spike", 1, 0.9, 0.5)], 30, [f"{HIDDEN}: spike"], id="found by false alarms only"),
        pytest.param(
            [("drift", 1, 0.9, 0.5), ("drift", 3, 0.85), ("drift", 10, 1.0)],
            30,
            [f"{RELIABLE}: drift from 3 standard deviations on"],
            id="weakest strength looks normal",
        ),
        pytest.param(
            [("drift", 1, 0.85), ("drift", 3, 0.9, 0.5)],
            30,
            [f"{SOMETIMES}: drift (at most 85 %)"],
            id="greatest strength looks normal",
        ),
        pytest.param(
            [("spike", 1, 1.0, 1.0, 1), ("lag", 3, 0.0, 0.5)], 30, [f"{HIDDEN}: lag", f"{FEW}: spike"], id="one trial"
        ),
        pytest.param([("spike", 1, 1.0, 1.0)], 1, [f"{FEW}: spike"], id="one normal episode"),
        pytest.param([("spike", 1, 1.0, None)], 0, [f"{FEW}: spike"], id="no normal episode"),
    ],
)
def test_verdict(conditions: list[Any], normal: int, said: list[str]) -> None:
    study = replace(RESULT, normal_tested=normal, conditions=tuple(condition(*one) for one in conditions))
    assert verdict(study) == said


# ---- figure and page ------------------------------------------------------------------------------------------------


def test_figure_has_a_row_per_kind_and_blanks_for_missing_strengths() -> None:
    figure = strength_figure(RESULT)
    detected, sensor, _ = figure.data
    assert [list(row) for row in detected.z] == [[0.0, 0.75], [1.0, None]]
    assert [list(row) for row in sensor.z] == [[None, 0.5], [0.5, None]]
    texts = [one.text for one in figure.layout.annotations if one.text not in PANELS.values()]
    assert len(texts) == 4 * len(PANELS)
    for number, words in ((1, ("75 %", "at 10")), (5, ("50 %", "of 3"))):
        assert all(word in texts[number] for word in words)
    assert texts[3] == ""


def test_panels_without_a_value_keep_the_columns_and_rows_of_the_others() -> None:
    nothing = tuple(replace(one, detected=0, recall=0.0, diagnosis={}) for one in RESULT.conditions)
    layout = strength_figure(replace(RESULT, conditions=nothing)).layout
    assert {axis.range for axis in (layout.xaxis, layout.xaxis2, layout.xaxis3)} == {(0.5, 2.5)}
    assert {axis.range for axis in (layout.yaxis, layout.yaxis2, layout.yaxis3)} == {(1.5, -0.5)}


def written(folder: Path, result: StudyResult) -> str:
    content = {"recordings": "normal.csv", "command": "dfstrans inject normal.csv --epochs 9", **result.to_dict()}
    page = write_injection(folder, result, content).read_text()
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(content))
    return page


def test_page_shows_chance_levels_and_is_self_contained(tmp_path: Path) -> None:
    page = written(tmp_path, RESULT)
    for words in (
        "(0.10)",
        "30 % of the episode",
        "<td>1 standard deviation</td>",
        "6.7",
        "normal episodes of normal.csv",
        "trained for 9 epochs",
        "Command: dfstrans inject normal.csv --epochs 9",
        "Not distinguished from normal episodes at the strengths tested: spike, stuck.",
        "Neither these episodes nor their faulty copies were used in training",
        "&lt;move&gt;",
        "This detector is not shown to be better than guessing.",
        "at a probability of at least 0.625 (so few that no false alarm is allowed)",
    ):
        assert words in page
    assert 'src="http' not in page


def test_page_of_a_good_detector_does_not_warn(tmp_path: Path) -> None:
    good = replace(RESULT, epochs=1, chance_check=ChanceCheck(True, "this detector is better than guessing"))
    page = written(tmp_path, good)
    assert "guessing" not in page.split("</style>")[1]
    assert "trained for 1 epoch on" in page


def test_result_is_plain_data() -> None:
    content = RESULT.to_dict()
    assert content["conditions"][1]["diagnosis"]["sensor_hit_rate"]["chance"] == 0.1
    assert content["conditions"][0]["diagnosis"] == {}
    assert content["chance_check"]["better_than_guessing"] is False
    assert RESULT.conditions[1].value("segment_hit") is None
