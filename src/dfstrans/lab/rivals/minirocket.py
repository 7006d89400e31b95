"""MiniRocket with a ridge classifier: thousands of fixed convolutions and a linear layer.

Dempster et al., MINIROCKET: a very fast (almost) deterministic transform for time series classification, KDD 2021. The
transform comes from aeon, an optional extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.linear_model import LogisticRegression, RidgeCV

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler
from dfstrans.data.segments import cut_segments
from dfstrans.detectors.base import SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.errors import DfstransError
from dfstrans.lab.rivals.layers import check_longest
from dfstrans.settings import DetectorSettings
from dfstrans.training.calibration import positive_weight

BATCH = 64  # episodes in memory at a time
MOST_FOR_BIASES = 1024  # episodes that the biases of the transform are drawn from
ALPHAS = np.logspace(-3, 3, 10)  # as in aeon's own classifier
FEWEST_POINTS = 9  # the length of a kernel
KERNELS = ("n_channels_per_combination", "channel_indices", "dilations", "n_features_per_dilation", "biases")
INSTALL = "install it with the extra rivals, pip install 'dfstrans[rivals]' (see docs/how-to/compare-detectors.md)"


class MiniRocketSettings(DetectorSettings):
    """Settings of MiniRocket: the number of convolutions and the length of episodes."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    n_timepoints: int = Field(
        ge=FEWEST_POINTS, description="Points of the longest episode (default: that of the training part)."
    )
    kernels: int = Field(default=10_000, ge=84, description="Convolutions, rounded down to a multiple of 84.")


CONVOLUTIONS: int = MiniRocketSettings.model_fields["kernels"].default


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor; the rest is scikit-learn's
class MiniRocketClassifier(SingleStepClassifier):
    """MiniRocket with ridge regression; the features of all training episodes must fit into memory.

    The arguments are the fields of `MiniRocketSettings` and `DecisionSettings`. The convolutions are built for the
    longest training episode, or for `n_timepoints`: shorter episodes are padded with each sensor's training mean,
    longer ones are refused. A missing value repeats the last one.

    The ridge penalty is chosen by leave-one-out cross-validation; the left-out scores also fit the map from ridge
    output to logit.
    """

    estimator_name: ClassVar[str] = "minirocket"
    network_kind = shape_kind = MiniRocketSettings

    n_timepoints: int | None = None
    kernels: int = CONVOLUTIONS

    def network_settings(self, episodes: Episodes) -> MiniRocketSettings:
        """Settings of the transform that `fit` would build for these episodes."""
        longest = int(episodes.lengths.max()) if self.n_timepoints is None else self.n_timepoints
        return self._settings(  # type: ignore[no-any-return]
            MiniRocketSettings, n_sensors=episodes.n_sensors, n_timepoints=longest
        )

    def check_lengths(self, episodes: Episodes, network: MiniRocketSettings) -> None:
        """Refuse episodes longer than the convolutions were built for."""
        check_longest(episodes, network.n_timepoints, self.estimator_name)

    def _train(self, task: TrainingTask) -> TrainingResult:
        settings, train, labels = task.network, task.train, task.train.require_labels()
        seed = task.training.seed
        transform = _transform(settings.kernels, seed)
        some = np.random.default_rng(seed).permutation(len(train))[:MOST_FOR_BIASES]
        with _own_random_state():
            transform.fit(whole_episodes(train[np.sort(some)], task.scaler, settings.n_timepoints))
        features = self._features(transform, train, task.scaler, settings.n_timepoints)[0]
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        ridge = RidgeCV(ALPHAS, scoring="neg_mean_squared_error", store_cv_results=True)
        weight = positive_weight(labels, task.training)
        ridge.fit((features - mean) / scale, 2.0 * labels - 1, sample_weight=np.where(labels, weight, 1.0))
        left_out = ridge.cv_results_[:, int(np.flatnonzero(ridge.alpha_ == ALPHAS)[0])]
        to_logit = LogisticRegression(C=np.inf).fit(left_out[:, None], labels)
        slope, offset = to_logit.coef_[0, 0], to_logit.intercept_[0]
        self.weight_ = slope * ridge.coef_ / scale
        self.bias_ = np.float64(slope * ridge.intercept_ + offset - mean @ self.weight_)
        self.transform_ = transform
        return TrainingResult(1.0)  # logits reflect the plain class frequencies

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        if len(episodes) == 0:
            return np.empty(0)
        features, absurd = self._features(self.transform_, episodes, self.scaler_, self.network_settings_.n_timepoints)
        return np.where(absurd, np.nan, features @ self.weight_ + self.bias_)

    @staticmethod
    def _features(
        transform: Any, episodes: Episodes, scaler: SensorScaler, n_timepoints: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Features (n_episodes, kernels), and which episodes have an implausibly large value."""
        features, absurd = [], []
        for part in episodes.batches(BATCH):
            values = whole_episodes(part, scaler, n_timepoints)
            strange = np.abs(values).max(axis=(1, 2)) > LARGEST_SCALED_VALUE
            values[strange] = 0.0  # the transform would square them
            features.append(transform.transform(values))
            absurd.append(strange)
        return np.concatenate(features).astype(np.float64), np.concatenate(absurd)

    def _weights(self) -> Weights:
        kernels = dict(zip(KERNELS, self.transform_.parameters, strict=True))
        arrays = {**kernels, "weight": self.weight_, "bias": self.bias_}
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def _restore(self, stored: StoredModel) -> None:
        arrays = {name: tensor.numpy() for name, tensor in stored.weights.items()}
        self.weight_, self.bias_ = arrays["weight"], np.float64(arrays["bias"])
        self.transform_ = _transform(self.network_settings_.kernels, seed=0)
        self.transform_.parameters = tuple(arrays[name] for name in KERNELS)
        self.transform_._n_jobs, self.transform_.is_fitted = 1, True  # what aeon's fit sets


def whole_episodes(episodes: Episodes, scaler: SensorScaler, n_timepoints: int) -> npt.NDArray[np.float32]:
    """Scaled episodes without gaps, padded with each sensor's training mean: (n, s, n_timepoints)."""
    points, there = cut_segments(episodes, scaler, 1)
    whole = np.empty((len(episodes), episodes.n_sensors, n_timepoints), dtype=np.float32)
    whole[:] = scaler.scaled_mean[:, None]
    length = points.shape[1]
    whole[..., :length] = np.where(there[:, None], points[..., 0].transpose(0, 2, 1), whole[..., :length])
    return whole


def _transform(kernels: int, seed: int) -> Any:
    try:
        from aeon.transformations.collection.convolution_based import MiniRocket
    except ImportError as error:
        raise DfstransError(f"expected the package aeon for minirocket, got none ({error}); {INSTALL}") from error
    return MiniRocket(n_kernels=kernels, random_state=seed)


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Restore numpy's global random state, which the transform seeds."""
    before = np.random.get_state()
    try:
        yield
    finally:
        np.random.set_state(before)
