"""`Diagnoser`: fit, predict, diagnose, save and load, as scikit-learn users know it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import FEWEST_FILTERS, default_filters, default_segment_length
from dfstrans.detectors.network import NetworkClassifier
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.errors import DfstransError
from dfstrans.model.encoding import check_fits
from dfstrans.model.fast import FastDFSTrans
from dfstrans.model.network import DFSTrans, ForwardPass
from dfstrans.settings import (
    DFSTRANS,
    Embedding,
    Encoding,
    Imbalance,
    NetworkSettings,
    Norm,
    Pooling,
    Precision,
    Schedule,
    SelectBy,
    Settings,
    ThresholdRule,
)

if TYPE_CHECKING:
    from dfstrans.diagnosis.diagnosis import Diagnosis
    from dfstrans.diagnosis.reference import NormalReference


KNOWN_FEATURES = "known_cases.features"  # an array among those of the reference


class Diagnoser(NetworkClassifier):
    """A detector of anomalous episodes: labelled recordings in, anomaly probabilities out.

    The arguments are the fields of `NetworkSettings` and `TrainingSettings`, where they are explained. Without a
    `segment_length` or a number of `filters` it is chosen from the lengths of the training episodes, without a
    `batch_size` and `epochs` from their number.
    `Diagnoser(**PRESETS["paper"])` is the paper's network, trained as the paper did.

    >>> from dfstrans.data.synthetic import planted_episodes
    >>> episodes = planted_episodes(n_normal=12, n_anomalous=6, n_sensors=3, n_timepoints=48, seed=0)
    >>> detector = Diagnoser(segment_length=16, filters=4, heads=2, feedforward=16, epochs=1).fit(episodes)
    >>> detector.predict_proba(episodes).shape
    (18, 2)
    """

    estimator_name: ClassVar[str] = DFSTRANS
    network_kind: ClassVar[type[Settings]] = NetworkSettings
    network_: DFSTrans

    def __init__(
        self,
        *,
        segment_length: int | None = None,
        blocks: int = 3,
        filters: int | None = None,
        kernel: int = 5,
        heads: int = 8,
        feedforward: int = 128,
        head_width: int = 128,
        pooling: Pooling = "mean+deviation",
        layers: int = 1,
        dropout: float = 0.0,
        norm: Norm = "renorm",
        encoding: Encoding = "faithful",
        embedding: Embedding = "cnn",
        quantile_features: int = 16,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.05,
        patience: int = 20,
        normals_per_anomaly: float | None = None,
        select_by: SelectBy = "pr-auc",
        gradient_clip: float | None = 1.0,
        schedule: Schedule = "one-cycle",
        imbalance: Imbalance = "weighted",
        sensor_dropout: float = 0.0,
        noise: float = 0.0,
        time_shift: float = 0.5,
        mixup: float = 0.3,
        weight_averaging: float = 0.99,
        validation_fraction: float = 0.15,
        threshold_rule: ThresholdRule = "f1",
        threshold_value: float | None = None,
        precision: Precision = "auto",
        seed: int = 0,
    ) -> None:
        self.segment_length = segment_length
        self.blocks = blocks
        self.filters = filters
        self.kernel = kernel
        self.heads = heads
        self.feedforward = feedforward
        self.head_width = head_width
        self.pooling = pooling
        self.layers = layers
        self.dropout = dropout
        self.norm = norm
        self.encoding = encoding
        self.embedding = embedding
        self.quantile_features = quantile_features
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.normals_per_anomaly = normals_per_anomaly
        self.select_by = select_by
        self.gradient_clip = gradient_clip
        self.schedule = schedule
        self.imbalance = imbalance
        self.sensor_dropout = sensor_dropout
        self.noise = noise
        self.time_shift = time_shift
        self.mixup = mixup
        self.weight_averaging = weight_averaging
        self.validation_fraction = validation_fraction
        self.threshold_rule = threshold_rule
        self.threshold_value = threshold_value
        self.precision = precision
        self.seed = seed

    @staticmethod
    def build(network: NetworkSettings, scaler: SensorScaler) -> DFSTrans:
        """The network of these settings, with weights that torch's random generator gives."""
        return FastDFSTrans(network)

    def network_settings(self, episodes: Episodes) -> NetworkSettings:
        """The network that fit would build for these episodes."""
        filters = FEWEST_FILTERS if self.filters is None else self.filters
        known: dict[str, Any] = {"n_sensors": episodes.n_sensors, "filters": filters}
        if self.segment_length is None:
            any_length = self._settings(NetworkSettings, **known, segment_length=1 << 20, heads=1)
            known["segment_length"] = default_segment_length(episodes, any_length)
        if self.filters is None:
            any_filters = self._settings(NetworkSettings, **known, heads=1)
            known["filters"] = default_filters(episodes, any_filters, self.heads)
        return self._settings(NetworkSettings, **known)  # type: ignore[no-any-return]

    def check_lengths(self, episodes: Episodes, network: NetworkSettings) -> None:
        """Refuse episodes that are too short, or too long, for the segments of a network."""
        check_fits(episodes, network, trained=network is getattr(self, "network_settings_", None))

    def diagnose(self, X: Any, *, known: Episodes | None = None, trust: bool = False) -> Iterator[Diagnosis]:  # noqa: N803
        """One `Diagnosis` per episode, one after the other: which sensors, which moments, unlike what is normal.

        Where the kinds of some training anomalies' faults were known, it tells which of these an episode resembles;
        `known` are other such anomalies, instead of those of training. With `trust`, anomalous episodes get a verdict
        on their attention, which takes some twenty passes each.
        """
        from dfstrans.diagnosis.diagnose import diagnose
        from dfstrans.diagnosis.known_faults import KnownCases

        episodes, reference = self.check_input(X), self.require_reference()
        cases = self.known_cases_ if known is None else KnownCases.of(self, self.check_input(known))
        return diagnose(self, episodes, reference, cases, trust=trust)

    def require_reference(self) -> NormalReference:
        """What is normal; an error where the model does not know."""
        if self.reference_ is None:
            raise DfstransError(
                "expected a model that knows what is normal, got one that was saved before models kept that; train it "
                "again"
            )
        return self.reference_

    def forward(self, X: Any, *, return_attention: bool = False) -> Iterator[ForwardPass]:  # noqa: N803
        """The network's output, batch by batch; only one batch is ever in memory."""
        for batch in self.batches(X):
            with torch.inference_mode():
                yield self.network_(batch.segments, batch.valid, return_attention=return_attention)

    # ---- what is normal, and what known faults look like, travels with the model --------------------------------

    def _calibrate_and_reference(self, train: Episodes, validation: Episodes, odds: float) -> None:
        from dfstrans.diagnosis.known_faults import KnownCases
        from dfstrans.diagnosis.reference import NormalReference

        super()._calibrate_and_reference(train, validation, odds)
        labels, seed = train.require_labels(), self.training_settings_.seed
        self.reference_: NormalReference | None = NormalReference.fit(self, train[labels == 0], seed=seed)
        self.known_cases_ = KnownCases.of(self, train[labels == 1])

    def _stored(self) -> StoredModel:
        stored = super()._stored()
        if self.reference_ is None:
            return stored
        cases = self.known_cases_
        return stored._replace(
            record=stored.record.model_copy(update={"known_cases": dict(zip(cases.ids, cases.kinds, strict=True))}),
            reference=self.reference_.to_arrays() | {KNOWN_FEATURES: cases.features},
        )

    @classmethod
    def _from_stored(cls, folder: Path, stored: StoredModel) -> Self:
        from dfstrans.diagnosis.known_faults import KnownCases
        from dfstrans.diagnosis.reference import NormalReference

        self = super()._from_stored(folder, stored)
        arrays, kinds = stored.reference, stored.record.known_cases
        self.reference_ = None if arrays is None else NormalReference.from_arrays(arrays)
        self.known_cases_ = KnownCases.none()
        if arrays is not None and kinds:
            self.known_cases_ = KnownCases(tuple(kinds), tuple(kinds.values()), arrays[KNOWN_FEATURES])
        return self
