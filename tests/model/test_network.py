"""The whole network: equal to a loop over segments and sensors, and independent of padding and of the batch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.errors import DfstransError
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import Attention, AttentionPair, DFSTrans
from dfstrans.model.quantile_features import N_STATISTICS
from dfstrans.settings import NetworkShape
from tests.model.test_cnn import randomise_norms
from tests.model.test_quantile_features import slow_features

S, P, D = 3, 8, 8  # sensors, points in a segment, d_model
POOLINGS = ("mean", "mean+deviation")
GARBAGE = (math.nan, math.inf, -math.inf, 1e30)


def random_network(seed: int = 0, **changes: object) -> DFSTrans:
    """A tiny network in double precision, with random weights and random batch-norm statistics."""
    torch.manual_seed(seed)
    sizes = {"segment_length": P, "blocks": 2, "filters": 4, "kernel": 3, "heads": 2, "feedforward": 16}
    others = {"n_sensors": S, "head_width": 8, "dropout": 0.0, "quantile_features": 3}
    network = DFSTrans(NetworkShape.paper(**{**sizes, **others, **changes}))
    for parameter in network.parameters():
        if parameter.dim() < 2:
            nn.init.normal_(parameter)  # so that no norm and no bias is at its harmless default
    randomise_norms(network)
    if network.quantile_features is not None:
        network.quantile_features.edges.copy_(torch.randn(S, N_STATISTICS, 4).sort(dim=-1).values)
    return network.double()


def random_segments(*shape: int) -> Tensor:
    return torch.randn(*shape, S, P, dtype=torch.float64)


def padded_batch(episodes: list[Tensor], n_segments: int, fill: float = math.nan) -> tuple[Tensor, Tensor]:
    """Episodes (t, s, p) of several lengths in one batch, with garbage behind their ends."""
    segments = torch.full((len(episodes), n_segments, S, P), fill, dtype=torch.float64)
    valid = torch.zeros(len(episodes), n_segments, dtype=torch.bool)
    for row, episode in enumerate(episodes):
        segments[row, : len(episode)] = episode
        valid[row, : len(episode)] = True
    return segments, valid


# ---- against an obvious loop --------------------------------------------------------------------------------------


def slow_attention(attention: Attention, items: list[Tensor], weigh: float = 1.0) -> tuple[list[Tensor], Tensor]:
    """Contexts of each item, and weights (head, query, key), number by number."""
    h, m = attention.heads, D // attention.heads
    weights = torch.zeros(h, len(items), len(items), dtype=torch.float64)
    contexts = []
    for i, query in enumerate(items):
        context = []
        for head in range(h):
            part = slice(head * m, (head + 1) * m)
            q = attention.query(query)[part]
            logits = torch.stack([q @ attention.key(key)[part] / math.sqrt(m) for key in items])
            weights[head, i] = weigh * torch.exp(logits) / torch.exp(logits).sum()
            context.append(sum(w * attention.value(key)[part] for w, key in zip(weights[head, i], items, strict=True)))
        contexts.append(torch.cat(context))
    return contexts, weights


def slow_network(network: DFSTrans, episode: Tensor, weigh: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """One episode (t, s, p) in loops over segments and sensors: logit, temporal and spatial attention."""
    n_segments = len(episode)
    encoding = torch.as_tensor(positional_encoding(network.settings.encoding, n_segments, D))
    embedded = torch.stack([network.embedding(segment[None])[0] for segment in episode])
    embedded = embedded + slow_features(network.quantile_features, episode)
    x = [[embedded[t, s] + encoding[t] for s in range(S)] for t in range(n_segments)]
    temporal, spatial = [], []
    for layer in network.layers:
        along_time = [slow_attention(layer.temporal, [x[t][s] for t in range(n_segments)], weigh) for s in range(S)]
        along_sensors = [slow_attention(layer.spatial, x[t], weigh) for t in range(n_segments)]
        temporal.append(torch.stack([weights for _, weights in along_time]))
        spatial.append(torch.stack([weights for _, weights in along_sensors]))
        for t in range(n_segments):
            for s in range(S):
                y = layer.temporal_norm(x[t][s] + along_time[s][0][t])
                y = y + layer.spatial_norm(x[t][s] + along_sensors[t][0][s])
                x[t][s] = layer.norm(y + layer.feedforward(y[None])[0])
    pooled = sum(torch.cat(sensors) for sensors in x) / n_segments
    logit = network.logit(functional.relu(network.head(pooled)))[0]
    return logit, torch.stack(temporal), torch.stack(spatial)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("encoding", ["faithful", "vanilla", "none"])
@torch.no_grad()
def test_network_equals_a_loop_over_segments_and_sensors(encoding: str, heads: int, layers: int) -> None:
    network = random_network(encoding=encoding, heads=heads, layers=layers).eval()
    segments = random_segments(2, 4)
    found = network(segments, return_attention=True)
    for row, episode in enumerate(segments):
        logit, temporal, spatial = slow_network(network, episode)
        assert_close(found.logit[row], logit)
        assert_close(found.attention.temporal[row], temporal)
        assert_close(found.attention.spatial[row], spatial)


@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_a_keep_mask_of_zeros_removes_the_context_of_both_branches(layers: int) -> None:
    network = random_network(layers=layers).eval()
    segments = random_segments(1, 4)
    zero = torch.zeros(1, 1, 1, 1, 1, 1)
    found = network(segments, keep=AttentionPair(zero, zero), return_attention=True)
    assert_close(found.logit[0], slow_network(network, segments[0], weigh=0.0)[0])
    assert not found.attention.temporal.any()
    assert not found.attention.spatial.any()


# ---- keep masks ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
@torch.no_grad()
def test_dropped_weights_are_not_compensated_by_kept_ones(seed: int) -> None:
    network = random_network(seed).eval()
    segments = random_segments(2, 4)
    plain = network(segments, return_attention=True)
    keep = AttentionPair(torch.rand(2, 1, S, 2, 4, 4).round(), torch.rand(2, 1, 4, 2, S, S).round())
    masked = network(segments, keep=keep, return_attention=True)
    assert_close(masked.attention.temporal, plain.attention.temporal * keep.temporal)
    assert_close(masked.attention.spatial, plain.attention.spatial * keep.spatial)


@torch.no_grad()
def test_a_mask_may_differ_from_layer_to_layer() -> None:
    network = random_network(layers=2).eval()
    segments = random_segments(1, 4)
    second = torch.tensor([1.0, 0]).reshape(1, 2, 1, 1, 1, 1)
    plain = network(segments, return_attention=True).attention
    found = network(segments, keep=AttentionPair(second, second), return_attention=True).attention
    for one, other in zip(found, plain, strict=True):
        assert_close(one[:, 0], other[:, 0])
        assert not one[:, 1].any()


# ---- padding and batch mates --------------------------------------------------------------------------------------


@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 2),
    st.sampled_from(GARBAGE),
)
@settings(max_examples=25, deadline=None)
@torch.no_grad()
def test_logit_does_not_depend_on_batch_or_padding(seed: int, lengths: list[int], more: int, garbage: float) -> None:
    embedding = ("cnn", "linear", "tanh")[seed % 5 % 3]
    network = random_network(seed, layers=1 + seed % 2, pooling=POOLINGS[seed % 3 % 2], embedding=embedding).eval()
    episodes = [random_segments(length) for length in lengths]
    segments, valid = padded_batch(episodes, max(lengths) + more, garbage)
    together = network(segments, valid, return_attention=True)
    for row, episode in enumerate(episodes):
        n = len(episode)
        alone = network(episode[None], return_attention=True)
        assert_close(together.logit[row], alone.logit[0])
        assert_close(together.attention.temporal[row, ..., :n, :n], alone.attention.temporal[0])
        assert_close(together.attention.spatial[row, :, :n], alone.attention.spatial[0])


def trained_once(segments: Tensor, valid: Tensor | None) -> tuple[Tensor, DFSTrans]:
    network = random_network(3).train()
    logit = network(segments, valid).logit
    functional.binary_cross_entropy_with_logits(logit, torch.tensor([1.0, 0], dtype=torch.float64)).backward()
    return logit.detach(), network


@pytest.mark.parametrize("garbage", [0.0, *GARBAGE])
def test_padding_does_not_affect_gradients_or_batch_norm(garbage: float) -> None:
    episodes = [random_segments(4), random_segments(4)]
    expected, without = trained_once(torch.stack(episodes), None)
    logit, with_padding = trained_once(*padded_batch(episodes, 7, garbage))
    assert_close(logit, expected)
    for (name, one), other in zip(with_padding.named_parameters(), without.parameters(), strict=True):
        # the feed-forward network sums its gradients in single precision
        assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    for (name, one), other in zip(with_padding.named_buffers(), without.buffers(), strict=True):
        assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_batch_norm_counts_each_real_segment_once_in_a_ragged_batch() -> None:
    episodes = [random_segments(2), random_segments(5)]
    network, reference = random_network(4).train(), random_network(4).train()
    network(*padded_batch(episodes, 6))
    reference.embedding(torch.cat(episodes))
    for one, other in zip(network.buffers(), reference.buffers(), strict=True):
        assert_close(one, other)


# ---- attention ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(1, 3))
@settings(max_examples=10, deadline=None)
@torch.no_grad()
def test_attention_rows_sum_to_one_and_padded_segments_have_none(seed: int, layers: int) -> None:
    network = random_network(seed, layers=layers).eval()
    segments, valid = padded_batch([random_segments(2), random_segments(4)], 5)
    temporal, spatial = network(segments, valid, return_attention=True).attention
    assert temporal.shape == (2, layers, S, 2, 5, 5)
    assert spatial.shape == (2, layers, 5, 2, S, S)
    assert not temporal.isnan().any()
    queries = valid[:, None, None, None].to(temporal.dtype)
    assert_close(temporal.sum(-1), queries.expand(2, layers, S, 2, 5))
    assert_close(spatial.sum(-1), valid[:, None, :, None, None].to(spatial.dtype).expand(2, layers, 5, 2, S))
    for row, n in enumerate((2, 4)):
        assert not temporal[row, ..., n:].any()  # padded keys
        assert not temporal[row, ..., n:, :].any()  # padded queries
        assert not spatial[row, :, n:].any()
        assert (temporal[row, ..., :n, :n] > 0).all()


@torch.no_grad()
def test_attention_is_returned_only_on_request_and_changes_no_logit() -> None:
    network = random_network().eval()
    segments = random_segments(2, 4)
    without, with_attention = network(segments), network(segments, return_attention=True)
    assert without.attention is None
    assert_close(without.logit, with_attention.logit, rtol=0, atol=0)


# ---- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedding", ["cnn", "linear", "tanh"])
@pytest.mark.parametrize("encoding", ["faithful", "vanilla", "none"])
def test_every_embedding_and_encoding_trains_every_weight(embedding: str, encoding: str) -> None:
    network = random_network(1, embedding=embedding, encoding=encoding, layers=2).train()
    logit = network(random_segments(3, 4)).logit
    assert logit.shape == (3,)
    assert logit.isfinite().all()
    logit.square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # softmax is blind to what all keys have in common
            assert parameter.grad.any(), name


@torch.no_grad()
def test_the_order_of_segments_matters_only_with_an_encoding() -> None:
    torch.manual_seed(0)
    segments, order = random_segments(1, 4), [2, 0, 3, 1]
    for encoding, matters in (("faithful", True), ("vanilla", True), ("none", False)):
        network = random_network(encoding=encoding).eval()
        same = torch.allclose(network(segments[:, order]).logit, network(segments).logit, rtol=1e-9, atol=1e-12)
        assert same is not matters


@torch.no_grad()
def test_too_many_segments_for_the_faithful_encoding_are_refused() -> None:
    segments = random_segments(1, D + 1)
    assert random_network().eval()(segments[:, :D]).logit.isfinite().all()
    with pytest.raises(DfstransError, match=f"at most {D} segments .* got {D + 1}"):
        random_network()(segments)
    assert random_network(encoding="vanilla").eval()(segments).logit.isfinite().all()


def test_dropout_acts_in_training_only() -> None:
    network = random_network(dropout=0.5)
    segments = random_segments(1, 4)
    network.eval()
    assert_close(network(segments).logit, network(segments).logit, rtol=0, atol=0)
    network.train()
    network.embedding.eval()  # so that batch norm is no reason for a difference
    assert not torch.equal(network(segments).logit, network(segments).logit)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_contributions_and_a_constant_add_up_to_the_logit(pooling: str, ragged: bool) -> None:
    network = random_network(pooling=pooling).eval()
    valid = torch.tensor([[True] * 4, [True, True, False, False]]) if ragged else None
    forward = network(random_segments(2, 4), valid, return_attention=True)
    active = network.logit.weight[0] * (forward.features > 0)
    constant = active @ network.head.bias + network.logit.bias
    assert forward.contribution is not None
    assert forward.contribution.shape == (2, 4, S)
    assert_close(forward.contribution.sum(dim=(1, 2)) + constant, forward.logit)
    if ragged:
        assert not forward.contribution[1, 2:].any()
