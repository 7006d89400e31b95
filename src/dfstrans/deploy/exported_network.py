"""The network in an exported file: the plain network, with calibrated probabilities and relevances."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans, segment_share
from dfstrans.settings import NetworkShape


class ExportedPass(NamedTuple):
    """The outputs of an exported file; padded segments have attention and relevance 0.

    The relevances equal those of `diagnosis.scores`: the last layer's attention, averaged over heads.
    """

    logit: Tensor  # (b,) float32
    probability: Tensor  # (b,) float64, so that different logits keep different probabilities near 0 and 1
    temporal_attention: Tensor  # (b, layer, s, h, q, k)
    spatial_attention: Tensor  # (b, layer, t, h, q, k)
    global_temporal_relevance: Tensor  # (b, t)
    global_spatial_relevance: Tensor  # (b, s)


class ExportedNetwork(nn.Module):
    """A trained network and its calibration, probability = σ((logit − shift) / temperature).

    Every segment is embedded and padding is masked, so that the graph is the same for any batch.

    Shape:
        segments (b, t, s, p), scaled, without NaN; valid (b, t), False for padded segments
    """

    def __init__(self, network: DFSTrans, shift: float, temperature: float) -> None:
        super().__init__()
        self.network = DFSTrans(network.settings)
        self.network.load_state_dict(network.state_dict())
        self.encoding = _Encoding(network.settings)
        self.shift, self.temperature = shift, temperature
        self.eval()

    def forward(self, segments: Tensor, valid: Tensor) -> ExportedPass:
        """Score episodes and return the attention behind the scores."""
        x = self.network.embed_segments(segments.flatten(0, 1)).unflatten(0, segments.shape[:2])  # (b, t, s, d)
        x = x + self.encoding(valid).unsqueeze(1)
        logit, _, attention, _ = self.network.attend(x, valid, return_attention=True)
        assert attention is not None  # requested above
        moment = attention.temporal[:, -1].mean(dim=2).sum(dim=2).mean(dim=1)  # (b, s, h, q, k) → (b, t)
        at_moments = attention.spatial[:, -1].mean(dim=2).sum(dim=2)  # (b, t, h, q, k) → (b, t, s)
        sensor = ((moment * segment_share(x, valid)).unsqueeze(1) @ at_moments).squeeze(1)  # (b, s)
        probability = torch.sigmoid((logit.double() - self.shift) / self.temperature)
        return ExportedPass(logit, probability, *attention, moment, sensor)


class _Encoding(nn.Module):
    """Returns the positional encoding for the number of segments in `valid`: (b, t) → (t, d).

    The faithful encoding has at most d rows, which are stored; the vanilla encoding has no limit and is computed.
    """

    rows: Tensor

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.name, self.d_model = settings.encoding, settings.d_model
        if self.name == "faithful":
            rows = positional_encoding("faithful", self.d_model, self.d_model)
            self.register_buffer("rows", torch.as_tensor(rows, dtype=torch.float32))

    def forward(self, valid: Tensor) -> Tensor:
        n_segments = valid.shape[1]
        if self.name == "faithful":
            return self.rows[:n_segments]
        if self.name == "none":
            return torch.zeros(n_segments, self.d_model)
        position = torch.arange(n_segments, dtype=torch.float64).unsqueeze(1)
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64)
        angle = position * 10_000.0 ** (-even / self.d_model)
        return torch.stack([torch.sin(angle), torch.cos(angle)], dim=2).flatten(1).float()
