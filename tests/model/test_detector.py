"""Mixup of episodes, and what networks do with it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dfstrans.model.detector import Batch, DetectorNetwork, Logits, Mixing
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape


def test_mixup_uses_one_share_for_values_and_label() -> None:
    torch.manual_seed(0)
    segments, labels = torch.rand(2, 4, 2, 8), torch.tensor([0.0, 1.0])
    normal, anomalous = segments
    shares = []
    for _ in range(40):
        mixing = Mixing.draw(2, 1.0, torch.device("cpu"))
        if mixing.other.tolist() == [0, 1]:  # each with itself
            continue
        share = mixing.share
        first, second = mixing.of_segments(segments, None)
        torch.testing.assert_close(first, normal + share * (anomalous - normal))
        torch.testing.assert_close(second, anomalous + share * (normal - anomalous))
        torch.testing.assert_close(mixing.of_labels(labels), torch.stack([share, 1 - share]))
        shares.append(float(share))
    assert max(shares) <= 0.5
    assert len(set(shares)) > 10


def test_an_episode_is_not_mixed_with_the_padding_of_a_shorter_one() -> None:
    segments, valid = torch.rand(2, 4, 2, 8), torch.ones(2, 4, dtype=torch.bool)
    valid[1, 2:] = False
    segments[1, 2:] = torch.nan
    mixed = Mixing(torch.tensor(0.3), torch.tensor([1, 0])).of_segments(segments, valid)
    assert torch.equal(mixed[0, 2:], segments[0, 2:])
    torch.testing.assert_close(mixed[:, :2], 0.7 * segments[:, :2] + 0.3 * segments[[1, 0], :2])


class Recorder(DetectorNetwork):
    """A network that is nothing but a mean and records its input."""

    def forward(self, segments: Tensor, valid: Tensor) -> Logits:
        self.seen = segments
        return Logits(segments.mean(dim=(1, 2, 3)))


def test_networks_are_given_mixed_values_by_default() -> None:
    segments, valid = torch.rand(3, 2, 2, 16), torch.ones(3, 2, dtype=torch.bool)
    mixing = Mixing(torch.tensor(0.3), torch.tensor([1, 2, 0]))
    network = Recorder()
    network.training_loss(Batch(segments, valid, torch.zeros(3)), lambda logits, rows: logits.sum(), mixing)
    torch.testing.assert_close(network.seen, 0.7 * segments + 0.3 * segments[[1, 2, 0]])


def test_dfstrans_mixes_embeddings_instead_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    shape = {"n_sensors": 2, "segment_length": 16, "filters": 4, "heads": 2, "feedforward": 8, "head_width": 6}
    network = DFSTrans(NetworkShape.paper(**shape, quantile_features=3, dropout=0)).train()
    segments, mixing = torch.rand(3, 2, 2, 16), Mixing(torch.tensor(0.3), torch.tensor([1, 2, 0]))
    embedded: list[Tensor] = []
    attended: list[Tensor] = []
    embed, readings = network.embed, network.readings
    monkeypatch.setattr(network, "embed", lambda x, *others: embedded.append(x) or embed(x, *others))
    monkeypatch.setattr(network, "readings", lambda x, valid: attended.append(x.detach()) or readings(x, valid))
    network.training_loss(Batch(segments, None, torch.zeros(3)), lambda logits, rows: logits.sum(), mixing)
    assert torch.equal(embedded[0], segments)
    with torch.no_grad():
        plain = embed(segments, None)
    torch.testing.assert_close(torch.cat(attended), 0.7 * plain + 0.3 * plain[[1, 2, 0]])
