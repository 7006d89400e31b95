"""Every rival finds what was planted."""

from __future__ import annotations

from typing import Any

import pytest

from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import detector_kind

NETWORK = {"batch_size": 8, "precision": "32", "sensor_dropout": 0.0, "mixup": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "inceptiontime": {**NETWORK, "epochs": 5, "kernels": (3, 5, 9)},
    "tapnet": {**NETWORK, "epochs": 5},
    "mlstm-fcn": {**NETWORK, "epochs": 10},
    "mh1dcnn-lstm": {**NETWORK, "epochs": 10, "segment_length": 8},
    "minirocket": {"kernels": 840},
    "boosting": {"trees": 40, "fewest_in_leaf": 3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_planted_anomalies_are_found(name: str) -> None:
    if name == "minirocket":
        pytest.importorskip("aeon", reason="needs the extra rivals: pip install 'dfstrans[rivals]'")
    episodes = planted_episodes(60, 50, n_sensors=2, n_timepoints=40, strength=4.0, seed=0)
    train, validation, test = episodes.split(0, (0.5, 0.2, 0.3))
    detector = detector_kind(name).from_settings(**SETTINGS[name]).fit(train, validation=validation)
    f1 = detector.evaluate(test).f1
    assert f1 is not None
    assert f1 >= 0.9
