from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.schema import diagnosis_schema
from dfstrans.diagnosis.scores import SCORES
from dfstrans.errors import DfstransError
from tests.report.drawn import bands_with, made_diagnosis


def test_probabilities_and_verdicts_are_those_of_predict(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis]
) -> None:
    np.testing.assert_allclose([d.probability for d in diagnoses], detector.predict_proba(planted)[:, 1], atol=1e-6)
    np.testing.assert_array_equal([d.is_anomaly for d in diagnoses], detector.predict(planted) == 1)
    np.testing.assert_allclose([d.raw_logit for d in diagnoses], detector.decision_function(planted), atol=1e-5)


def test_planted_anomalies_are_found_in_sensor_and_segment(planted: Episodes, diagnoses: list[Diagnosis]) -> None:
    right = []
    for row in np.flatnonzero(planted.require_labels() == 1):
        cells = planted.fault_cells(int(row), 16)
        sensor, segment = planted.sensors.index(diagnoses[row].top_sensor), diagnoses[row].top_segment
        right.append((cells[:, sensor].any(), cells[segment].any()))
    assert np.mean(right, axis=0).min() > 0.6  # guessing: a quarter of the sensors, a third of the segments at most


def test_a_diagnosis_does_not_depend_on_batch_mates_or_on_saving(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis], tmp_path: Path
) -> None:
    (alone,) = detector.diagnose(planted[7:8])
    np.testing.assert_allclose(alone.deviation, diagnoses[7].deviation, rtol=1e-4, atol=1e-4)
    assert alone.top_sensor == diagnoses[7].top_sensor
    detector.save(tmp_path / "model")
    (loaded,) = Diagnoser.load(tmp_path / "model").diagnose(planted[7:8])
    np.testing.assert_allclose(loaded.deviation, diagnoses[7].deviation, rtol=2e-2)
    assert loaded.is_anomaly == diagnoses[7].is_anomaly


def test_rankings_are_sorted_and_in_the_episode_s_own_time(planted: Episodes, diagnoses: list[Diagnosis]) -> None:
    one, step = diagnoses[-1], planted.interval or 1
    for ranked in (one.top_sensors(4), one.top_segments(6)):
        deviations = [item.deviation for item in ranked]
        assert deviations == sorted(deviations, reverse=True)
    for found in one.top_segments(6):
        assert (found.start, found.end) == pytest.approx((found.segment * 16 * step, (found.segment + 1) * 16 * step))
    pairs = one.top_pairs(5)
    assert all(pair.query_sensor != pair.key_sensor for pair in pairs)
    assert [pair.excess for pair in pairs] == sorted((pair.excess for pair in pairs), reverse=True)
    with pytest.raises(DfstransError, match="got -1"):
        one.top_sensors(-1)


def test_related_sensors_and_triggers_rank_attention(diagnoses: list[Diagnosis]) -> None:
    one = diagnoses[0]
    for table, score, row in (
        (one.related_sensors(one.sensors[2], 3), "spatial_attention", (3, 2)),
        (one.triggers(one.sensors[2], 3), "temporal_attention", (2, 3)),
    ):
        assert table["attention"].is_monotonic_decreasing
        table = table.loc[list(one.sensors) if table.index.name == "sensor" else range(6)]
        np.testing.assert_allclose(table["attention"], getattr(one, score)[row])
        np.testing.assert_allclose(table["normal"], one.bands[score].centre[row])
        np.testing.assert_allclose(table["excess"], one.excess(score)[row])


@pytest.mark.parametrize(
    ("sensor", "segment", "message"),
    [("nobody", 0, "one of the sensors"), (None, 99, "0 to 5"), (None, 1.5, "0 to 5"), (None, "1", "0 to 5")],
)
def test_unknown_sensors_and_segments_are_named(
    diagnoses: list[Diagnosis], sensor: str | None, segment: Any, message: str
) -> None:
    one = diagnoses[0]
    for ask in (one.related_sensors, one.triggers):
        with pytest.raises(DfstransError, match=message):
            ask(sensor or one.sensors[0], segment)


# ---- attention beyond its band --------------------------------------------------------------------------------------


def test_sensors_segments_and_pairs_above_their_bands_by_hand() -> None:
    diagnosis, _ = made_diagnosis()
    pairs = np.zeros((6, 4, 4))
    pairs[2:5, 0, 1] = 1.2, 2.5, 1.1
    pairs[0, 0, 1] = 1.4  # not next to the segment of the largest excess
    bands = bands_with(
        diagnosis,
        global_spatial_relevance=np.array([0.9, 1.5, -3.0, 2.0]),
        global_temporal_relevance=np.array([1.2, 0.0, 1.6, 3.0, 0.99, 0.2]),
        spatial_attention=pairs,
    )
    found = replace(diagnosis, bands=bands).beyond_band
    assert [one.sentence for one in found] == [
        "relevance of S3 is above its 99 % normal band (2.0 times the edge)",
        "relevance of S1 is above its 99 % normal band (1.5 times the edge)",
        "relevance of segments 2-3 is above its 99 % normal band (3.0 times the edge)",
        "relevance of segment 0 is above its 99 % normal band (1.2 times the edge)",
        "S0-S1 coupling in segments 2-4 is above its 99 % normal band (2.5 times the edge)",
    ]
    assert [(one.start, one.end) for one in found] == [(0, 30), (0, 30), (10, 20), (0, 5), (10, 25)]
    assert replace(diagnosis, bands=bands_with(diagnosis)).beyond_band == []


@pytest.mark.parametrize("n_segments", [6, 4])
def test_excess_uses_the_stored_band_for_any_length(detector: Diagnoser, planted: Episodes, n_segments: int) -> None:
    reference = detector.reference_
    (one,) = detector.diagnose(planted.values[:1, :, : 16 * n_segments])
    assert tuple(one.bands) == SCORES
    for name in SCORES:
        norms = reference.by_segment if n_segments == reference.n_segments else reference.pooled
        assert norms is not None
        band, score = norms.bands[name], getattr(one, name)
        if n_segments == 4 and name in ("temporal_attention", "global_temporal_attention"):
            score = score * 4  # kept as a multiple of an even spread
        expected = (score - band.centre) / np.maximum(band.width, band.floor)
        np.testing.assert_allclose(one.excess(name), expected)


# ---- for people and for programs ------------------------------------------------------------------------------------


def test_the_summary_names_what_stands_out_and_unhealthy_sensors(detector: Diagnoser, planted: Episodes) -> None:
    values = np.array(planted.values[:2])
    values[0, 1, 10:] = values[0, 1].max() + 40 * np.ptp(values[0, 1])
    values[1, 2] = np.nan
    stuck, missing = detector.diagnose(values)
    assert (stuck.top_sensor, stuck.top_sensors(1)[0].direction) == (planted.sensors[1], "higher than normal")
    assert f"Instrument fault suspected: {planted.sensors[1]} is" in stuck.summary()
    assert missing.without_readings == [planted.sensors[2]]
    assert f"No readings of {planted.sensors[2]}." in missing.summary()
    quiet, loud = (replace(missing, deviation=np.full((6, 4), size)) for size in (1.2, 4.0))
    assert "nothing stands out" in quiet.summary()
    assert "furthest from normal: sensor" in loud.summary()


@pytest.mark.filterwarnings("ignore:no values of")
def test_episode_without_values_has_no_diagnosis(detector: Diagnoser) -> None:
    (one,) = detector.diagnose(np.full((1, 4, 96), np.nan, dtype=np.float32))
    assert "no sensor has any readings" in one.summary()


@pytest.mark.parametrize("absurd", [3e38, -1e20])
def test_values_too_large_to_score_are_refused(detector: Diagnoser, planted: Episodes, absurd: float) -> None:
    values = np.array(planted.values[:1])
    values[0, 0, 5] = absurd
    with pytest.raises(DfstransError, match="far outside any range"):
        list(detector.diagnose(values))


def test_a_diagnosis_has_a_short_repr_and_a_table(diagnoses: list[Diagnosis]) -> None:
    one = replace(diagnoses[-1], episode_id="run 7", probability=0.25, threshold=0.5)
    assert repr(one) == "Diagnosis('run 7', not anomalous, probability=0.250, 4 sensors, 6 segments)"
    frame = one.to_frame()
    assert len(frame) == 24
    first = frame.loc[frame.deviation.idxmax()]
    assert (first.sensor, first.segment) == (one.top_sensor, one.top_segment)
    assert first.temporal_relevance == one.temporal_relevance[one.sensors.index(first.sensor), first.segment]


def test_json_has_exactly_the_fields_of_the_schema_and_each_is_described() -> None:
    diagnosis, _ = made_diagnosis()
    schema = diagnosis_schema()
    kinds = {"DiagnosisContent": schema, **schema["$defs"]}
    assert len(kinds) == 11
    assert all(one.get("description") for kind in kinds.values() for one in kind["properties"].values())
    content = json.loads(json.dumps(diagnosis.to_dict(raw=True), allow_nan=False))
    assert set(content) == set(schema["properties"])
    assert set(diagnosis.to_dict()) == set(schema["required"]) == set(content) - {"raw"}
    assert (content["probability"], content["raw_logit"]) == (diagnosis.probability, diagnosis.raw_logit)
    for part, kind in (
        (content["interpretation"][0], "RankedSensor"),
        (content["interpretation"][0]["changed_pairs"][0], "RankedPair"),
        (content["segments"][0], "RankedSegment"),
        (content["beyond_band"][0], "BeyondBand"),
        (content["health"][0], "HealthFinding"),
        (content["trust"], "TrustVerdict"),
        (content["compared_with"], "ComparedWith"),
        (content["raw"], "RawScores"),
    ):
        assert set(part) == set(kinds[kind]["properties"])


def test_raw_scores_have_the_axes_of_the_paper_and_their_bands() -> None:
    diagnosis, _ = made_diagnosis()
    course = np.full((6, 4, 2), 1.0)
    course[2, 1] = np.nan  # no normal recording has values there
    raw = json.loads(json.dumps(replace(diagnosis, normal_range=course).to_dict(raw=True)["raw"], allow_nan=False))
    assert list(raw["normal"]) == list(SCORES)
    for name in SCORES:
        values, band = getattr(diagnosis, name), raw["normal"][name]
        np.testing.assert_allclose(raw[name], values, atol=1e-5)
        np.testing.assert_allclose(band["median"], diagnosis.bands[name].centre, atol=1e-5)
        np.testing.assert_allclose(band["edge"], diagnosis.bands[name].edge, atol=1e-5)
    np.testing.assert_allclose(raw["deviation"], diagnosis.deviation, atol=1e-5)
    assert raw["sensors"] == list(diagnosis.sensors)
    assert raw["normal_range"][2][:2] == [[1.0, 1.0], [None, None]]
    assert raw["drop"] is None
