from __future__ import annotations

import numpy as np
import pytest
import torch

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.scores import AttentionTrust
from dfstrans.diagnosis.trust import attention_trust_score, judge, keep_mask, weigh
from dfstrans.errors import DfstransError
from dfstrans.model.network import AttentionPair, DFSTrans
from tests.diagnosis.conftest import SETTINGS
from tests.tiny import tiny_episodes


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_at_least_one_attention_weight_is_removed() -> None:
    weights = torch.arange(24.0).view(1, 1, 2, 1, 3, 4)
    assert torch.equal(keep_mask(weights, 25, "top", generator()), (weights < 18).float())
    assert torch.equal(keep_mask(weights, 25, "bottom", generator()), (weights >= 6).float())
    assert keep_mask(weights, 25, "random", generator()).sum() == 18
    assert keep_mask(weights, 1, "top", generator()).sum() == 23


def test_trust_score_is_the_drop_in_the_logit(tiny: Diagnoser) -> None:
    episodes = tiny_episodes()[:3]
    trust = attention_trust_score(tiny, episodes, [10, 30], draws=2)
    segments, valid, *_ = next(iter(tiny.batches(episodes)))
    with torch.inference_mode():
        whole = tiny.network_(segments, valid, return_attention=True)
        for column, percentage in enumerate((10, 30)):
            for row in range(3):
                pair = AttentionPair(*(weights[row : row + 1] for weights in whole.attention))
                keep = AttentionPair(*(keep_mask(w, percentage, "top", generator()) for w in pair))
                without = tiny.network_(segments[row : row + 1], keep=keep).logit
                assert trust.top[row, column] == pytest.approx(float(whole.logit[row] - without), abs=1e-5)
    assert trust.mean()["k"] == [10, 30]
    assert trust.mean()["top"] == pytest.approx(trust.top.mean(axis=0))
    assert trust.random.shape == (3, 2, 2)
    np.testing.assert_array_equal(attention_trust_score(tiny, episodes, 30, draws=2).top, trust.top[:, 1:])


def test_a_score_does_not_depend_on_batch_mates_but_on_the_seed(tiny: Diagnoser) -> None:
    values = tiny_episodes().values[0]
    short = values[:, : values.shape[1] // 2]
    both = attention_trust_score(tiny, [short, values], [20], draws=3)
    alone, other = (attention_trust_score(tiny, [short], [20], draws=3, seed=seed) for seed in (0, 1))
    np.testing.assert_allclose(both.top[0], alone.top[0], atol=1e-5)
    np.testing.assert_allclose(both.random[0], alone.random[0], atol=1e-5)
    assert (alone.random != other.random).any()


def test_the_percentile_counts_the_draws_below() -> None:
    trust = AttentionTrust(np.array([5.0]), np.array([[2.0]]), np.array([[0.0]]), np.array([[[1.0, 2.0, 3.0, 0.0]]]))
    assert trust.percentile().tolist() == [[0.625]]


@pytest.mark.parametrize(
    ("n_episodes", "settings", "message"),
    [
        (1, {"percentages": [0]}, "between 0 and 100"),
        (1, {"percentages": []}, "between 0 and 100"),
        (1, {"draws": 0}, "at least 1 random draw"),
        (0, {}, "at least one episode"),
    ],
)
def test_impossible_requests_are_refused(
    tiny: Diagnoser, n_episodes: int, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DfstransError, match=message):
        attention_trust_score(tiny, tiny_episodes()[:n_episodes], **settings)  # type: ignore[arg-type]


# ---- the verdict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_anomaly", "drop", "percentile", "support", "words"),
    [
        (True, 3.0, 1.0, "supported", "drops by 3.00, more than in all 20 random draws"),
        (True, 3.0, 0.975, "supported", "more than in 98 % of 20 random draws"),
        (True, 3.0, 0.8, "weak", "but only more than in 80 % of"),
        (True, 3.0, 0.5, "not supported", "does not depend"),
        (True, 0.004, 1.0, "not supported", "hardly changes (by 0.00): the decision does not depend"),
        (True, -0.1, 0.9, "not supported", "hardly changes (by 0.10): the decision does not depend"),
        (True, -2.0, 0.0, "not supported", "rises by 2.00: the decision does not depend"),
        (False, 3.0, 1.0, "not supported", "the episode is not anomalous"),
    ],
)
def test_trust_verdict_uses_size_and_percentile_of_the_drop(
    is_anomaly: bool, drop: float, percentile: float, support: str, words: str
) -> None:
    word, reason = weigh(is_anomaly, drop, percentile)
    assert word == support
    assert words in reason


def test_attention_of_episodes_called_normal_or_of_untrained_models_is_not_supported(
    detector: Diagnoser, planted: Episodes
) -> None:
    assert all(judge(detector, planted[row], False).support == "not supported" for row in range(-5, 5))
    torch.manual_seed(0)
    untrained = Diagnoser.from_settings(**SETTINGS)
    untrained.__dict__.update(detector.__dict__)
    untrained.network_ = DFSTrans(detector.network_settings_).eval()
    assert all(judge(untrained, planted[row], True).support == "not supported" for row in range(-5, 0))
    assert judge(detector, planted[-1], True) == judge(detector, planted[-1], True)


def test_attention_learned_from_shuffled_labels_is_not_convincing(planted: Episodes) -> None:
    labels = np.random.default_rng(0).permutation(planted.require_labels())
    shuffled = Diagnoser.from_settings(**SETTINGS, epochs=12, learning_rate=5e-3).fit(planted.with_labels(labels))
    fresh = planted_episodes(n_normal=0, n_anomalous=12, n_sensors=4, n_timepoints=96, seed=2)
    supported = [d.trust is not None and d.trust.support == "supported" for d in shuffled.diagnose(fresh, trust=True)]
    assert np.mean(supported) < 0.35
