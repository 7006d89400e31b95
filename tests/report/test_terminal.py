"""Diagnoses on a terminal: as many lines as one wants to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dfstrans.cli.diagnose import print_diagnoses
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.report.terminal import diagnoses_table
from tests.report.drawn import made_diagnosis


def contents(n: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        replace(made_diagnosis(name=f"run {i}", probability=(i + 1) / (n + 1))[0], **changes).to_dict()
        for i in range(n)
    ]


def test_the_surest_anomaly_comes_first() -> None:
    titles, rows = diagnoses_table(contents(3))
    assert titles == ("episode", "probability", "verdict", "sensor", "distance", "when", "attention")
    assert [row[0] for row in rows] == ["run 2", "run 1", "run 0"]
    assert rows[0] == ["run 2", "0.750", "anomalous", "S1", "40.0", "15 – 20 s", "supported"]
    assert rows[2][2] == "not anomalous"


def test_columns_without_content_are_left_out_and_causes_are_named_where_known() -> None:
    titles, _ = diagnoses_table(contents(2, trust=None))
    assert "attention" not in titles
    titles, rows = diagnoses_table(contents(2, resembles=(Resemblance("bump", 4, 5),)))
    assert titles[-1] == "likely cause"
    assert [row[-1] for row in rows] == ["bump (4 of 5)", ""]  # not anomalous: there is nothing to have a cause


def test_one_is_told_in_sentences_and_the_rest_of_many_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = contents(1)
    print_diagnoses([one])
    assert capsys.readouterr().out.strip() == one["summary"]
    print_diagnoses(contents(40))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 30 + 1
    assert lines[-1] == "… 10 more, see --html or --json"
