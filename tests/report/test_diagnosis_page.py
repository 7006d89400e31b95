"""The page of a diagnosis: what it tells, and how large it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.report.diagnosis_page import known_truth, page_name, write_diagnosis, write_index, write_pages
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
    assert "the time from 15 to 20 s" in text
    assert "Attention is supported" in text
    assert "S2 stuck 40 % 1 %" in text
    assert "bump in S0, 5 – 10 s ." in text
    assert "S0 S1 15 – 20 s 3.0" in text  # the pair that hangs together otherwise
    assert "sensor S3, 1.5 times the normal limit" in text
    assert "10 – 20 s, 2.0 times the normal limit" in text
    headings = ("Where?", "When?", "What differs from normal?", "How far to trust it?", "Sensor health", "How to read")
    assert [text.index(heading) for heading in headings] == sorted(text.index(heading) for heading in headings)


def test_a_page_says_when_the_instrument_is_suspected_and_what_the_ranking_is(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 2))
    assert "Instrument fault suspected" in words(write_diagnosis(tmp_path / "a.html", diagnosis, recording))
    falls = np.linspace(0.1, 2.4, 24).reshape(6, 4)
    occluded = replace(diagnosis, occlusion=falls, health=())
    text = words(write_diagnosis(tmp_path / "b.html", occluded, recording))
    assert "ranked by what the decision loses" in text
    assert re.search(r"the decision loses S3 .* 2\.40 S2 .* 2\.30 .* When\?", text)
    assert re.search(r"When\?.* 5 – 30 s segments 1 – 5 \S+ S3, S2 2\.40", text)
    assert "Instrument fault suspected" not in text
    assert diagnosis.trust is not None
    unsupported = replace(diagnosis, trust=replace(diagnosis.trust, support="not supported"))
    assert "No single sensor at one moment decides it" in words(
        write_diagnosis(tmp_path / "c.html", unsupported, recording)
    )
    assert "No sensor looks unhealthy" in text


def test_a_page_of_an_older_model_says_which_scores_have_no_band(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    assert "before it kept a band" not in words(write_diagnosis(tmp_path / "a.html", diagnosis, recording))
    known = ("global_spatial_relevance", "global_temporal_relevance", "spatial_attention")
    older = replace(diagnosis, bands={name: diagnosis.bands[name] for name in known})
    text = words(write_diagnosis(tmp_path / "b.html", older, recording))
    assert "so that of A^(s), a^(s), A^G, b^(τ), B^G nothing is marked" in text


def test_a_page_without_reference_trust_or_interval_says_less_but_stands(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(probability=0.1)
    plain = replace(diagnosis, usual_course=None, trust=None, health=(), time_unit="points")
    text = words(write_diagnosis(tmp_path / "a.html", plain, replace(recording, nearest=None, interval=None)))
    assert "Not anomalous: probability 10.0 %" in text
    assert "where normal recordings run" not in text
    assert "from 15 to 20 points" in text
    assert "time in points" in (tmp_path / "a.html").read_text()


def test_each_sensor_has_its_own_worst_moment_and_neighbouring_moments_are_one(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    deviation = np.ones((6, 4))
    deviation[3, 1], deviation[4, 1], deviation[0, 2], deviation[2, 1], deviation[5, 0] = 40, 30, 20, 10, 5
    text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, deviation=deviation, health=()), recording))
    where, when = text.split("When?")[0], text.split("When?")[1].split("The signals that matter")[0]
    assert re.search(
        r"S1 \S[\w ]+, most at 15 – 20 s 40 .* S2 \S[\w ]+, most at 0 – 5 s 20 .* S0 \S[\w ]+, most at 25 – 30 s 5.0",
        where,
    )
    assert "15 – 25 s segments 3 – 4 40 S1" in when
    assert "0 – 5 s segment 0 20 S2" in when
    assert "segments 2" not in when  # a third as far from normal as the strongest moment is not worth a mark
    assert "the time from 15 to 25 s , most of all 15 to 20 s" in where


def test_a_sensor_that_is_normal_at_a_moment_is_not_named_beside_it(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for other, named in ((1.4, "S1 The signals"), (9.0, "S1, S3 The signals")):
        deviation = np.ones((6, 4))
        deviation[3, 1], deviation[3, 3] = 40, other
        text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, deviation=deviation), recording))
        assert f"15 – 20 s segment 3 40 {named}" in text


def test_the_index_has_the_vote_beside_a_likely_cause(tmp_path: Path) -> None:
    diagnosis = replace(made_diagnosis()[0], resembles=(Resemblance("bump", 3, 5), Resemblance("rust", 2, 5)))
    assert "bump (3 of 5)" in words(write_index(tmp_path / "i.html", [diagnosis.to_dict()]))


def test_the_known_truth_is_told_in_few_words(tmp_path: Path) -> None:
    _, recording = made_diagnosis()
    many = Fault(0, 60, tuple(f"sensor {i}" for i in range(9)), "rust")
    everywhere = replace(recording, episode=recording.episode._replace(faults=(many,)))
    assert known_truth(everywhere) == "rust in sensor 0, sensor 1, sensor 2 and 6 more, throughout"


def test_the_index_has_no_column_that_is_empty(tmp_path: Path) -> None:
    diagnosis, _ = made_diagnosis()
    judged, not_judged = diagnosis.to_dict(), replace(diagnosis, trust=None).to_dict()
    assert "attention" in words(write_index(tmp_path / "i.html", [judged, not_judged]))
    assert "attention" not in words(write_index(tmp_path / "i.html", [not_judged]))


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
