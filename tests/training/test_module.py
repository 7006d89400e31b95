from __future__ import annotations

import numpy as np
import pytest

from dfstrans.settings import TrainingSettings
from dfstrans.training.calibration import positive_weight


@pytest.mark.parametrize(
    ("normal", "anomalous", "weight"), [(30, 10, 3.0), (10, 30, 1.0), (1000, 2, 20.0), (5, 5, 1.0)]
)
def test_the_weight_evens_the_classes_within_bounds(normal: int, anomalous: int, weight: float) -> None:
    labels = np.repeat(np.array([0, 1], dtype=np.int8), [normal, anomalous])
    assert positive_weight(labels, TrainingSettings()) == weight
    assert positive_weight(labels, TrainingSettings(imbalance="none")) == 1
