from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.errors import DfstransError
from tests.tiny import TINY, tiny_episodes


@pytest.fixture(scope="module")
def planted() -> Episodes:
    return planted_episodes(n_normal=60, n_anomalous=20, n_sensors=4, n_timepoints=96, seed=1)


@pytest.fixture(scope="module")
def detector(planted: Episodes) -> Diagnoser:
    settings = {"segment_length": 16, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 16}
    return Diagnoser.from_settings(**settings, epochs=24, learning_rate=5e-3, batch_size=8).fit(planted)


@pytest.fixture(scope="module")
def diagnoses(detector: Diagnoser, planted: Episodes) -> list[Diagnosis]:
    return list(detector.diagnose(planted))


def test_probabilities_and_verdicts_are_those_of_predict(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis]
) -> None:
    np.testing.assert_allclose([d.probability for d in diagnoses], detector.predict_proba(planted)[:, 1], atol=1e-6)
    np.testing.assert_array_equal([d.is_anomaly for d in diagnoses], detector.predict(planted) == 1)


def test_planted_anomalies_are_found_in_sensor_and_moment(planted: Episodes, diagnoses: list[Diagnosis]) -> None:
    right = []
    for row in np.flatnonzero(planted.require_labels() == 1):
        cells = planted.fault_cells(int(row), 16)
        sensor, moment = planted.sensors.index(diagnoses[row].top_sensor), diagnoses[row].top_segment
        right.append((cells[:, sensor].any(), cells[moment].any()))
    assert np.mean(right, axis=0).min() > 0.6  # guessing: a quarter of the sensors, a third of the moments at most


def test_one_diagnosis_alone_equals_the_one_among_others(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis]
) -> None:
    (alone,) = detector.diagnose(planted[7:8])
    np.testing.assert_allclose(alone.deviation, diagnoses[7].deviation, rtol=1e-4, atol=1e-4)
    assert alone.to_dict()["interpretation"][0]["sensor"] == diagnoses[7].to_dict()["interpretation"][0]["sensor"]


def test_rankings_are_sorted_and_in_the_episode_s_own_time(planted: Episodes, diagnoses: list[Diagnosis]) -> None:
    one = diagnoses[-1]
    step = planted.interval or 1
    for ranked in (one.top_sensors(4), one.top_segments(6)):
        deviations = [item.deviation for item in ranked]
        assert deviations == sorted(deviations, reverse=True)
    for moment in one.top_segments(6):
        assert moment.start == pytest.approx(moment.segment * 16 * step)
        assert moment.end == pytest.approx((moment.segment + 1) * 16 * step)
    pairs = one.top_pairs(5)
    assert all(pair.looking != pair.at for pair in pairs)
    assert [pair.excess for pair in pairs] == sorted((pair.excess for pair in pairs), reverse=True)


def test_a_diagnosis_shows_itself_in_a_line(diagnoses: list[Diagnosis]) -> None:
    one = dataclasses.replace(diagnoses[0], episode_id="run 7", probability=0.25, threshold=0.5)
    assert repr(one) == f"Diagnosis('run 7', not anomalous, probability=0.250, {len(one.sensors)} sensors, 6 segments)"


def test_without_a_single_reading_nothing_is_said() -> None:
    detector = Diagnoser(**TINY).fit(tiny_episodes())
    (one,) = detector.diagnose(np.full((1, *tiny_episodes().values.shape[1:]), np.nan, dtype=np.float32))
    assert one.summary().endswith("nothing can be said of it: no sensor has a single reading.")


def test_the_two_questions_of_the_paper(diagnoses: list[Diagnosis]) -> None:
    one = diagnoses[0]
    related = one.related_sensors(one.sensors[2], 3)
    assert set(related.index) == set(one.sensors)
    assert related["attention"].sum() == pytest.approx(1, abs=1e-5)
    assert related["attention"].is_monotonic_decreasing
    assert related["attention"][one.sensors[1]] == pytest.approx(one.scores.spatial[3, 2, 1])
    assert related["usual"][one.sensors[1]] == pytest.approx(one.bands["spatial"].centre[3, 2, 1])
    assert related["excess"][one.sensors[1]] == pytest.approx(one.excess("spatial")[3, 2, 1])
    moments = one.triggers(one.sensors[2], 3)
    assert moments["attention"].sum() == pytest.approx(1, abs=1e-5)
    assert moments["attention"][4] == pytest.approx(one.scores.temporal[2, 3, 4])
    assert moments["excess"][4] == pytest.approx(one.excess("temporal")[2, 3, 4])
    older = dataclasses.replace(one, bands={name: one.bands[name] for name in ("sensor", "segment", "spatial")})
    unknown = older.triggers(one.sensors[2], 3)
    assert unknown["attention"].equals(moments["attention"])
    assert unknown[["usual", "excess"]].isna().all(axis=None)
    assert older.to_frame()["temporal_relevance_excess"].isna().all()


@pytest.mark.parametrize(
    ("sensor", "segment", "message"),
    [("nobody", 0, "one of the sensors"), (None, 99, "0 to 5"), (None, 1.5, "0 to 5"), (None, "1", "0 to 5")],
)
def test_unknown_places_are_named(diagnoses: list[Diagnosis], sensor: str | None, segment: Any, message: str) -> None:
    one = diagnoses[0]
    for ask in (one.related_sensors, one.triggers):
        with pytest.raises(DfstransError, match=message):
            ask(sensor or one.sensors[0], segment)
    with pytest.raises(DfstransError, match="got -1"):
        one.top_sensors(-1)


def test_it_is_plain_data_and_a_table(diagnoses: list[Diagnosis]) -> None:
    content = json.loads(json.dumps(diagnoses[-1].to_dict()))
    assert content["schema_version"] == 1
    assert {"is_anomaly", "severity", "score", "interpretation", "health", "summary"} <= content.keys()
    assert {"sensor", "contribution", "direction", "segments", "changed_pairs"} <= content["interpretation"][0].keys()
    frame = diagnoses[-1].to_frame()
    assert len(frame) == diagnoses[-1].deviation.size
    strangest = frame.loc[frame.deviation.idxmax()]
    assert strangest.sensor == diagnoses[-1].top_sensor


def test_an_unhealthy_top_sensor_is_suspected(detector: Diagnoser, planted: Episodes) -> None:
    values = np.array(planted.values[:1])
    values[0, 1, 10:] = values[0, 1].max() + 40 * np.ptp(values[0, 1])
    (one,) = detector.diagnose(values)
    assert one.top_sensor == planted.sensors[1]
    assert one.instrument_suspected
    assert "Instrument fault suspected" in one.summary()
    assert one.top_sensors(1)[0].direction == "higher than normal"


def test_a_saved_model_diagnoses_the_same(tmp_path, detector: Diagnoser, planted: Episodes) -> None:  # type: ignore[no-untyped-def]
    detector.save(tmp_path / "model")
    (before,), (after,) = (which.diagnose(planted[:1]) for which in (detector, Diagnoser.load(tmp_path / "model")))
    np.testing.assert_allclose(after.deviation, before.deviation, rtol=2e-2)
    assert after.to_dict()["is_anomaly"] == before.to_dict()["is_anomaly"]


@pytest.mark.parametrize("absurd", [3e38, -1e20])
def test_values_beyond_all_measure_are_refused_as_in_a_prediction(
    detector: Diagnoser, planted: Episodes, absurd: float
) -> None:
    values = np.array(planted.values[:1])
    values[0, 0, 5] = absurd
    with pytest.raises(DfstransError, match="beyond all measure"):
        detector.predict_proba(values)
    with pytest.raises(DfstransError, match="beyond all measure"):
        list(detector.diagnose(values))


def test_a_sensor_without_readings_is_named_in_the_summary(detector: Diagnoser, planted: Episodes) -> None:
    values = np.array(planted.values[:1])
    values[0, 2] = np.nan
    (one,) = detector.diagnose(values)
    assert one.without_readings == [planted.sensors[2]]
    assert f"No readings of {planted.sensors[2]}." in one.summary()


def test_what_is_usual_does_not_stand_out(detector: Diagnoser, planted: Episodes) -> None:
    (one,) = detector.diagnose(planted[:1])
    quiet = dataclasses.replace(one, deviation=np.full_like(one.deviation, 1.2))
    assert "nothing stands out" in quiet.summary()
    loud = dataclasses.replace(one, deviation=np.full_like(one.deviation, 4.0))
    assert "least like normal: sensor" in loud.summary()
