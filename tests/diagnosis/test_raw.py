from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from dfstrans.diagnosis.bands import SCORES
from dfstrans.diagnosis.diagnosis import NAMES, raw_numbers
from tests.report.drawn import made_diagnosis


def test_all_scores_are_there_with_the_axes_of_the_paper() -> None:
    assert tuple(NAMES) == SCORES
    diagnosis, _ = made_diagnosis()
    raw = json.loads(json.dumps(raw_numbers(diagnosis), allow_nan=False))
    attention = np.array(raw["spatial_attention"])
    assert attention.shape == (6, 4, 4)
    np.testing.assert_allclose(attention.sum(axis=-1), 1, atol=1e-4)
    np.testing.assert_allclose(attention.sum(axis=-2), raw["spatial_relevance"], atol=1e-4)
    moments = np.array(raw["temporal_attention"])
    assert moments.shape == (4, 6, 6)
    np.testing.assert_allclose(moments.sum(axis=-2), raw["temporal_relevance"], atol=1e-4)
    np.testing.assert_allclose(moments.mean(axis=0), raw["global_temporal_attention"], atol=1e-4)
    np.testing.assert_allclose(
        np.sum(raw["global_temporal_attention"], axis=0), raw["global_temporal_relevance"], atol=1e-3
    )
    np.testing.assert_allclose(
        np.sum(raw["global_spatial_attention"], axis=0), raw["global_spatial_relevance"], atol=1e-3
    )
    np.testing.assert_allclose(raw["deviation"], diagnosis.deviation, atol=1e-4)
    assert raw["sensors"] == list(diagnosis.sensors)
    assert set(raw["normal"]) < set(raw)
    for name, band in raw["normal"].items():
        assert np.shape(band["median"]) == np.shape(band["edge"]) == np.shape(raw[name])
    relevance, band = raw["global_spatial_relevance"], raw["normal"]["global_spatial_relevance"]
    np.testing.assert_allclose(np.subtract(relevance, band["median"]), 0.1 * np.linspace(0.5, 1.5, 4), atol=1e-4)
    np.testing.assert_allclose(np.subtract(band["edge"], band["median"]), 0.1, atol=1e-4)


def test_what_is_not_known_is_null() -> None:
    diagnosis, _ = made_diagnosis()
    course = np.full((6, 4, 2), 1.0)
    course[2, 1] = np.nan  # no normal recording has that moment
    raw = json.loads(json.dumps(raw_numbers(replace(diagnosis, usual_course=course)), allow_nan=False))
    assert raw["usual_course"][2][:2] == [[1.0, 1.0], [None, None]]
    assert raw["loss"] is None
