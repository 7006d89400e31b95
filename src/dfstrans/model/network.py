"""DFStrans: the diagnostic Fourier-based spatio-temporal transformer, top to bottom."""

from __future__ import annotations

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.model.arithmetic import ExactLinear
from dfstrans.model.attention import Attended, Attention
from dfstrans.model.detector import DetectorNetwork, LossOfPart, TrainingPart
from dfstrans.model.embedding import build_embedding
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.feedforward import FeedForward
from dfstrans.model.loss_by_parts import loss_by_parts
from dfstrans.model.mixing import Mixing
from dfstrans.model.pooling import added, even_share, pool, pooled_width
from dfstrans.model.quantile_features import STATISTICS, QuantileFeatures
from dfstrans.settings import NetworkShape

PART_VALUES = 1 << 22  # of a part of a batch: larger ones win nothing, smaller ones cost calls (docs/performance.md)


class AttentionPair(NamedTuple):
    """One tensor along time and one along sensors: attention weights, or masks that keep (1) or drop (0) them.

    Shape:
        temporal (episode, layer, sensor, head, query, key), items are segments;
        spatial (episode, layer, segment, head, query, key), items are sensors.
        A mask may have size 1 wherever it is the same for all.
    """

    temporal: Tensor
    spatial: Tensor


class ForwardPass(NamedTuple):
    """What one pass gives: a logit per episode, what the classifier saw and, on request, the attention behind it.

    Padded segments have attention 0, as query and as key, and contribute 0.
    """

    logit: Tensor  # (episode,)
    features: Tensor  # (episode, head_width), of which the logit is a weighted sum
    attention: AttentionPair | None
    contribution: Tensor | None  # (episode, segment, sensor): what each adds to the logit; see `DFSTrans.contribution`


class Dropout(nn.Dropout):
    """Dropout from 16 random bits per value that keeps one byte of it; torch's takes thrice as long and four bytes.

    The rate is a multiple of 1/65536 for that.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop values in training only."""
        if not self.training or self.p == 0:
            return input
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64, device=input.device).random_(-(1 << 63), None)
        dropped = round(self.p * (1 << 16))  # of 65536 equally likely values
        kept = words.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - (1 << 15)
        return input * kept * ((1 << 16) / ((1 << 16) - dropped))


class SpatioTemporalLayer(nn.Module):
    """Temporal and spatial attention side by side, added, then a feed-forward network [subsec:dependency_model].

    X ← LayerNorm(X + Dropout(X̂)) + LayerNorm(X + Dropout(X̄)),  X ← LayerNorm(X + Dropout(FF(X)))

    Shape:
        (b, t, s, d) → (b, t, s, d)
    """

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        d = settings.d_model
        self.temporal = Attention(d, settings.heads)
        self.spatial = Attention(d, settings.heads)
        self.temporal_norm = nn.LayerNorm(d)
        self.spatial_norm = nn.LayerNorm(d)
        self.feedforward = FeedForward(d, settings.feedforward)
        self.norm = nn.LayerNorm(d)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, x: Tensor, valid: Tensor | None = None, keep: AttentionPair | None = None
    ) -> tuple[Tensor, AttentionPair]:
        """Enrich each (segment, sensor) by the others; also the weights, without the layer axis."""
        along_time = self.temporal(
            rearrange(x, "b t s d -> b s t d"), valid=valid, keep=None if keep is None else keep.temporal
        )
        along_sensors: Attended = self.spatial(x, keep=None if keep is None else keep.spatial)
        x_hat = rearrange(along_time.context, "b s t d -> b t s d")
        x_bar = along_sensors.context
        x = self.temporal_norm(x + self.dropout(x_hat)) + self.spatial_norm(x + self.dropout(x_bar))
        return self.norm(x + self.dropout(self.feedforward(x))), AttentionPair(
            along_time.weights, along_sensors.weights
        )


class DFSTrans(DetectorNetwork):
    """Segments of many sensors in, the logit of "anomalous" out.

    Inside, the order of axes is always `b t s d`: episode, segment, sensor, d_model.
    """

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.settings = settings
        d = settings.d_model
        self.embedding = build_embedding(settings)
        self.quantile_features = QuantileFeatures(settings) if settings.quantile_features else None
        self.layers = nn.ModuleList(SpatioTemporalLayer(settings) for _ in range(settings.layers))
        self.head = ExactLinear(pooled_width(settings.n_sensors * d, settings.pooling), settings.head_width)
        self.logit = ExactLinear(settings.head_width, 1)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self,
        segments: Tensor,
        valid: Tensor | None = None,
        *,
        keep: AttentionPair | None = None,
        return_attention: bool = False,
    ) -> ForwardPass:
        """Score episodes.

        Shape:
            segments (b, t, s, p), scaled, without NaN; valid (b, t), False for padded segments, whose content has no
            influence on anything; keep, see `AttentionPair`, for the attention trust score
        """
        if not torch.is_grad_enabled() and keep is None and not self.training:
            parts = self._split(segments, valid)
            if len(parts) > 1:
                return _join([self._score(*part, None, return_attention) for part in parts])
        return self._score(segments, valid, keep, return_attention)

    def prepare(self, part: TrainingPart) -> None:
        """Take the quantiles that statistics are coded by."""
        if self.quantile_features is not None:
            self.quantile_features.fit(part)

    def training_loss(
        self,
        segments: Tensor,
        valid: Tensor | None,
        labels: Tensor,
        loss_of_part: LossOfPart,
        mixing: Mixing | None = None,
    ) -> Tensor:
        """Few episodes at a time after the embedding, whose batch norm looks at all of them: see `loss_by_parts`.

        Pairs are mixed after it, too, so that the embedding sees values and levels that occur.
        """
        if valid is not None and bool(valid.all()):
            valid = None
        embeds = {
            *self.embedding.parameters(),
            *([] if self.quantile_features is None else self.quantile_features.parameters()),
        }

        def loss(x: Tensor, rows: slice) -> Tensor:
            return loss_of_part(self.attend(x, None if valid is None else valid[rows]).logit, rows)

        embedded = self.embed(segments, valid)
        return loss_by_parts(
            embedded if mixing is None else mixing.of_segments(embedded, valid),
            self.episodes_at_once(segments),
            loss,
            [one for one in self.parameters() if one.requires_grad and one not in embeds],
        )

    def episodes_at_once(self, segments: Tensor) -> int:
        """How many episodes of that shape (b, t, s, p) make a part, by what is held of each (segment, sensor) cell.

        In training that is its embedding and its attention in every layer, in prediction perhaps its first convolution
        or the code of its statistics.
        """
        _, t, s, p = segments.shape
        settings = self.settings
        attended = settings.layers * (settings.d_model + settings.heads * (t + s))
        convolved = settings.filters * (p // 2)
        coded = settings.quantile_features * STATISTICS
        return max(1, PART_VALUES // (t * s * max(attended, convolved, coded)))

    def _split(self, segments: Tensor, valid: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """Few episodes at a time."""
        size = self.episodes_at_once(segments)
        if valid is None:
            return [(part, None) for part in segments.split(size)]
        return list(zip(segments.split(size), valid.split(size), strict=True))

    def _score(
        self, segments: Tensor, valid: Tensor | None, keep: AttentionPair | None, return_attention: bool
    ) -> ForwardPass:
        if valid is not None and bool(valid.all()):
            valid = None
        return self.attend(self.embed(segments, valid), valid, keep=keep, return_attention=return_attention)

    def embed(self, segments: Tensor, valid: Tensor | None = None) -> Tensor:
        """Embedding and positional encoding, all that comes before attention: (b, t, s, p) → (b, t, s, d)."""
        x = self._embed(segments, valid)
        return self.dropout(x + self._encode(segments.shape[1], x))  # type: ignore[no-any-return]

    def attend(
        self,
        x: Tensor,
        valid: Tensor | None = None,
        *,
        keep: AttentionPair | None = None,
        return_attention: bool = False,
    ) -> ForwardPass:
        """All that comes after `embed`, so that one embedding serves many masks: (b, t, s, d) → a logit each."""
        attention = []
        for number, layer in enumerate(self.layers):
            layer_keep = None if keep is None else _of_layer(keep, number)
            x, pair = layer(x, valid, layer_keep)
            if return_attention:
                attention.append(pair)
        share = None if valid is None else even_share(x, valid)
        pooled = pool(rearrange(x, "b t s d -> b t (s d)"), share, self.settings.pooling)
        features = functional.relu(self.head(pooled))  # (b, head_width)
        logit = self.logit(self.dropout(features)).squeeze(-1)  # (b,)
        if not return_attention:
            return ForwardPass(logit, features, None, None)
        return ForwardPass(logit, features, _stack(attention, valid), self.contribution(x, features, valid))

    def contribution(self, x: Tensor, features: Tensor, valid: Tensor | None) -> Tensor:
        """What each sensor at each moment adds to the logit, exactly, given which features are above 0.

        The classifier is linear in what it sees but for its ReLU, and that is a sum over segments (see `pooling`): with
        the features that are above 0 held, the logit is a sum over (segment, sensor) and a constant.

        Shape:
            x (b, t, s, d), features (b, head_width) → (b, t, s)
        """
        active = self.logit.weight * (features > 0)  # (b, head_width)
        return added(x, active @ self.head.weight, even_share(x, valid), self.settings.pooling)

    def _embed(self, segments: Tensor, valid: Tensor | None) -> Tensor:
        """Embed the segments that are there; padded ones become 0 and never meet the batch norm."""
        b, t = segments.shape[:2]
        if valid is None:
            x = self._embed_segments(rearrange(segments, "b t s p -> (b t) s p"))
            return rearrange(x, "(b t) s d -> b t s d", b=b)
        embedded = self._embed_segments(segments[valid])  # (n_valid, s, d)
        x = embedded.new_zeros(b, t, *embedded.shape[1:])
        x[valid] = embedded
        return x

    def _embed_segments(self, segments: Tensor) -> Tensor:
        """(segment, sensor, point) → (segment, sensor, d)."""
        x: Tensor = self.embedding(segments)
        return x if self.quantile_features is None else x + self.quantile_features(segments).to(x.dtype)

    def _encode(self, n_segments: int, like: Tensor) -> Tensor:
        """The positional encoding, the same for every sensor, as a constant of shape (t, 1, d)."""
        encoding = positional_encoding(self.settings.encoding, n_segments, self.settings.d_model)
        return torch.as_tensor(encoding, dtype=like.dtype, device=like.device).unsqueeze(1)


def _join(parts: list[ForwardPass]) -> ForwardPass:
    """The passes of some parts as one."""
    logit, features = torch.cat([part.logit for part in parts]), torch.cat([part.features for part in parts])
    pairs = [part.attention for part in parts if part.attention is not None]
    if not pairs:
        return ForwardPass(logit, features, None, None)
    temporal, spatial = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
    contribution = torch.cat([part.contribution for part in parts if part.contribution is not None])
    return ForwardPass(logit, features, AttentionPair(temporal, spatial), contribution)


def _of_layer(keep: AttentionPair, number: int) -> AttentionPair:
    """One layer's part of a keep-mask; a mask with one layer serves them all."""
    temporal, spatial = (mask[:, 0 if mask.shape[1] == 1 else number] for mask in keep)
    return AttentionPair(temporal, spatial)


def _stack(layers: list[AttentionPair], valid: Tensor | None) -> AttentionPair:
    """All layers' weights in one pair, with padded segments set to 0."""
    temporal = torch.stack([pair.temporal for pair in layers], dim=1)  # (b, layer, s, h, q, k)
    spatial = torch.stack([pair.spatial for pair in layers], dim=1)  # (b, layer, t, h, q, k)
    if valid is not None:  # padded keys of the temporal attention are 0 already
        temporal = temporal * rearrange(valid, "b q -> b 1 1 1 q 1")
        spatial = spatial * rearrange(valid, "b t -> b 1 t 1 1 1")
    return AttentionPair(temporal, spatial)
