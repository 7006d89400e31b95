"""What is exported equals the network that is trained, on random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from dfstrans.deploy.exported_network import ExportedNetwork, ExportedPass
from dfstrans.diagnosis.scores import AttentionScores
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.fast import FastDFSTrans
from dfstrans.settings import NetworkShape

VARIANTS: list[dict[str, Any]] = [
    {},
    {"layers": 2, "encoding": "vanilla"},
    {"embedding": "linear", "encoding": "none"},
    {"pooling": "mean+deviation", "quantile_features": 5},
    {"embedding": "tanh", "kernel": 1, "blocks": 1},
]


def random_network(**changes: Any) -> FastDFSTrans:
    torch.manual_seed(0)
    network = FastDFSTrans(
        NetworkShape.paper(
            **{"n_sensors": 3, "segment_length": 19, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 8}
            | changes
        )
    )
    for norm in (module for module in network.modules() if isinstance(module, torch.nn.BatchNorm1d)):
        norm.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
        norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return network.eval()


@pytest.fixture(params=VARIANTS, ids=str)
def network(request: pytest.FixtureRequest) -> FastDFSTrans:
    return random_network(**request.param)


def padded_episodes() -> tuple[torch.Tensor, torch.Tensor]:
    """Episodes of 6, 4 and 1 segments; the content of the padding must not matter."""
    segments = torch.randn(3, 6, 3, 19, generator=torch.Generator().manual_seed(1))
    valid = torch.arange(6) < torch.tensor([[6], [4], [1]])
    return segments, valid


def exported_pass(network: FastDFSTrans, segments: torch.Tensor, valid: torch.Tensor) -> ExportedPass:
    with torch.inference_mode():
        result: ExportedPass = ExportedNetwork(network, shift=0.7, temperature=1.3)(segments, valid)
    return result


def test_logits_and_attention_equal_those_of_the_network(network: FastDFSTrans) -> None:
    segments, valid = padded_episodes()
    exported = exported_pass(network, segments, valid)
    with torch.inference_mode():
        expected = network(segments, valid, return_attention=True)
    assert expected.logit.std() > 1e-3
    assert_close(exported.logit, expected.logit, atol=1e-5, rtol=1e-5)
    assert_close(exported.temporal_attention, expected.attention.temporal, atol=1e-6, rtol=1e-5)
    assert_close(exported.spatial_attention, expected.attention.spatial, atol=1e-6, rtol=1e-5)
    assert_close(exported.probability, torch.sigmoid((exported.logit.double() - 0.7) / 1.3))


def test_relevances_are_the_diagnostic_scores_of_the_real_segments() -> None:
    network = random_network(layers=2)
    segments, valid = padded_episodes()
    exported = exported_pass(network, segments, valid)
    for row, n_segments in enumerate((6, 4, 1)):
        temporal = exported.temporal_attention[row, -1].mean(dim=1).double().numpy()[:, :n_segments, :n_segments]
        spatial = exported.spatial_attention[row, -1].mean(dim=1).double().numpy()[:n_segments]
        expected = AttentionScores(temporal, spatial)
        moments, sensors = exported.global_temporal_relevance[row], exported.global_spatial_relevance[row]
        np.testing.assert_allclose(moments[:n_segments], expected.global_temporal_relevance, atol=1e-6)
        np.testing.assert_array_equal(moments[n_segments:], 0)
        np.testing.assert_allclose(sensors, expected.global_spatial_relevance, atol=1e-6)


@pytest.mark.parametrize("name", ["faithful", "vanilla", "none"])
def test_the_encoding_is_the_networks_for_any_number_of_segments(name: Any) -> None:
    encoding = ExportedNetwork(random_network(encoding=name), shift=0, temperature=1).encoding
    for n_segments in (1, 2, 8):
        expected = torch.as_tensor(positional_encoding(name, n_segments, 8), dtype=torch.float32)
        assert_close(encoding(torch.ones(1, n_segments)), expected, atol=1e-7, rtol=0)
