from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.data.truth import GradedTruth
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.lab.elevator.demo import run_demo
from dfstrans.report.evaluation_page import agreement, write_report
from dfstrans.training.calibration import Calibration
from dfstrans.training.committee import Committee
from tests.report.drawn import made_diagnosis
from tests.report.reading import links_outside, words
from tests.tiny import TINY, tiny_episodes

EPISODES = tiny_episodes()
ANOMALOUS = EPISODES[EPISODES.require_labels() == 1]


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser.from_settings(**TINY).fit(EPISODES)


def diagnosis_of(segment: int, sensor: str, **changes: Any) -> Diagnosis:
    """A diagnosis of a tiny episode that ranks one cell first."""
    diagnosis, _ = made_diagnosis(3, 3, 16, strange=(segment, EPISODES.sensors.index(sensor)))
    return replace(
        diagnosis, sensors=EPISODES.sensors, segment_bounds=np.array([[0, 16], [16, 32], [32, 48]]) / 100, **changes
    )


def test_the_report_is_one_file_that_loads_nothing_else(detector: Diagnoser, tmp_path: Path) -> None:
    test = EPISODES[:12]
    diagnoses = list(detector.diagnose(test))
    recording = recordings_of(detector, test)
    page = write_report(
        tmp_path / "report.html",
        "A <title>",
        test,
        diagnoses,
        {row: recording(row) for row in (0, 1)},
        "pages/",
        evaluation=detector.evaluate(test),
        threshold=detector.threshold_,
        calibration=detector.calibration_,
        log=detector.log_,
        best_epoch=detector.best_epoch_,
        committee=Committee(
            network_weight=0.4,
            network_weight_on_fleet=0.3,
            network=Calibration(),
            trees=Calibration(),
            note="why",
            pr_auc={"test": {"trees": 0.875}},
        ),
        commissioned=["lift-7 was never seen"],
    )
    text = words(page)
    assert "Network and trees decide together: why. PR-AUC of each alone: trees 0.875" in text
    assert "Lift-7 was never seen." in text
    assert "A &lt;title&gt;" in text
    assert f"{test.ids[0]} : probability {diagnoses[0].probability:.3f}" in text
    assert re.search(r"\d\.\d{3} F1 at the threshold", text)
    assert not links_outside(page)


def test_a_normal_recording_is_found_even_if_others_are_too_short(detector: Diagnoser) -> None:
    normal = EPISODES[EPISODES.require_labels() == 0]
    series = [normal.values[0], normal.values[1][:, :3], normal.values[2]]
    beside = Episodes.from_arrays(series, [0, 0, 1], sensors=EPISODES.sensors, ids=["long", "short", "faulty"])
    recording = recordings_of(detector, normal[3], beside)(0)
    assert recording.nearest is not None
    assert recording.nearest.id == "long"
    assert recordings_of(detector, normal[3])(0).nearest is None


def test_agreement_counts_hits_and_chance_worked_by_hand() -> None:
    truth = [ANOMALOUS.faults[row][0] for row in range(2)]  # type: ignore[index]
    wrong = next(name for name in EPISODES.sensors if name not in truth[1].sensors)
    named = [diagnosis_of(truth[0].start // 16, truth[0].sensors[0]), diagnosis_of(truth[1].start // 16, wrong)]
    found = agreement(ANOMALOUS[:2], named)
    assert found is not None
    assert (found["episodes"], found["sensor"], found["moment"]) == (2, 0.5, 1.0)
    assert found["sensor_chance"] == pytest.approx(1 / 3)
    assert agreement(ANOMALOUS[:2], [replace(one, probability=0.1) for one in named]) is None


def test_agreement_uses_graded_truth_and_counts_causes() -> None:
    relevance = np.zeros((1, 3, 3), dtype=np.float16)
    relevance[0, 1, 2] = 1.5
    episode = replace(ANOMALOUS[0], truth=GradedTruth(16, relevance, np.zeros((1, 3), np.int8), ("work",)))
    cause = (Resemblance(episode.fault_kinds()[0], 4, 5), Resemblance("other", 1, 5))
    found = agreement(episode, [diagnosis_of(0, EPISODES.sensors[2], resembles=cause)])
    assert found is not None
    assert (found["sensor"], found["moment"], found["cause"]) == (1.0, 0.0, 1.0)
    assert (found["sensor_chance"], found["moment_chance"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


@pytest.mark.slow
def test_planted_anomalies_are_found_and_their_place_is_named() -> None:
    train, validation, test = planted_episodes(seed=0).split(0)
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
    links = re.findall(r'href="(diagnoses/[^"]+)"', Path(result["report"]).read_text())
    assert links
    assert all((tmp_path / link).is_file() for link in links)
    assert Path(result["diagnoses"]).is_file()
    commissioned = result["commissioned"]
    assert commissioned["machine"] in Diagnoser.load(Path(result["model"])).machines_
    assert commissioned["after"] >= commissioned["before"] - 0.1
