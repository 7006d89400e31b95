"""The golden numbers of the paper, and the mistakes that a naive implementation makes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dfstrans.errors import DfstransError
from dfstrans.model.encoding import faithful_encoding
from dfstrans.model.network import DFSTrans
from dfstrans.settings import PRESETS, NetworkShape

# tab:n_params_s, printed for w_l = 100, that is d = 240
PRINTED_BY_SENSORS = {
    10: 2_606_433,
    20: 3_878_033,
    30: 5_149_633,
    40: 6_421_233,
    50: 7_692_833,
    60: 8_964_433,
    70: 10_236_033,
    80: 11_507_633,
}


def formula(s: int, d: int) -> int:
    """P(S, d) of FACTS.md."""
    return s * (4280 + 512 * d) + 6 * (d * d + d) + 6 * d + (4096 * d + 2048 + d) + 1025


def paper_network(n_sensors: int, segment_length: int) -> DFSTrans:
    """A network of the paper's size without memory for its weights."""
    with torch.device("meta"):
        return DFSTrans(NetworkShape.paper(n_sensors=n_sensors, segment_length=segment_length))


def tiny_network(seed: int = 0, **changes: object) -> DFSTrans:
    torch.manual_seed(seed)
    sizes = {"segment_length": 8, "blocks": 2, "filters": 4, "kernel": 3, "heads": 2, "feedforward": 16}
    network = DFSTrans(NetworkShape.paper(**{"n_sensors": 3, "head_width": 8, "dropout": 0.0, **sizes, **changes}))
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm1d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return network


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# ---- parameter counts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_sensors", "segment_length", "parameters"),
    [
        pytest.param(20, 100, 3_878_033, id="elevator"),
        pytest.param(55, 50, 4_197_153, id="MSL"),
        pytest.param(25, 50, 2_225_553, id="SMAP"),
        pytest.param(38, 50, 3_079_913, id="SMD, by the formula"),
        pytest.param(80, 50, 5_840_153, id="SMD, as misprinted"),
    ],
)
def test_parameter_counts_of_the_four_data_sets_are_the_printed_ones(
    n_sensors: int, segment_length: int, parameters: int
) -> None:
    network = paper_network(n_sensors, segment_length)
    assert count(network) == parameters == formula(n_sensors, network.settings.d_model)
    assert all(p.requires_grad for p in network.parameters())


@pytest.mark.parametrize(("n_sensors", "printed"), PRINTED_BY_SENSORS.items())
def test_parameter_counts_by_number_of_sensors_are_the_printed_ones(n_sensors: int, printed: int) -> None:
    assert count(paper_network(n_sensors, 100)) == printed == formula(n_sensors, 240)


@pytest.mark.parametrize(("segment_length", "d"), [(100, 240), (50, 120)])
def test_each_part_has_the_parameters_that_the_table_gives_it(segment_length: int, d: int) -> None:
    network = paper_network(7, segment_length)
    (layer,) = network.layers
    assert network.settings.d_model == d
    assert count(network.embedding) == 7 * 4280
    assert count(layer.temporal) == count(layer.spatial) == 3 * d * d + 3 * d
    assert count(layer.temporal_norm) == count(layer.spatial_norm) == count(layer.norm) == 2 * d
    assert count(layer.feedforward) == 4096 * d + 2048 + d
    assert count(network.head) + count(network.logit) == 512 * 7 * d + 512 + 513


def test_each_sensor_adds_its_own_cnn_and_part_of_the_head() -> None:
    more, fewer = paper_network(21, 100), paper_network(20, 100)
    assert count(more.embedding) - count(fewer.embedding) == 4280
    assert count(more) - count(fewer) == 4280 + 512 * 240


def test_the_preset_paper_is_the_paper_s_network() -> None:
    network = NetworkShape.paper(n_sensors=20, segment_length=100)
    assert (network.blocks, network.filters, network.kernel) == (3, 20, 5)
    assert (network.heads, network.layers, network.feedforward, network.head_width) == (10, 1, 2048, 512)
    assert (network.encoding, network.embedding) == ("faithful", "cnn")
    assert PRESETS["paper"]["batch_size"] == 16


# ---- the faithful encoding ----------------------------------------------------------------------------------------


def paper_encoding(positions: np.ndarray, d: int) -> np.ndarray:
    """eq:positional_encoding_DFT, number by number."""
    rows = []
    for tau in positions:
        row = [1 / math.sqrt(2)]
        for k in range(1, d // 2):
            row += [math.cos(2 * math.pi * k * tau / d), math.sin(2 * math.pi * k * tau / d)]
        rows.append([*row, math.cos(math.pi * tau) / math.sqrt(2)])
    return math.sqrt(2 / d) * np.array(rows)


@given(st.integers(1, 40), st.data())
@settings(max_examples=40, deadline=None)
def test_rows_of_the_faithful_encoding_are_orthonormal(half: int, data: st.DataObject) -> None:
    n_segments = data.draw(st.integers(1, 2 * half))
    encoding = faithful_encoding(n_segments, 2 * half)
    assert_allclose(encoding @ encoding.T, np.eye(n_segments), atol=1e-12)


@pytest.mark.parametrize(("n_segments", "d"), [(80, 240), (10, 120), (240, 240)])
def test_rows_are_orthonormal_at_the_paper_s_sizes(n_segments: int, d: int) -> None:
    encoding = faithful_encoding(n_segments, d)
    assert_allclose(encoding @ encoding.T, np.eye(n_segments), atol=1e-11)


@pytest.mark.parametrize(("n_segments", "d"), [(1, 2), (4, 4), (5, 8), (80, 240)])
def test_positions_from_0_or_from_1_have_the_same_gram_matrix(n_segments: int, d: int) -> None:
    from_one = paper_encoding(np.arange(1, n_segments + 1), d)
    from_zero = paper_encoding(np.arange(n_segments), d)
    assert_allclose(faithful_encoding(n_segments, d), from_zero, atol=1e-11)
    assert_allclose(from_one @ from_one.T, from_zero @ from_zero.T, atol=1e-11)


def test_more_segments_than_width_are_refused() -> None:
    assert faithful_encoding(8, 8).shape == (8, 8)
    with pytest.raises(DfstransError, match=r"at most 8 segments .* got 9"):
        faithful_encoding(9, 8)


@pytest.mark.parametrize("d", [2, 4, 10, 24])
def test_inverse_transform_of_the_encoding_is_the_one_hot_vector(d: int) -> None:
    """Theorem 1: f_s(t) = [a₀ + b₀ cos πt] / √d + √(2/d) Σ_k (a_k cos ω_k t + b_k sin ω_k t) = δ_{s,t}."""
    for s, row in enumerate(faithful_encoding(d, d)):
        for t in range(d):
            value = (row[0] + row[-1] * math.cos(math.pi * t)) / math.sqrt(d)
            for k in range(1, d // 2):
                angle = 2 * math.pi * k * t / d
                value += math.sqrt(2 / d) * (row[2 * k - 1] * math.cos(angle) + row[2 * k] * math.sin(angle))
            assert value == pytest.approx(float(s == t), abs=1e-12)


# ---- what a naive implementation gets wrong -----------------------------------------------------------------------


def test_mistake_1_the_encoding_does_not_shrink_from_call_to_call() -> None:
    network = tiny_network(embedding="linear")  # without bias: silence is embedded as 0, only the encoding is left
    seen: list[Tensor] = []
    network.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().clone()))
    silence = torch.zeros(2, 5, 3, 8)
    for training in (True, True, False, False, True):
        network.train(training)(silence)
    expected = torch.as_tensor(faithful_encoding(5, 8), dtype=torch.float32)
    for x in seen:
        torch.testing.assert_close(x, expected[None, :, None].expand(2, 5, 3, 8), rtol=0, atol=0)


def test_mistake_2_the_score_does_not_depend_on_batch_mates() -> None:
    network = tiny_network().eval()
    episode, one, other = torch.randn(1, 4, 3, 8), torch.randn(3, 4, 3, 8), 100 * torch.randn(3, 4, 3, 8)
    alone = network(episode).logit
    for mates in (one, other):
        torch.testing.assert_close(network(torch.cat([episode, mates])).logit[:1], alone)


def test_mistake_2_running_statistics_are_used_in_prediction() -> None:
    network = tiny_network()
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm1d)]
    assert len(norms) == 2
    segments = torch.randn(4, 4, 3, 8)
    before = [norm.running_mean.clone() for norm in norms]
    network.train()(segments)
    assert all(not torch.equal(norm.running_mean, old) for norm, old in zip(norms, before, strict=True))
    network.eval()
    trained, after = network(segments).logit, [norm.running_mean.clone() for norm in norms]
    assert all(torch.equal(norm.running_mean, now) for norm, now in zip(norms, after, strict=True))
    norms[0].running_mean += 1
    assert not torch.allclose(network(segments).logit, trained)


def test_mistake_3_attention_weights_are_shared() -> None:
    few, many = paper_network(2, 100), paper_network(80, 100)
    assert count(few.layers) == count(many.layers)

    network = tiny_network(embedding="linear", encoding="none").eval()
    same_sensor, same_segment = torch.randn(1, 5, 1, 8), torch.randn(1, 1, 3, 8)
    temporal = network(same_sensor.expand(1, 5, 3, 8), return_attention=True).attention.temporal
    spatial = network(same_segment.expand(1, 5, 3, 8), return_attention=True).attention.spatial
    torch.testing.assert_close(temporal, temporal[:, :, :1].expand_as(temporal))
    torch.testing.assert_close(spatial, spatial[:, :, :1].expand_as(spatial))


def test_mistake_6_operation_count_is_independent_of_size() -> None:
    counts = []
    for n_sensors, n_segments in [(2, 2), (9, 2), (2, 7), (9, 7)]:
        counter = OperationCounter()
        with counter, torch.no_grad():
            tiny_network(n_sensors=n_sensors).eval()(torch.randn(3, n_segments, n_sensors, 8))
        counts.append(counter.operations)
    assert counts[0] > 0
    assert len(set(counts)) == 1


class OperationCounter(TorchDispatchMode):
    """Counts the operations of torch that run within it."""

    operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.operations += 1
        return func(*args, **(kwargs or {}))
