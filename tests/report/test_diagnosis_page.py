from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.schema import ComparedWith, Resemblance
from dfstrans.report.diagnosis_page import describe_known_faults, write_diagnosis, write_pages
from dfstrans.report.page import page_name
from tests.report.drawn import made_diagnosis
from tests.report.reading import links_outside, words

MEGABYTE = 1e6


def test_page_shows_verdict_sensors_moments_trust_and_health(tmp_path: Path) -> None:
    text = words(write_diagnosis(tmp_path / "run.html", *made_diagnosis()))
    assert "run &lt;1&gt; Anomalous: probability 90.0 %" in text
    assert "Start with sensor S1" in text
    assert "the time from 15 to 20 s" in text
    assert "Attention is supported" in text
    assert "S2 stuck 40 % 1 %" in text
    assert "bump in S0, 5 – 10 s ." in text
    assert re.search(r"Sensor pairs with unusual coupling .* S0 S1 15 – 20 s 3\.0", text)
    assert "sensor S3, 1.5 times the normal limit" in text
    assert "10 – 20 s, 2.0 times the normal limit" in text
    headings = ("Where?", "When?", "What differs from normal?", "can you trust this?", "Sensor health", "How to read")
    assert [text.index(heading) for heading in headings] == sorted(text.index(heading) for heading in headings)


def test_page_says_who_called_it_and_whether_its_machine_has_a_baseline(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    text = words(write_diagnosis(tmp_path / "a.html", diagnosis, recording))
    assert "Committee: network 0.90, trees 0.80. It resembles" not in text
    assert "Committee: network 0.90, trees 0.80." in text
    assert "disagree" not in text
    assert "baseline" not in text
    doubtful = replace(diagnosis, members={"network": 0.9, "trees": 0.1}, machine="lift 7", baseline="fleet")
    text = words(write_diagnosis(tmp_path / "b.html", doubtful, recording))
    assert "They disagree: anomalous to the network, normal to the trees." in text
    assert "Machine lift 7 has no baseline, so this recording is compared with the fleet" in text
    assert "dfstrans commission MODEL RECORDINGS --machine &#39;lift 7&#39;" in text
    known = replace(diagnosis, machine="lift 7", baseline="own")
    assert "with the baseline of machine lift 7" in words(write_diagnosis(tmp_path / "c.html", known, recording))
    assert "learned little" not in text
    alone = replace(diagnosis, members={}, learned_little=True)
    text = words(write_diagnosis(tmp_path / "d.html", alone, recording))
    assert "Committee" not in text
    assert "The network has learned little" in text.split("can you trust this?")[1]
    surer = replace(diagnosis, members={"network": 0.8, "trees": 0.7})
    text = words(write_diagnosis(tmp_path / "e.html", surer, recording))
    assert "Committee: network 0.80, trees 0.70; together 0.90, more than either alone, as calibrated" in text


def test_page_of_trees_shows_no_attention(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for shown, one in ((True, diagnosis), (False, replace(diagnosis, members={}, network_logit=None, trust=None))):
        text = words(write_diagnosis(tmp_path / "page.html", one, recording))
        for heading in ("Raw attention", "unusual coupling", "as the network sees them"):
            assert (heading in text) == shown
        assert ("The trees decide alone; they have no attention to show." in text) != shown


def test_page_says_why_trees_explain_it_though_there_is_a_network(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    little = {"members": {"network": 0.9, "trees": 0.8}, "learned_little": True}
    for changed, why in (
        (
            {"members": {"network": 0.1, "trees": 0.9}},
            "Only the trees call this recording anomalous, so they explain it",
        ),
        (little, "The network has learned little (see the model card), so the trees explain this recording"),
    ):
        one = replace(diagnosis, trust=None, **changed)
        assert one.to_dict()["explained_by"] == "trees"
        assert why in one.summary()
        text = words(write_diagnosis(tmp_path / "page.html", one, recording))
        assert why in text
        for other in ("as the network sees them", "Raw attention", "so do not rely on the sensors"):
            assert other not in text + one.summary()


def test_page_and_summary_name_the_nearest_known_cases_also_of_numbered_kinds(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    one = replace(diagnosis, resembles=(Resemblance("3", 3, 5), Resemblance("7", 2, 5)))
    assert "resembles 3 (3 of 5 nearest known cases; others: 7)" in one.summary()
    text = words(write_diagnosis(tmp_path / "page.html", one, recording))
    assert "It resembles 3 (3 of 5 nearest known cases; others: 7)." in text


def test_page_names_a_suspected_instrument_and_the_ranking(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 2))
    assert "Instrument fault suspected" in words(write_diagnosis(tmp_path / "a.html", diagnosis, recording))
    beside = np.ones((6, 4))
    beside[5, 1:3] = 12, 9  # another sensor is further from normal
    text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, deviation=beside), recording))
    assert "Instrument fault suspected. S2 is among the sensors to look at" in text
    assert "Then look at sensor S1" in text
    occluded = replace(diagnosis, occlusion=np.linspace(0.1, 2.4, 24).reshape(6, 4), health=())
    text = words(write_diagnosis(tmp_path / "b.html", occluded, recording))
    assert "one sensor at one moment is replaced by its normal signal" in text
    assert "attends to" not in text.split("Most relevant signals")[0]
    assert re.search(
        r"drop in score S3 [\w ]+, strongest at 25 – 30 s 2\.40 S2 [\w ]+, strongest at 25 – 30 s 2\.30 .* When\?", text
    )
    assert "20 – 30 s S3, S2, S1; segments 4 – 5 2.40" in text  # 2.4 + 2.0 of 8.4 are more than half
    assert "Instrument fault suspected" not in text
    assert "No sensor looks unhealthy" in text
    assert diagnosis.trust is not None
    unsupported = replace(diagnosis, trust=replace(diagnosis.trust, support="not supported"))
    text = words(write_diagnosis(tmp_path / "c.html", unsupported, recording))
    assert "Replacing a single sensor at a single moment" in text


def test_sensors_whose_drop_is_immaterial_are_not_named_as_causes(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(strange=(3, 2))
    drops = np.zeros((6, 4))
    drops[3], drops[4, 2] = (0.0, 0.24, 0.6, 0.3), 0.22
    found = replace(diagnosis, occlusion=drops, health=())
    assert [(one.sensor, one.material) for one in found.top_sensors(3)] == [("S2", True), ("S3", True), ("S1", False)]
    assert [(one.segment, one.sensors) for one in found.marked_segments] == [(3, ["S2", "S3"])]
    text = words(write_diagnosis(tmp_path / "a.html", found, recording))
    assert "S1 immaterial: the score hardly changes without it, strongest at 15 – 20 s 0.24" in text
    assert "S2, S3, S1" not in text
    assert all(one.material for one in replace(found, occlusion=None).top_sensors(4))


def test_page_omits_missing_normal_range_trust_and_interval(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis(probability=0.1)
    plain = replace(diagnosis, normal_range=None, trust=None, health=(), clock=Clock("points"))
    text = words(write_diagnosis(tmp_path / "a.html", plain, replace(recording, nearest=None, interval=None)))
    assert "Not anomalous: probability 10.0 %" in text
    assert "range of normal recordings" not in text
    assert "from 15 to 20 points" in text
    assert "time in points" in (tmp_path / "a.html").read_text()


def test_adjacent_segments_merge_into_one_moment_per_sensor(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    deviation = np.ones((6, 4))
    deviation[3, 1], deviation[4, 1], deviation[0, 2], deviation[2, 1], deviation[5, 0] = 40, 30, 20, 10, 5
    text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, deviation=deviation, health=()), recording))
    where, when = text.split("When?")[0], text.split("When?")[1].split("Most relevant signals")[0]
    assert re.search(
        r"S1 \S[\w ]+, strongest at 15 – 20 s 40 S2 \S[\w ]+, strongest at 0 – 5 s 20 "
        r"S0 \[m\] [\w ]+, strongest at 25 – 30 s 5.0",
        where,
    )
    assert "15 – 25 s S1; segments 3 – 4 40" in when
    assert "segment 0" not in when  # segments 3 and 4 carry 39 + 29 of 39 + 29 + 19 + 9 + 4 beyond normal
    assert "the time from 15 to 25 s , especially 15 to 20 s" in where


def test_a_sensor_that_is_normal_at_a_moment_is_not_named_there(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for other, named in ((9.0, "S1"), (14.0, "S1, S3")):
        deviation = np.ones((6, 4))
        deviation[3, 1], deviation[3, 3] = 40, other
        text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, deviation=deviation), recording))
        assert f"15 – 20 s {named}; segment 3 40" in text


def test_every_ranked_sensor_links_to_its_signal(tmp_path: Path) -> None:
    page = write_diagnosis(tmp_path / "a.html", *made_diagnosis(n_sensors=7)).read_text()
    links = re.findall(r'href="#(signal-\d)">', page)
    assert links == [f"signal-{n}" for n in range(1, 6)]
    tops = [float(page.split(f'id="{link}" style="top: ')[1].split("px")[0]) for link in links]
    assert tops == sorted(tops)
    assert 0 <= tops[0] < 20
    assert np.ptp([after - before for before, after in pairwise(tops)]) <= 1  # panels of equal height


def test_known_faults_are_described_in_few_words() -> None:
    _, recording = made_diagnosis()
    many = Fault(0, 60, tuple(f"sensor {i}" for i in range(9)), "rust")
    everywhere = replace(recording, episode=recording.episode._replace(faults=(many,)))
    assert (
        describe_known_faults(everywhere, Clock("s")) == "rust in sensor 0, sensor 1, sensor 2 and 6 more, throughout"
    )


def test_a_page_of_20_sensors_and_8000_points_stays_below_6_megabytes(tmp_path: Path) -> None:
    page = write_diagnosis(tmp_path / "run.html", *made_diagnosis(n_sensors=20, n_segments=80, segment_length=100))
    assert page.stat().st_size < 6 * MEGABYTE
    assert not links_outside(page)


def test_pages_of_a_folder_share_plotlys_code(tmp_path: Path) -> None:
    write_pages(tmp_path, [made_diagnosis(name="a"), made_diagnosis(name="b")])
    assert (tmp_path / "plotly.min.js").stat().st_size > MEGABYTE
    assert all((tmp_path / page_name(name)).stat().st_size < MEGABYTE for name in ("a", "b"))


def test_page_says_whose_normal_range_it_shows_and_why_there_is_no_similar_recording(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for compared, said in (
        (ComparedWith("", 30, ""), "range of 30 normal recordings most similar"),
        (ComparedWith("m1", 7, ""), "range of 7 normal recordings of m1 most similar"),
        (
            ComparedWith("", 30, "it is not known which machine this is"),
            "range of 30 normal recordings of all machines",
        ),
    ):
        text = words(write_diagnosis(tmp_path / "a.html", replace(diagnosis, compared_with=compared), recording))
        assert said in text
        assert (f"The range is that of all machines: {compared.why_all}." in text) == bool(compared.why_all)
        assert "No similar normal recording" not in text
    alone = replace(recording, nearest=None, why_no_nearest="none of these recordings is labelled normal")
    text = words(write_diagnosis(tmp_path / "b.html", diagnosis, alone))
    assert "No similar normal recording is shown: none of these recordings is labelled normal." in text
