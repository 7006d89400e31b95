from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dfstrans.cli.diagnoses import print_diagnoses
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.report.index import diagnoses_table, write_index
from tests.report.drawn import made_diagnosis
from tests.report.reading import words

CAUSE = (Resemblance("bump", 4, 5), Resemblance("rust", 1, 5))


def contents(n: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        replace(made_diagnosis(name=f"run {i}", probability=(i + 1) / (n + 1))[0], **changes).to_dict()
        for i in range(n)
    ]


def test_the_most_probable_anomaly_comes_first() -> None:
    titles, rows = diagnoses_table(contents(3))
    assert titles == ("episode", "probability", "verdict", "sensor", "distance", "when", "called by", "attention")
    assert [row[0] for row in rows] == ["run 2", "run 1", "run 0"]
    assert rows[0] == ["run 2", "0.750", "anomalous", "S1", "40.0", "15 – 20 s", "both", "supported"]
    assert rows[2][2] == "normal"


def test_empty_columns_are_left_out_and_only_anomalies_have_a_likely_cause() -> None:
    titles, _ = diagnoses_table(contents(2, trust=None))
    assert "attention" not in titles
    titles, rows = diagnoses_table(contents(2, resembles=CAUSE))
    assert titles[-1] == "likely cause"
    assert [row[-1] for row in rows] == ["bump (4 of 5)", ""]


def test_a_row_names_the_members_that_called_it_and_a_missing_baseline() -> None:
    def called_by(network: float, trees: float) -> str:
        titles, ((*cells,),) = diagnoses_table(contents(1, members={"network": network, "trees": trees}))
        return cells[titles.index("called by")] if "called by" in titles else ""

    found = [called_by(*members) for members in ((0.9, 0.8), (0.2, 0.8), (0.9, 0.1), (0.4, 0.4))]
    assert found == ["both", "trees only", "network only", "neither alone"]
    alone, _ = diagnoses_table(contents(1, members={}))
    assert "called by" not in alone
    assert "baseline" not in alone
    titles, rows = diagnoses_table(contents(1, machine="lift-7", baseline="fleet"))
    assert rows[0][titles.index("baseline")] == "none"


def test_terminal_shows_one_diagnosis_and_counts_omitted_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (one,) = contents(1)
    print_diagnoses([one])
    assert capsys.readouterr().out.strip() == one["summary"]
    print_diagnoses(contents(40))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 30 + 1
    assert lines[-1] == "… 10 more, see --html or --json"


def test_the_index_page_has_the_same_rows_without_empty_columns(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    assert "15 – 20 s both supported run 0" in words(write_index(page, contents(2)))
    tested, untested = contents(1), contents(1, trust=None)
    assert "attention" in words(write_index(page, tested + untested))
    assert "attention" not in words(write_index(page, untested))
    assert "bump (4 of 5)" in words(write_index(page, contents(1, resembles=CAUSE)))
    assert "2 anomalous (probability of at least 0.500; 2 of them not seen before)" in words(
        write_index(page, contents(3, novelty=2.0))
    )
    assert "No episode is anomalous" in words(write_index(page, []))
