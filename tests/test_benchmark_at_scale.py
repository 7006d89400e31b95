"""The benchmark at scale: what follows from its results, and that the page shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import at_scale

pytest.importorskip("distributed", reason="needs the extra scale: pip install 'dfstrans[scale]'")
ROOT = Path(__file__).resolve().parents[1]


def test_the_page_shows_the_file_of_results() -> None:
    rows = [json.loads(line) for line in (ROOT / at_scale.RESULTS).read_text(encoding="utf-8").splitlines()]
    page = (ROOT / at_scale.PAGE).read_text(encoding="utf-8")
    assert at_scale.with_results(page, rows) == page
    assert at_scale.with_results(page, rows[:-1]) != page


def test_hours_and_memory_follow_from_the_rate_of_a_worker() -> None:
    a_day, streaming = at_scale._on_paper(rate=100.0, megabytes=500)
    assert "1 000 000 recordings a day** of this size take 2.8 hours of one core, or 0.3 hours of eight cores" in a_day
    assert "with 4.0 GB" in a_day
    assert "10 000 machines** that send one such recording every 60 seconds send 167 per second" in streaming
    assert "takes 2 cores with 1.0 GB" in streaming


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_growth_is_measured_along_each_axis() -> None:
    rows = at_scale.measure_growth(1, {"recordings": (2, 4), "sensors": (3,), "segments": (2,)})
    assert [(row["axis"], row["size"], row["recordings"]) for row in rows] == [
        ("recordings", 2, 2),
        ("recordings", 4, 4),
        ("sensors", 3, at_scale.AT_ONCE),
        ("segments", 2, at_scale.AT_ONCE),
    ]
    assert all(row["milliseconds"] > 0 for row in rows)


@pytest.mark.slow
def test_scoring_is_measured_in_turns(tmp_path: Path) -> None:
    row = at_scale.measure_scoring(tmp_path, files=2, rounds=1)
    rate = row["recordings_per_second"]
    assert row["two_workers_over_one"] == pytest.approx(rate["two_workers"] / rate["one_worker"], rel=1e-2)
    assert row["dask_overhead"] == pytest.approx(rate["prediction"] / rate["one_worker"] - 1, abs=1e-2)
