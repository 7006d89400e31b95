"""TapNet: distances to a normal and an anomalous prototype in a learned embedding.

Zhang et al., TapNet: Multivariate time series classification with attentional prototypical network, AAAI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from einops import rearrange, reduce
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.lab.rivals.layers import (
    EPOCHS,
    WholeEpisodeClassifier,
    WholeEpisodeSettings,
    check_longest,
    filled_up,
    rejoin,
)
from dfstrans.model.detector import DetectorNetwork, Logits, TrainingPart

GROUPS = 3  # tab:hyp_benchmark, "Rp params"
FILTERS, KERNELS = (256, 256, 128), (8, 5, 3)  # tab:hyp_benchmark
UNITS = 128  # of the LSTM, and of the attention
HIDDEN, EMBEDDING = 500, 300
CLASSES = (0, 1)
FEWEST_POINTS = sum(kernel - 1 for kernel in KERNELS) + 1  # the convolutions are not padded


class TapNetSettings(WholeEpisodeSettings):
    """Settings of a TapNet network, which is built for one length of episodes."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    n_timepoints: int = Field(
        ge=FEWEST_POINTS, description="Points of the longest episode (default: that of the training part)."
    )

    @property
    def group_size(self) -> int:
        """Sensors per group: ⌊S / 1.5⌋, at least 1."""
        return max(1, 2 * self.n_sensors // 3)

    @property
    def dilation(self) -> int:
        """Dilation of the first convolution: ⌊T / 64⌋, at least 1."""
        return max(1, self.n_timepoints // 64)


class TapNet(DetectorNetwork):
    """Convolutions over random groups of sensors and an LSTM, then distances to a prototype of each class.

    The logit of a class is −½‖e − p‖²; the logit of "anomalous" is the difference of the two. A prototype is the
    attention-weighted mean of the embeddings of its class: over the batch in training, and over the whole training part
    (frozen) in prediction. A class that is absent from a training batch keeps its last prototype.

    6144·⌊S/1.5⌋ + 512·T + 980 090 parameters.
    """

    groups: Tensor
    prototypes: Tensor
    usual: Tensor

    def __init__(self, settings: TapNetSettings, usual: Tensor) -> None:
        super().__init__()
        self.n_timepoints = settings.n_timepoints
        size = settings.group_size
        self.register_buffer("groups", torch.stack([torch.randperm(settings.n_sensors)[:size] for _ in range(GROUPS)]))
        self.register_buffer("prototypes", torch.zeros(len(CLASSES), EMBEDDING))
        self.register_buffer("usual", usual, persistent=False)  # the scaler's
        self.first = nn.Conv1d(
            GROUPS * size, GROUPS * FILTERS[0], KERNELS[0], dilation=settings.dilation, groups=GROUPS
        )
        self.second = nn.Conv1d(FILTERS[0], FILTERS[1], KERNELS[1])
        self.third = nn.Conv1d(FILTERS[1], FILTERS[2], KERNELS[2])
        self.norms = nn.ModuleList(nn.BatchNorm1d(filters) for filters in FILTERS)
        self.lstm = nn.LSTM(settings.n_timepoints, UNITS, batch_first=True)
        self.hidden = nn.Linear(GROUPS * FILTERS[2] + UNITS, HIDDEN)
        self.hidden_norm = nn.BatchNorm1d(HIDDEN)
        self.embedding = nn.Linear(HIDDEN, EMBEDDING)
        self.attention = nn.ModuleList(
            nn.Sequential(nn.Linear(EMBEDDING, UNITS), nn.Tanh(), nn.Linear(UNITS, 1)) for _ in CLASSES
        )

    def forward(self, segments: Tensor, valid: Tensor | None = None) -> Logits:
        """Logits from the frozen prototypes: segments (b, t, s, p), valid (b, t) → (b,)."""
        return Logits(_logit(self.embed(segments, valid), self.prototypes))

    def training_logit(self, segments: Tensor, valid: Tensor, labels: Tensor) -> Tensor:
        """Logits from the prototypes of the batch; a mixed episode belongs to its larger class."""
        embedded = self.embed(segments, valid)
        prototypes = self.prototypes.clone()
        for label in CLASSES:
            members = embedded[(labels >= 0.5) == bool(label)]
            if len(members):
                prototypes[label] = self._prototype(label, members)[0]
        self.prototypes.copy_(prototypes.detach())
        return _logit(embedded, prototypes)

    @torch.no_grad()
    def prepare_prediction(self, part: TrainingPart) -> None:
        """Compute and freeze the prototypes of all episodes, one batch at a time.

        The softmax over all episodes equals the softmax over batches of the softmax within each.
        """
        prototypes = torch.zeros_like(self.prototypes)
        total = prototypes.new_full((len(CLASSES), 1), -torch.inf)
        for segments, valid, labels, _ in part:
            embedded = self.embed(segments.to(total.device), valid.to(total.device))
            for label in CLASSES:
                members = embedded[labels == label]
                if len(members):
                    prototype, weight = self._prototype(label, members)
                    grown = torch.logaddexp(total[label], weight)
                    share = torch.exp(weight - grown)
                    prototypes[label] = torch.lerp(prototypes[label], prototype, share)
                    total[label] = grown
        self.prototypes.copy_(prototypes)

    def embed(self, segments: Tensor, valid: Tensor | None = None) -> Tensor:
        """Embeddings of episodes: (b, t, s, p) → (b, 300)."""
        x = filled_up(*rejoin(segments, valid), self.n_timepoints, self.usual)  # (b, s, T)
        steps, _ = self.lstm(x)  # (b, s, 128): the sensors are its steps
        grouped = self.first(rearrange(x[:, self.groups], "b g s t -> b (g s) t"))
        y = self._activate(0, rearrange(grouped, "b (g c) t -> (b g) c t", g=GROUPS))
        y = self._activate(2, self.third(self._activate(1, self.second(y))))
        convolved = rearrange(reduce(y, "n c t -> n c", "mean"), "(b g) c -> b (g c)", g=GROUPS)
        features = torch.cat([convolved, steps.mean(dim=1)], dim=1)  # (b, 512)
        embedded: Tensor = self.embedding(functional.leaky_relu(self.hidden_norm(self.hidden(features))))
        return embedded.float()  # distances need full precision

    def _activate(self, number: int, x: Tensor) -> Tensor:
        activated: Tensor = functional.leaky_relu(self.norms[number](x))
        return activated

    def _prototype(self, label: int, members: Tensor) -> tuple[Tensor, Tensor]:
        """The attention-weighted mean of embeddings (n, 300) of one class, and the log of the summed weights."""
        scores = self.attention[label](members).squeeze(-1).float()
        return scores.softmax(dim=0) @ members, scores.logsumexp(dim=0)


def _logit(embedded: Tensor, prototypes: Tensor) -> Tensor:
    """−½‖e − p₁‖² + ½‖e − p₀‖²: (b, 300), (2, 300) → (b,)."""
    normal, anomalous = (embedded[:, None] - prototypes).square().sum(dim=2).unbind(dim=1)  # squared distances
    return (normal - anomalous) / 2


class TapNetClassifier(WholeEpisodeClassifier):
    """TapNet for whole episodes; `network` holds the `TapNetSettings`.

    Its LSTM is as wide as an episode is long, so the network is built for the longest training episode, or for
    `n_timepoints`: shorter episodes are padded with each sensor's training mean, longer ones are refused. Each
    validation takes one more pass over the training part to compute the prototypes.
    """

    estimator_name: ClassVar[str] = "tapnet"
    network_kind = shape_kind = TapNetSettings
    # prototypes need unmixed classes; squared distances as logits need a small learning rate
    own_defaults: ClassVar[Mapping[str, Any]] = {**EPOCHS, "mixup": 0.0, "learning_rate": 5e-4}

    @staticmethod
    def build(network: TapNetSettings, scaler: SensorScaler) -> TapNet:
        """A network with these settings; weights and groups come from torch's random generator."""
        return TapNet(network, torch.from_numpy(scaler.scaled_mean))

    def network_settings(self, episodes: Episodes) -> TapNetSettings:
        """Settings of the network that `fit` would build for these episodes."""
        longest = self.all_settings()["n_timepoints"] or int(episodes.lengths.max())
        return self._settings(  # type: ignore[no-any-return]
            TapNetSettings, n_sensors=episodes.n_sensors, n_timepoints=longest
        )

    def check_lengths(self, episodes: Episodes, network: TapNetSettings) -> None:
        """Refuse episodes longer than the network was built for."""
        check_longest(episodes, network.n_timepoints, self.estimator_name)
