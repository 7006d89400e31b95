"""The page of a diagnosis: what it tells, and how large it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans.report.diagnosis_page import page_name, write_diagnosis, write_index, write_pages
from tests.report.drawn import made_diagnosis

MEGABYTE = 1e6


def words(page: Path) -> str:
    """The text that people read."""
    text = page.read_text(encoding="utf-8").split("<main>")[1].split("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]+>", " ", text, flags=re.DOTALL))


def test_a_page_tells_the_verdict_where_when_trust_and_health(tmp_path: Path) -> None:
    text = words(write_diagnosis(tmp_path / "run.html", *made_diagnosis()))
    assert "run &lt;1&gt; Anomalous: probability 90.0 %" in text
    assert "Look first at sensor S1" in text
    assert "from 15 to 20" in text
    assert "Attention is supported" in text
    assert "S2 stuck 40 % 1 %" in text
    assert "bump in S0 from 5 to 10" in text
    assert "S0 S1 15 – 20 3.0" in text  # the pair that hangs together otherwise
    headings = ("Where?", "When?", "What differs from normal?", "How far to trust it?", "Sensor health", "How to read")
    assert [text.index(heading) for heading in headings] == sorted(text.index(heading) for heading in headings)


def test_a_page_says_when_the_instrument_is_suspected_and_what_the_ranking_is(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 2))
    assert "Instrument fault suspected" in words(write_diagnosis(tmp_path / "a.html", diagnosis, recording))
    occluded = replace(diagnosis, occlusion=np.ones((6, 4)), health=())
    text = words(write_diagnosis(tmp_path / "b.html", occluded, recording))
    assert "ranked by what the decision loses" in text
    assert "Instrument fault suspected" not in text
    assert "No sensor looks unhealthy" in text


def test_a_page_without_reference_trust_or_interval_says_less_but_stands(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(probability=0.1)
    plain = replace(diagnosis, usual_course=None, trust=None, health=())
    text = words(write_diagnosis(tmp_path / "a.html", plain, replace(recording, nearest=None, interval=None)))
    assert "Not anomalous: probability 10.0 %" in text
    assert "where normal recordings run" not in text
    assert "(in points)" in text


def test_a_page_of_20_sensors_and_8000_points_stays_below_6_megabytes(tmp_path: Path) -> None:
    made = made_diagnosis(n_sensors=20, n_segments=80, segment_length=100)
    page = write_diagnosis(tmp_path / "run.html", *made)
    assert page.stat().st_size < 6 * MEGABYTE
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="', page.read_text(encoding="utf-8"))


def test_pages_of_a_folder_share_plotlys_code(tmp_path: Path) -> None:
    write_pages(tmp_path, [made_diagnosis(name="a"), made_diagnosis(name="b")])
    assert (tmp_path / "plotly.min.js").stat().st_size > MEGABYTE
    assert all((tmp_path / page_name(name)).stat().st_size < MEGABYTE for name in ("a", "b"))


def test_an_empty_index_says_so(tmp_path: Path) -> None:
    assert "No episode is called anomalous" in words(write_index(tmp_path / "index.html", []))
