"""Settings refuse what they do not know and name what they expected."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from dfstrans.errors import DfstransError
from dfstrans.settings import (
    OPTIONS,
    PRESETS,
    DecisionSettings,
    NetworkSettings,
    NetworkShape,
    TrainingPlan,
    TrainingSettings,
)


def test_an_unknown_setting_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(DfstransError, match="unknown setting 'head'") as caught:
        NetworkSettings(head=4)
    assert all(name in str(caught.value) for name in NetworkSettings.model_fields)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_sensors": 0}, "n_sensors to be a whole number of at least 1, got 0; correct it"),
        ({"heads": 0}, "heads .*got 0.*the default is 2"),
        ({"dropout": 1.0}, "dropout to be a finite number of at least 0 and below 1, got 1.0"),
        ({"dropout": math.nan}, "dropout .*got nan"),
        ({"kernel": "five"}, "kernel .*got 'five'"),
        ({"kernel": 4}, "kernel to be odd.*got 4; use 3 or 5"),
        ({"encoding": "fourier"}, "encoding to be faithful, vanilla or none, got 'fourier'"),
        ({"filters": 5, "segment_length": 8, "heads": 5}, "even embedding width, got 5 .*number of filters"),
        ({"heads": 7}, "heads to divide the embedding width 120 .*, got 7; use one of 1, 2, 3, 4, 5, 6, 8, 10, 12"),
        ({"quantile_features": 5000}, "quantile_features .* at most 256, got 5000; .*default is 16"),
        ({"quantile_features": 1}, "quantile_features: expected 0, for no statistics, or at least 2 steps, got 1"),
        ({"segment_length": 7}, "segment_length to be at least 8, since each of 3 convolution blocks .*got 7"),
        ({"segment_length": None}, "segment_length to be a whole number"),
    ],
)
def test_a_bad_shape_of_the_network_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        NetworkShape.paper(**{"n_sensors": 3, "segment_length": 50, **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs .*got 0"),
        ({"mixup": 100}, "mixup to be a finite number of at least 0 and of at most 1, got 100; .*default is 0.3"),
        ({"learning_rate": 0.0}, "learning_rate to be a finite number above 0, got 0"),
        ({"precision": "16"}, "precision to be auto, 32 or bf16, got '16'"),
        ({"threshold_value": 0.3}, "no threshold_value with threshold_rule='f1', got 0.3"),
        ({"threshold_rule": "fixed"}, "threshold_value between 0 and 1 with .*'fixed', got none; set it"),
        ({"threshold_rule": "fixed", "threshold_value": 1.5}, "between 0 and 1.*got 1.5"),
        ({"threshold_rule": "false-alarm-rate", "threshold_value": math.nan}, "threshold_value.*got nan"),
        ({"gradient_clip": math.inf}, "gradient_clip to be a finite number.*got inf"),
        ({"epochs": 0, "patience": -1, "seeds": 3}, "epochs.*; also expected patience.*; also unknown setting 'seeds'"),
    ],
)
def test_bad_training_settings_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        TrainingSettings(**values)


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(DfstransError, match="a value for segment_length, got none; set it"):
        NetworkShape.paper(n_sensors=3)


@pytest.mark.parametrize(
    ("kind", "name", "text", "value"),
    [
        (NetworkSettings, "heads", "4", 4),
        (NetworkSettings, "filters", "none", None),
        (TrainingSettings, "imbalance", "none", "none"),
        (TrainingSettings, "gradient_clip", "None", None),
        (TrainingSettings, "precision", 32, "32"),
        (TrainingSettings, "learning_rate", "1e-3", 1e-3),
    ],
)
def test_a_setting_is_parsed_from_text(kind: type[NetworkSettings], name: str, text: Any, value: Any) -> None:
    assert kind.parse(name, text) == value
    with pytest.raises(DfstransError, match=f"expected {name} to be"):
        kind.parse(name, "plenty")


def test_presets_change_existing_settings_from_their_defaults() -> None:
    defaults = {**NetworkSettings().model_dump(), **TrainingSettings().model_dump()}
    assert PRESETS["tuned"] == {}
    assert all(defaults[name] != value for name, value in PRESETS["paper"].items())
    assert defaults.keys() >= set(OPTIONS)


def test_default_batch_size_and_epochs_follow_the_number_of_episodes() -> None:
    plan = TrainingSettings(normals_per_anomaly=4).plan(3000, 60)  # 60 anomalous and 240 normal ones an epoch
    assert (plan.batch_size, plan.epochs) == (30, 60)
    assert TrainingSettings(**plan.model_dump()).plan(10) == plan
    assert isinstance(plan, TrainingPlan)
    assert DecisionSettings().model_dump().items() <= plan.model_dump().items()


def test_settings_are_frozen_and_survive_a_round_trip_through_json() -> None:
    settings = TrainingSettings(learning_rate=0.1 + 0.2, threshold_rule="fixed", threshold_value=1 / 3, seed=2**40)
    with pytest.raises(ValidationError, match="frozen"):
        settings.epochs = 3
    assert TrainingSettings.model_validate_json(settings.model_dump_json()) == settings
