from __future__ import annotations

import numpy as np
import pytest
import torch

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.trust import AttentionTrust, Scope, attention_trust_score, keep_mask
from dfstrans.errors import DfstransError
from dfstrans.model.network import AttentionPair
from tests.tiny import TINY, tiny_episodes


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser(**TINY).fit(tiny_episodes())


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_the_largest_weights_of_the_whole_tensor_are_taken_away() -> None:
    weights = torch.arange(24.0).view(1, 1, 2, 1, 3, 4)
    kept = keep_mask(weights, 25, "top", "tensor", generator())
    assert torch.equal(kept, (weights < 18).float())
    assert torch.equal(keep_mask(weights, 25, "bottom", "tensor", generator()), (weights >= 6).float())
    assert keep_mask(weights, 25, "random", "tensor", generator()).sum() == 18


@pytest.mark.parametrize(
    ("scope", "gone"),
    [("matrix", [[0.0] * 4, [0.0] * 4, [0.0, 1, 1, 1]]), ("row", [[0.0, 0, 0, 1]] * 3)],
)
def test_or_of_each_matrix_or_row(scope: Scope, gone: list[list[float]]) -> None:
    weights = torch.arange(24.0).view(1, 1, 2, 1, 3, 4)
    kept = keep_mask(weights, 25, "top", scope, generator())
    for matrix in range(2):
        assert torch.equal(1 - kept[0, 0, matrix, 0], torch.tensor(gone))


def test_at_least_one_weight_goes_however_few_there_are() -> None:
    assert keep_mask(torch.rand(1, 1, 1, 1, 2, 2), 1, "top", "tensor", generator()).sum() == 3


def test_the_score_is_the_logit_less_the_logit_without_the_top_weights(detector: Diagnoser) -> None:
    episodes = tiny_episodes()[:3]
    trust = attention_trust_score(detector, episodes, [10, 30], draws=2)
    segments, valid, _ = next(iter(detector.batches(episodes)))
    with torch.inference_mode():
        whole = detector.network_(segments, valid, return_attention=True)
        for column, percentage in enumerate((10, 30)):
            for row in range(3):
                pair = AttentionPair(*(weights[row : row + 1] for weights in whole.attention))
                keep = AttentionPair(*(keep_mask(w, percentage, "top", "tensor", generator()) for w in pair))
                without = detector.network_(segments[row : row + 1], keep=keep).logit
                assert trust.top[row, column] == pytest.approx(float(whole.logit[row] - without), abs=1e-5)
    means = trust.mean()
    assert means["k"] == [10, 30]
    assert means["top"] == pytest.approx(trust.top.mean(axis=0))
    assert trust.random.shape == (3, 2, 2)
    np.testing.assert_array_equal(attention_trust_score(detector, episodes, 30, draws=2).top, trust.top[:, 1:])


def test_an_episode_has_the_same_score_alone_and_beside_a_longer_one(detector: Diagnoser) -> None:
    whole = tiny_episodes()[:1]
    values = whole.values[0]
    short = values[:, : values.shape[1] // 2]
    both = attention_trust_score(detector, [short, values], [20], draws=3)
    alone = attention_trust_score(detector, [short], [20], draws=3)
    np.testing.assert_allclose(both.top[0], alone.top[0], atol=1e-5)
    np.testing.assert_allclose(both.random[0], alone.random[0], atol=1e-5)


def test_the_same_seed_gives_the_same_draws(detector: Diagnoser) -> None:
    episodes: Episodes = tiny_episodes()[:2]
    first, again, other = (
        attention_trust_score(detector, episodes, [10], draws=4, seed=seed).random for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_percentile_counts_the_draws_below() -> None:
    trust = AttentionTrust(np.array([5.0]), np.array([[2.0]]), np.array([[0.0]]), np.array([[[1.0, 2.0, 3.0, 0.0]]]))
    assert trust.percentile().tolist() == [[0.625]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"percentages": [0]}, "between 0 and 100"),
        ({"percentages": []}, "between 0 and 100"),
        ({"draws": 0}, "at least 1 random draw"),
        ({"scope": "head"}, "tensor, matrix, row"),
    ],
)
def test_impossible_requests_are_refused(detector: Diagnoser, settings: dict[str, object], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        attention_trust_score(detector, tiny_episodes()[:1], **settings)  # type: ignore[arg-type]


def test_without_an_episode_there_is_no_score(detector: Diagnoser) -> None:
    with pytest.raises(DfstransError, match="at least one episode"):
        attention_trust_score(detector, tiny_episodes()[:0])
