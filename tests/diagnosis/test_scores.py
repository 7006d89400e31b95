from __future__ import annotations

import numpy as np

from dfstrans import Diagnoser
from dfstrans.diagnosis.inspection import episode_scores
from dfstrans.diagnosis.scores import SCORES, AttentionScores
from tests.tiny import tiny_episodes


def test_the_eight_scores_by_hand() -> None:
    # two sensors, two segments; the last axis is what is attended to
    spatial = np.array([[[0.2, 0.8], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    scores = AttentionScores(np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.5, 0.5]]]), spatial)
    np.testing.assert_allclose(scores.temporal_relevance, [[1.5, 0.5], [1.0, 1.0]])
    np.testing.assert_allclose(scores.global_temporal_attention, [[0.7, 0.3], [0.55, 0.45]])
    np.testing.assert_allclose(scores.global_temporal_relevance, [1.25, 0.75])
    np.testing.assert_allclose(scores.spatial_relevance, [[0.3, 1.7], [1.0, 1.0]])
    np.testing.assert_allclose(scores.global_spatial_attention, (1.25 * spatial[0] + 0.75 * spatial[1]) / 2)
    np.testing.assert_allclose(scores.global_spatial_relevance, [0.5625, 1.4375])
    np.testing.assert_allclose(scores.cell_relevance, [[1.5 * 0.3, 1.7], [0.5, 1.0]])


def test_scores_do_not_depend_on_batch_mates_or_padding(tiny: Diagnoser) -> None:
    values = tiny_episodes().values[:4]
    mixed = [values[0][:, :24], *values[1:]]
    together = list(episode_scores(tiny, tiny.check_input(mixed)))
    for one, scores in zip(mixed, together, strict=True):
        (alone,) = episode_scores(tiny, tiny.check_input([one]))
        for name in (*SCORES, "embedding", "contribution", "features"):
            np.testing.assert_allclose(getattr(scores, name), getattr(alone, name), atol=1e-5)
    np.testing.assert_allclose([one.logit for one in together], tiny.decision_function(mixed), atol=1e-5)
