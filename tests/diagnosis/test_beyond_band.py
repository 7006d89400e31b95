from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.diagnosis.bands import SCORES
from tests.report.drawn import bands_with, made_diagnosis
from tests.tiny import TINY


def test_sensors_moments_and_pairs_above_their_band_are_told_worked_by_hand() -> None:
    diagnosis, _ = made_diagnosis()
    pairs = np.zeros((6, 4, 4))
    pairs[2:5, 0, 1] = 1.2, 2.5, 1.1
    pairs[0, 0, 1] = 1.4  # another stretch than that of its strangest moment
    bands = bands_with(
        diagnosis.scores,
        sensor=np.array([0.9, 1.5, -3.0, 2.0]),
        segment=np.array([1.2, 0.0, 1.6, 3.0, 0.99, 0.2]),
        spatial=pairs,
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


def test_what_is_within_its_band_is_not_told() -> None:
    diagnosis, _ = made_diagnosis()
    within = {"sensor": np.zeros(4), "segment": np.full(6, 0.99), "spatial": np.full((6, 4, 4), 0.99)}
    calm = replace(diagnosis, bands=bands_with(diagnosis.scores, **within))
    assert calm.beyond_band == []
    assert calm.to_dict()["beyond_band"] == []


def test_the_excess_is_that_of_the_model_s_stored_band_for_usual_and_unusual_lengths() -> None:
    episodes = planted_episodes(24, 12, n_sensors=3, n_timepoints=48, seed=0)
    detector = Diagnoser(**TINY).fit(episodes)
    reference = detector.reference_
    for values in (episodes.values[:1], np.concatenate([episodes.values[:1]] * 2, axis=2)):
        (one,) = detector.diagnose(values)
        assert tuple(one.bands) == SCORES
        for name in SCORES:
            score, excess = getattr(one.scores, name), one.excess(name)
            assert excess.shape == score.shape
            usual = (reference.by_moment if len(one.scores.segment) == 3 else reference.over_moments)[name]
            if len(one.scores.segment) != 3 and name in ("temporal", "global_temporal"):
                score = score * len(one.scores.segment)  # kept as a multiple of an even spread
            np.testing.assert_allclose(excess, (score - usual.centre) / np.maximum(usual.width, usual.floor))
        json.dumps(one.to_dict())
