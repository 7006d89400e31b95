from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser
from dfstrans.demo import run_demo
from dfstrans.diagnosis.diagnosis import Diagnosis, Relevances, diagnose
from dfstrans.report.html import agreement, write_report
from tests.tiny import TINY, tiny_episodes

EPISODES = tiny_episodes()


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser(**TINY).fit(EPISODES)


def test_the_report_is_one_file_that_asks_for_nothing_from_outside(detector: Diagnoser, tmp_path: Path) -> None:
    test = EPISODES[:12]
    diagnoses = diagnose(detector, test, normal=EPISODES[EPISODES.require_labels() == 0])
    write_report(tmp_path / "report.html", "A <title>", detector, test, diagnoses, shown=[0, 1])
    page = (tmp_path / "report.html").read_text()
    assert "A &lt;title&gt;" in page
    assert str(test.ids[0]) in page
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page)


def test_a_diagnosis_of_normal_against_itself_has_no_excess(detector: Diagnoser) -> None:
    normal = EPISODES[EPISODES.require_labels() == 0][0]
    (diagnosis,) = diagnose(detector, normal, normal=normal)
    for excess in (diagnosis.excess.sensor, diagnosis.excess.segment, diagnosis.excess.cell):
        np.testing.assert_allclose(excess, 0, atol=1e-6)
    np.testing.assert_allclose(diagnosis.segment_bounds, [[0, 0.16], [0.16, 0.32], [0.32, 0.48]])
    assert diagnosis.episode_id in diagnosis.summary()


def test_agreement_counts_hits_and_chance_worked_by_hand() -> None:
    anomalous = EPISODES[EPISODES.require_labels() == 1][:2]
    bounds = np.array([[0, 0.16], [0.16, 0.32], [0.32, 0.48]])

    def naming(row: int, sensor: str, segment: int) -> Diagnosis:
        one_hot = Relevances((np.array(EPISODES.sensors) == sensor).astype(float), np.eye(3)[segment], np.zeros((3, 3)))
        return Diagnosis(str(anomalous.ids[row]), 0.9, True, EPISODES.sensors, bounds, one_hot)

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
    empty = Relevances(np.zeros(3), np.zeros(3), np.zeros((3, 3)))
    quiet = [Diagnosis(i, 0.1, False, EPISODES.sensors, np.zeros((3, 2)), empty) for i in EPISODES.ids.tolist()]
    assert agreement(EPISODES, quiet) is None


@pytest.mark.slow
def test_the_demo_finds_the_planted_anomalies_and_names_their_place(tmp_path: Path) -> None:
    result = run_demo(tmp_path, remark=lambda _: None)
    assert result["metrics"]["test"]["f1"] >= 0.95
    assert result["agreement"]["sensor"] > 0.7
    assert result["agreement"]["moment"] > 0.7
    assert Path(result["report"]).is_file()
