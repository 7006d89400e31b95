"""Settings refuse what they do not know and name what they expected."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from dfstrans.errors import DfstransError
from dfstrans.settings import NetworkSettings, TrainingSettings


def test_an_unknown_setting_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(DfstransError) as caught:
        NetworkSettings(n_sensors=2, segment_length=50, head=4)
    message = str(caught.value)
    assert "unknown setting 'head'" in message
    for name in NetworkSettings.model_fields:
        assert name in message
    with pytest.raises(DfstransError, match=r"unknown setting 'lr'; expected one of: epochs, batch_size"):
        TrainingSettings(lr=0.1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_sensors": 0}, r"n_sensors to be a whole number of at least 1, got 0; give such a value"),
        ({"heads": 0}, r"heads .*got 0.*the default is 8"),
        ({"dropout": 1.0}, r"dropout to be a finite number of at least 0 and below 1, got 1.0"),
        ({"dropout": -0.1}, r"dropout .*got -0.1"),
        ({"dropout": math.nan}, r"dropout .*got nan"),
        ({"kernel": "five"}, r"kernel .*got 'five'"),
        ({"encoding": "fourier"}, r"encoding to be faithful, vanilla or none, got 'fourier'"),
        ({"embedding": "mlp"}, r"embedding to be cnn, linear or tanh, got 'mlp'"),
        (
            {"filters": 5, "segment_length": 8, "heads": 5},
            r"even embedding width, got 5 = 5 filters × 1 points; use an even number of filters",
        ),
        ({"heads": 7}, r"heads to divide the embedding width 120 .*, got 7; use one of 1, 2, 3, 4, 5, 6, 8, 10, 12"),
        (
            {"quantile_features": 5000},
            r"quantile_features to be a whole number of at least 0 and of at most 256, got 5000; .*default is 16",
        ),
        ({"quantile_features": 1}, r"quantile_features: expected 0, for no statistics, or at least 2 steps, got 1"),
        ({"kernel": 4}, r"kernel to be odd.*got 4; use 3 or 5"),
        (
            {"segment_length": 7},
            r"segment_length to be at least 8, since each of 3 convolution blocks .*got 7; use longer",
        ),
    ],
)
def test_a_bad_shape_of_the_network_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        NetworkSettings(**{"n_sensors": 3, "segment_length": 50, **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, r"epochs .*got 0"),
        ({"mixup": 100}, r"mixup to be a finite number of at least 0 and of at most 1, got 100; .*default is 0.3"),
        ({"learning_rate": 0.0}, r"learning_rate to be a finite number above 0, got 0"),
        ({"validation_fraction": 1.0}, r"validation_fraction .*below 1"),
        ({"precision": "16"}, r"precision to be auto, 32 or bf16, got '16'"),
        ({"threshold_value": 0.3}, r"no threshold_value with threshold_rule='f1', got 0.3"),
        (
            {"threshold_rule": "fixed"},
            r"threshold_value between 0 and 1 with threshold_rule='fixed', got none; give one",
        ),
        ({"threshold_rule": "fixed", "threshold_value": 1.5}, r"between 0 and 1.*got 1.5"),
        ({"threshold_rule": "false-alarm-rate", "threshold_value": math.nan}, r"threshold_value.*got nan"),
    ],
)
def test_bad_training_settings_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        TrainingSettings(**values)


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay", "gradient_clip", "noise"])
def test_an_infinite_setting_is_named(name: str) -> None:
    with pytest.raises(DfstransError, match=f"{name} to be a finite number.*got inf"):
        TrainingSettings(**{name: math.inf})


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(DfstransError, match="a value for segment_length, got none; give one"):
        NetworkSettings(n_sensors=3)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(DfstransError, match=r"epochs.*; also expected patience.*; also unknown setting 'seeds'"):
        TrainingSettings(epochs=0, patience=-1, seeds=3)


@pytest.mark.parametrize(
    ("segment_length", "blocks", "filters", "d_model"),
    [(100, 3, 20, 240), (50, 3, 20, 120), (8, 3, 20, 20), (15, 3, 20, 20), (10, 2, 4, 8), (7, 1, 10, 30)],
)
def test_width_is_filters_times_the_points_left_after_pooling(
    segment_length: int, blocks: int, filters: int, d_model: int
) -> None:
    settings = NetworkSettings(n_sensors=1, segment_length=segment_length, blocks=blocks, filters=filters, heads=2)
    assert settings.d_model == d_model


def test_settings_are_frozen_and_survive_a_round_trip_through_json() -> None:
    settings = TrainingSettings(learning_rate=0.1 + 0.2, threshold_rule="fixed", threshold_value=1 / 3, seed=2**40)
    with pytest.raises(ValidationError, match="frozen"):
        settings.epochs = 3
    assert TrainingSettings.model_validate_json(settings.model_dump_json()) == settings
