from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dfstrans.lab.injection.page import PANELS, strength_figure, write_injection
from dfstrans.lab.injection.study import ConditionResult, Metric, StudyResult
from dfstrans.training.evaluation import ChanceCheck


def condition(kind: str, strength: float, unit: str, detected: int) -> ConditionResult:
    found = {"sensor_hit_rate": Metric(0.5, 0.1, 0.2, 0.8, 0.4)} if detected else {}
    return ConditionResult(kind, strength, unit, 4, detected, detected / 4, 0.75, 0.6, found)


RESULT = StudyResult(
    statements=("lag is left out: no two sensors <move> together",),
    training_episodes=70,
    training_planted=35,
    epochs=9,
    normal_tested=15,
    false_alarms_per_100_normal=6.7,
    threshold=0.625,
    threshold_note="so few that no false alarm is allowed",
    chance_check=ChanceCheck(False, "this detector is not shown to be better than guessing", "rank-sum test"),
    sensors=10,
    split="random",
    settings={},
    conditions=(
        condition("spike", 1, "spreads", 0),
        condition("spike", 10, "spreads", 3),
        condition("stuck", 30, "% of the episode", 4),
    ),
)


SOURCE = ("normal.csv", "dfstrans inject normal.csv --report STUDY --epochs 9")


def test_figure_has_a_row_per_kind_and_blanks_for_missing_strengths() -> None:
    figure = strength_figure(RESULT)
    assert len(figure.data) == len(PANELS)
    detected, sensor, _ = figure.data
    assert [list(row) for row in detected.z] == [[0.0, 0.75], [1.0, None]]
    assert [list(row) for row in sensor.z] == [[None, 0.5], [0.5, None]]
    texts = [one.text for one in figure.layout.annotations if one.text not in PANELS.values()]
    assert len(texts) == 4 * len(PANELS)
    assert "75%" in texts[1]
    assert "at 10" in texts[1]
    assert texts[3] == ""
    assert "50%" in texts[5]
    assert "of 3" in texts[5]


def test_panels_without_a_value_keep_the_columns_and_rows_of_the_others() -> None:
    nothing = replace(
        RESULT, conditions=tuple(replace(one, detected=0, recall=0.0, diagnosis={}) for one in RESULT.conditions)
    )
    layout = strength_figure(nothing).layout
    assert {axis.range for axis in (layout.xaxis, layout.xaxis2, layout.xaxis3)} == {(0.5, 2.5)}
    assert {axis.range for axis in (layout.yaxis, layout.yaxis2, layout.yaxis3)} == {(1.5, -0.5)}


def test_page_shows_chance_levels_and_is_self_contained(tmp_path: Path) -> None:
    page = write_injection(tmp_path / "report.html", RESULT, *SOURCE).read_text()
    assert "(0.10)" in page
    assert "30 % of the episode" in page
    assert "<td>1 spread</td>" in page
    assert "6.7" in page
    assert "normal episodes of normal.csv" in page
    assert "trained for 9 epochs" in page
    assert f"Command: {SOURCE[1]}" in page
    assert "Not distinguished from normal episodes at the strengths tested: spike, stuck." in page
    assert "Neither these episodes nor their faulty copies were used in training" in page
    assert "&lt;move&gt;" in page
    assert 'src="http' not in page


def test_page_explains_the_threshold_and_warns_of_guessing(tmp_path: Path) -> None:
    page = write_injection(tmp_path / "report.html", RESULT, *SOURCE).read_text()
    assert "This detector is not shown to be better than guessing." in page
    assert "from a probability of 0.625 on (so few that no false alarm is allowed)" in page
    good = replace(RESULT, chance_check=ChanceCheck(True, "this detector is better than guessing"))
    assert "guessing" not in write_injection(tmp_path / "good.html", good, *SOURCE).read_text().split("</style>")[1]


def test_one_epoch_is_singular(tmp_path: Path) -> None:
    page = write_injection(tmp_path / "report.html", replace(RESULT, epochs=1), *SOURCE).read_text()
    assert "trained for 1 epoch on" in page


def test_a_result_is_plain_data() -> None:
    content = RESULT.to_dict()
    assert content["conditions"][1]["diagnosis"]["sensor_hit_rate"]["chance"] == 0.1
    assert content["conditions"][0]["diagnosis"] == {}
    assert content["chance_check"]["better_than_guessing"] is False
    assert RESULT.conditions[1].value("segment_hit") is None
