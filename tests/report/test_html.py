from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.data.truth import Truth
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.diagnosis.scores import AttentionScores
from dfstrans.lab.elevator.demo import run_demo
from dfstrans.report.evaluation_page import agreement, write_report
from tests.report.drawn import bands_with
from tests.tiny import TINY, tiny_episodes

EPISODES = tiny_episodes()
BOUNDS = np.array([[0, 0.16], [0.16, 0.32], [0.32, 0.48]])


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser(**TINY).fit(EPISODES)


def diagnosis_of(
    name: str, deviation: np.ndarray, probability: float = 0.9, resembles: tuple[Resemblance, ...] = ()
) -> Diagnosis:
    """A diagnosis that knows nothing but how far each (segment, sensor) is from normal."""
    t, s = deviation.shape
    flat = np.zeros((t, s))
    attention = AttentionScores(np.ones((s, t, t)) / t, np.ones((t, s, s)) / s)
    return Diagnosis(
        attention.temporal_attention,
        attention.spatial_attention,
        episode_id=name,
        probability=probability,
        logit=0.0,
        threshold=0.5,
        sensors=EPISODES.sensors,
        segment_bounds=BOUNDS,
        deviation=deviation,
        usual_course=np.zeros((t, s, 2)),
        contribution=flat,
        level=flat,
        bands=bands_with(attention),
        health=(),
        resembles=resembles,
    )


def test_the_report_is_one_file_that_asks_for_nothing_from_outside(detector: Diagnoser, tmp_path: Path) -> None:
    test = EPISODES[:12]
    diagnoses = list(detector.diagnose(test))
    recording = recordings_of(detector, test)
    shown = {row: recording(row) for row in (0, 1)}
    write_report(tmp_path / "report.html", "A <title>", detector, test, diagnoses, shown, "pages/")
    page = (tmp_path / "report.html").read_text()
    assert "A &lt;title&gt;" in page
    assert str(test.ids[0]) in page
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page)


def test_beside_a_recording_stands_a_normal_one_even_if_others_are_too_short(detector: Diagnoser) -> None:
    normal = EPISODES[EPISODES.require_labels() == 0]
    series = [normal.values[0], normal.values[1][:, :3], normal.values[2]]
    beside = Episodes.from_arrays(series, [0, 0, 1], sensors=EPISODES.sensors, ids=["long", "short", "faulty"])
    recording = recordings_of(detector, normal[3], beside)(0)
    assert recording.nearest is not None
    assert recording.nearest.id == "long"
    assert recordings_of(detector, normal[3])(0).nearest is None


def test_agreement_counts_hits_and_chance_worked_by_hand() -> None:
    anomalous = EPISODES[EPISODES.require_labels() == 1][:2]

    def naming(row: int, sensor: str, segment: int) -> Diagnosis:
        place = np.outer(np.eye(3)[segment], np.array(EPISODES.sensors) == sensor)
        return diagnosis_of(str(anomalous.ids[row]), place)

    truth = [anomalous.faults[row][0] for row in range(2)]  # type: ignore[index]
    wrong = next(name for name in EPISODES.sensors if name not in truth[1].sensors)
    found = agreement(
        anomalous,
        [naming(0, truth[0].sensors[0], truth[0].start // 16), naming(1, wrong, truth[1].start // 16)],
    )
    assert found is not None
    assert (found["episodes"], found["sensor"], found["moment"]) == (2, 0.5, 1.0)
    assert found["sensor_chance"] == pytest.approx(1 / 3)


def test_nothing_detected_gives_no_agreement() -> None:
    quiet = [diagnosis_of(name, np.zeros((3, 3)), probability=0.1) for name in EPISODES.ids.tolist()]
    assert agreement(EPISODES, quiet) is None


def test_agreement_takes_graded_truth_where_there_is_one() -> None:
    relevance = np.zeros((1, 3, 3), dtype=np.float16)
    relevance[0, 1, 2] = 1.5
    anomalous = replace(
        EPISODES[EPISODES.require_labels() == 1][0], truth=Truth(16, relevance, np.zeros((1, 3), np.int8), ("work",))
    )
    first_of_the_last = np.outer([1.0, 0, 0], [0.0, 0, 1])
    kind = anomalous.fault_kinds()[0]
    cause = (Resemblance(kind, 4, 5), Resemblance("other", 1, 5))
    found = agreement(anomalous, [diagnosis_of("a", first_of_the_last, resembles=cause)])
    assert found is not None
    assert (found["sensor"], found["moment"], found["cause"]) == (1.0, 0.0, 1.0)
    assert (found["sensor_chance"], found["moment_chance"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


@pytest.mark.slow
def test_planted_anomalies_are_found_and_their_place_is_named() -> None:
    episodes = planted_episodes(seed=0)
    train, validation, test = episodes.split(0)
    detector = Diagnoser(epochs=25, learning_rate=1e-3).fit(train, validation=validation)
    assert detector.evaluate(test).f1 >= 0.95
    found = agreement(test, list(detector.diagnose(test)))
    assert found is not None
    assert found["sensor"] > 0.7
    assert found["moment"] > 0.7


@pytest.mark.slow
def test_the_demo_names_the_right_cause_of_a_bump_and_of_friction(tmp_path: Path) -> None:
    result = run_demo(tmp_path, remark=lambda _: None)
    rightly_named = {kind for cause, kind in result["causes"].values() if cause == kind}
    assert "bump" in rightly_named
    assert rightly_named & {"lubrication", "misalignment"}
    report = Path(result["report"]).read_text()
    assert re.findall(r'href="(diagnoses/[^"]+)"', report)
    assert all((tmp_path / link).is_file() for link in re.findall(r'href="(diagnoses/[^"]+)"', report))
    assert Path(result["diagnoses"]).is_file()
