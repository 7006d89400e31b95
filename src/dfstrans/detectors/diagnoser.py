"""`Diagnoser`: the DFStrans network as an estimator that detects anomalies and diagnoses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import warn_of_silent_sensors
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import MIN_FILTERS, default_filters, default_segment_length
from dfstrans.detectors.network import NetworkClassifier
from dfstrans.detectors.parameters import describe_arguments
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.diagnosis.diagnose import KnownCases, diagnose
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.errors import DfstransError, did_you_mean, option_name
from dfstrans.model.encoding import check_fits
from dfstrans.model.fast import FastDFSTrans
from dfstrans.model.network import DFSTrans, ForwardPass
from dfstrans.settings import (
    DFSTRANS,
    PRESETS,
    Encoding,
    NetworkSettings,
    NetworkShape,
    Preset,
    Settings,
)

KNOWN_FEATURES = "known_cases.features"  # name of an array in the reference
NETWORK = NetworkSettings()  # argument defaults


@describe_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class Diagnoser(NetworkClassifier):
    """Detects anomalous episodes, and shows which sensors deviate from normal, and when.

    Arguments that are None take the value of the preset, or are chosen from the training episodes.

    Parameters:
        preset: Base settings: "tuned" (our network), or "paper" (the paper's network and training).
        {settings}
        network: All other settings of the network, as a mapping or a `NetworkSettings`.
        training: All other settings of training, as a mapping or a `TrainingSettings`.

    >>> from dfstrans.data.synthetic import planted_episodes
    >>> episodes = planted_episodes(n_normal=12, n_anomalous=6, n_sensors=3, n_timepoints=48, seed=0)
    >>> detector = Diagnoser(segment_length=16, epochs=1, network={"heads": 2, "feedforward": 16}).fit(episodes)
    >>> detector.predict_proba(episodes).shape
    (18, 2)
    """

    estimator_name: ClassVar[str] = DFSTRANS
    network_kind: ClassVar[type[Settings]] = NetworkSettings
    shape_kind: ClassVar[type[Settings]] = NetworkShape

    preset: Preset = "tuned"
    segment_length: int | None = None
    encoding: Encoding = NETWORK.encoding

    network_: DFSTrans = field(init=False)
    reference_: NormalReference = field(init=False)
    known_cases_: KnownCases = field(init=False)

    @staticmethod
    def build(network: NetworkShape, scaler: SensorScaler) -> DFSTrans:
        """Build a network of this shape with weights from torch's random generator."""
        return FastDFSTrans(network)

    def network_settings(self, episodes: Episodes) -> NetworkShape:
        """Return the shape of the network that fit would build for these episodes."""
        given: NetworkSettings = self._settings(NetworkSettings)
        values = given.model_dump() | {"n_sensors": episodes.n_sensors, "filters": given.filters or MIN_FILTERS}
        if given.segment_length is None:
            any_length = NetworkShape(**values | {"segment_length": 1 << 20, "heads": 1})
            values["segment_length"] = default_segment_length(episodes, any_length)
        if given.filters is None:
            any_filters = NetworkShape(**values | {"heads": 1})
            values["filters"] = default_filters(episodes, any_filters, given.heads)
        return NetworkShape(**values)

    def check_lengths(self, episodes: Episodes, network: NetworkShape) -> None:
        """Reject episodes that are too short or too long for the segments of a network."""
        check_fits(episodes, network, trained=network is getattr(self, "network_settings_", None))

    def diagnose(self, X: Any, *, known: Episodes | None = None, trust: bool = False) -> Iterator[Diagnosis]:  # noqa: N803
        """Yield one `Diagnosis` per episode: which sensors deviate from normal, and when.

        If kinds of faults were known in training, a diagnosis names the most similar one; `known` holds other
        anomalies of known kinds to use instead. With `trust`, each anomalous episode gets a verdict on its attention,
        which takes about twenty forward passes.
        """
        episodes = self.check_input(X)
        warn_of_silent_sensors(episodes)
        cases = self.known_cases_ if known is None else KnownCases.of(self, self.check_input(known))
        return diagnose(self, episodes, self.reference_, cases, trust=trust)

    def forward(self, X: Any, *, return_attention: bool = False) -> Iterator[ForwardPass]:  # noqa: N803
        """Yield the network's output batch by batch; only one batch is in memory at a time."""
        for batch in self.batches(self.check_input(X)):
            with torch.inference_mode():
                yield self.network_(batch.segments, batch.valid, return_attention=return_attention)

    def _preset_settings(self) -> dict[str, Any]:
        if self.preset not in PRESETS:
            raise DfstransError(
                f"expected {option_name('preset')} to be {' or '.join(PRESETS)}, got {self.preset!r}; "
                f"{did_you_mean(str(self.preset), PRESETS)}"
            )
        return dict(PRESETS[self.preset])

    # ---- the normal reference and the known faults are part of the model ----------------------------------------

    def _learn_reference(self, train: Episodes) -> None:
        labels = train.require_labels()
        self.reference_ = NormalReference.fit(self, train[labels == 0], seed=self.training_settings_.seed)
        self.known_cases_ = KnownCases.of(self, train[labels == 1])

    def _stored(self) -> StoredModel:
        stored, cases = super()._stored(), self.known_cases_
        return stored._replace(
            record=stored.record.model_copy(update={"known_cases": dict(zip(cases.ids, cases.kinds, strict=True))}),
            reference=self.reference_.to_arrays() | {KNOWN_FEATURES: cases.features},
        )

    @classmethod
    def _from_stored(cls, folder: Path, stored: StoredModel) -> Self:
        self = super()._from_stored(folder, stored)
        kinds = stored.record.known_cases
        self.reference_ = NormalReference.from_arrays(stored.reference)
        self.known_cases_ = KnownCases(tuple(kinds), tuple(kinds.values()), stored.reference[KNOWN_FEATURES])
        return self
