"""What a user tries first: extra-trees on 14 statistics of each sensor over the whole episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from sklearn.ensemble import ExtraTreesClassifier

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import cut_segments
from dfstrans.detectors.base import SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.model.forest import Features, Forest
from dfstrans.settings import DetectorSettings
from dfstrans.training.calibration import positive_weight

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PARTS = 10  # of an episode
N_STATISTICS = 14


class ExtraTreesSettings(DetectorSettings):
    """Number of trees."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    trees: int = Field(default=300, ge=1, description="Number of trees.")


def whole_statistics(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the statistics of one episode without gaps: (sensor, point) → (sensor, 14)."""
    step = np.abs(np.diff(values, axis=1, append=values[:, -1:]))
    parts = np.array_split(values, min(PARTS, values.shape[1]), axis=1)
    means, deviations = (np.stack([getattr(part, of)(axis=1) for part in parts], axis=1) for of in ("mean", "std"))
    columns = [values.mean(1), values.std(1), values.min(1), values.max(1), step.mean(1), step.max(1)]
    columns += [*np.quantile(values, QUANTILES, axis=1), means.std(1), deviations.max(1), deviations.min(1)]
    return np.stack(columns, axis=1)


def statistics_of_all(episodes: Episodes, scaler: SensorScaler) -> Features:
    """Return one row per episode: (episode, sensor · 14)."""
    found = np.empty((len(episodes), episodes.n_sensors * N_STATISTICS), dtype=np.float32)
    for row in range(len(episodes)):
        points = cut_segments(episodes[[row]], scaler, 1).values[0, :, :, 0]  # (point, sensor), without gaps
        found[row] = whole_statistics(points.T.astype(np.float64)).ravel()
    return found


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class ExtraTreesRival(SingleStepClassifier):
    """Extra-trees on simple statistics, in ten lines of scikit-learn; see `ExtraTreesSettings` for the arguments."""

    estimator_name: ClassVar[str] = "extra-trees"
    network_kind = shape_kind = ExtraTreesSettings

    trees: int = ExtraTreesSettings(n_sensors=1).trees

    def _train(self, task: TrainingTask) -> TrainingResult:
        labels = task.train.require_labels()
        weight = positive_weight(labels, task.training)
        threads = torch.get_num_threads()  # which a comparison limits; -1 would be all cores in each of its processes
        model = ExtraTreesClassifier(task.network.trees, random_state=task.training.seed, n_jobs=threads)
        model.fit(statistics_of_all(task.train, task.scaler), labels, np.where(labels == 1, weight, 1.0))
        self.forest_ = Forest.from_votes(model)
        return TrainingResult(odds=1.0)  # trees grow until leaves are pure, so the weight does not raise their votes

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        return self.forest_.vote_logits(statistics_of_all(episodes, self.scaler_))

    def _weights(self) -> Weights:
        return {name: torch.from_numpy(np.array(array)) for name, array in self.forest_._asdict().items()}

    def _restore(self, stored: StoredModel) -> None:
        self.forest_ = Forest(**{name: stored.weights[name].numpy() for name in Forest._fields})
