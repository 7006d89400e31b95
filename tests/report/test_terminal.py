"""Diagnoses on a terminal: as many lines as one wants to read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from dfstrans.diagnosis.causes import Resemblance
from dfstrans.report.terminal import diagnoses_text
from tests.report.drawn import made_diagnosis


def contents(n: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        replace(made_diagnosis(name=f"run {i}", probability=(i + 1) / (n + 1))[0], **changes).to_dict()
        for i in range(n)
    ]


def test_a_single_diagnosis_is_told_in_sentences() -> None:
    (one,) = contents(1)
    assert diagnoses_text([one]) == one["summary"]


def test_several_have_a_line_each_the_surest_anomaly_first() -> None:
    lines = diagnoses_text(contents(3)).splitlines()
    assert lines[0].split() == ["episode", "probability", "verdict", "sensor", "when", "attention"]
    assert [line[:5] for line in lines[1:]] == ["run 2", "run 1", "run 0"]
    assert re.split(" {2,}", lines[1]) == ["run 2", "0.750", "anomalous", "S1", "15 – 20 s", "supported"]
    assert "not anomalous" in lines[3]


def test_columns_without_content_are_left_out_and_causes_are_named_where_known() -> None:
    assert "attention" not in diagnoses_text(contents(2, trust=None))
    shown = diagnoses_text(contents(2, resembles=(Resemblance("bump", 4, 5),))).splitlines()
    assert shown[0].endswith("likely cause")
    assert shown[1].endswith("bump")
    assert not shown[2].endswith("bump")  # not anomalous: there is nothing to have a cause


def test_the_rest_of_many_is_counted() -> None:
    lines = diagnoses_text(contents(40)).splitlines()
    assert len(lines) == 1 + 30 + 1
    assert lines[-1] == "… 10 more, see --html or --json"
