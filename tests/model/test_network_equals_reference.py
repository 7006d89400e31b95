"""The network against the same network written as loops over sensors and segments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from benchmarks.reference import LoopNetwork, copy_weights, is_per_sensor, names_in_reference
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape
from tests.model.test_cnn import randomise_norms

N_SEGMENTS = 5
LABELS = torch.tensor([0.0, 1, 0, 0, 1, 1])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("changes", [{"heads": 1}, {"layers": 2}, {"pooling": "mean+deviation"}], ids=str)
def test_logits_gradients_and_statistics_equal_those_of_the_loops(changes: dict[str, Any], training: bool) -> None:
    sizes = {"n_sensors": 3, "segment_length": 19, "filters": 4, "heads": 4, "feedforward": 32, "head_width": 16}
    settings = NetworkShape.paper(**{**sizes, "dropout": 0, **changes})
    torch.manual_seed(0)
    network = DFSTrans(settings).train(training)
    randomise_norms(network)
    reference = LoopNetwork(settings, N_SEGMENTS).train(training)
    copy_weights(network, reference)
    segments = torch.randn(6, N_SEGMENTS, 3, 19)
    found, expected = network(segments).logit, reference(segments)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 1e-3  # the episodes have different logits, so equality says something
    for logits in (found, expected):
        functional.binary_cross_entropy_with_logits(logits, LABELS).backward()
    theirs = {**reference.state_dict(), **{name: one.grad for name, one in reference.named_parameters()}}
    mine = {**network.state_dict(), **{name: one.grad for name, one in network.named_parameters()}}
    for name, value in mine.items():
        if "num_batches" in name:
            continue
        copies = [theirs[copy] for copy in names_in_reference(name, reference)]
        together = torch.cat(copies) if is_per_sensor(name) else torch.stack(copies).sum(0)
        torch.testing.assert_close(value, together, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
