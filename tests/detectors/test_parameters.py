"""Settings of a detector, wherever they are given: as arguments, within `network` and `training`, or by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dfstrans import DfstransError, Diagnoser
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import detector_kind, detector_names
from dfstrans.settings import PRESETS, NetworkSettings, NetworkShape, TrainingSettings
from tests.tiny import TINY, tiny_episodes


@pytest.mark.parametrize("name", detector_names())
def test_the_defaults_of_arguments_are_those_of_the_settings(name: str) -> None:
    kind = detector_kind(name)
    arguments = {name: one.default for name, one in inspect.signature(kind).parameters.items()}
    given = {name: value for name, value in arguments.items() if value is not None and name != "preset"}
    assert given.items() <= kind.default_settings().items()
    assert len(arguments) <= 16
    assert kind().all_settings() == kind.default_settings()
    assert not given.keys() & PRESETS["paper"].keys() or name != "dfstrans"  # an argument would override the preset


def test_flat_settings_reach_the_right_argument() -> None:
    detector = Diagnoser.from_settings(epochs=3, heads="4", mixup=0, gradient_clip="none")
    assert (detector.epochs, detector.network) == (3, {"heads": 4})
    assert detector.training == {"mixup": 0.0, "gradient_clip": None}
    settings = detector.all_settings()
    expected = {"heads": 4, "feedforward": 128, "mixup": 0, "gradient_clip": None}
    assert {name: settings[name] for name in expected} == expected
    training = TrainingSettings(mixup=0, gradient_clip=None)
    assert Diagnoser(epochs=3, network=NetworkSettings(heads=4), training=training).all_settings() == settings


def test_nested_settings_can_be_read_set_and_cloned() -> None:
    detector = Diagnoser(network={"heads": 4}).set_params(network__filters=8, training__mixup=0.0, seed=3)
    copy = clone(detector)
    for one in (detector, copy):
        parameters = one.get_params()
        assert (parameters["network__heads"], parameters["network__filters"], parameters["seed"]) == (4, 8, 3)
        assert (parameters["training__mixup"], parameters["training__patience"]) == (0.0, 20)
    copy.set_params(network__heads=2)
    assert detector.network == {"heads": 4, "filters": 8}


def test_a_grid_search_tries_nested_settings() -> None:
    episodes = tiny_episodes()
    tried = {"network__heads": [2, 4], "training__mixup": [0.0]}
    search = GridSearchCV(Diagnoser.from_settings(**{**TINY, "epochs": 1}), tried, cv=2)
    search.fit(episodes, episodes.require_labels())
    best = search.best_estimator_
    assert best.network_settings_.heads == search.best_params_["network__heads"]
    assert best.training_settings_.mixup == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"network": {"head": 3}}, "a setting of dfstrans, got 'head'; did you mean heads"),
        ({"network": {"mixup": 0}}, "expected mixup within training, got it within network"),
        ({"training": {"seed": 3}}, "expected seed as the argument seed, got it within training"),
        ({"preset": "papr"}, "preset to be tuned or paper, got 'papr'; did you mean paper"),
        ({"batch_size": 0}, "expected batch_size to be"),
        ({"batch_size": "many"}, "expected batch_size to be"),
    ],
)
def test_wrong_settings_are_refused_by_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        Diagnoser.from_settings(**arguments).fit(tiny_episodes())


def test_unknown_nested_settings_are_refused_at_once() -> None:
    with pytest.raises(DfstransError, match="got 'head'"):
        Diagnoser().set_params(network__head=3)
    with pytest.raises(DfstransError, match="expected training__mixup, got network__mixup"):
        Diagnoser().set_params(network__mixup=3)
    with pytest.raises(ValueError, match="Invalid parameter 'heads'"):
        Diagnoser().set_params(heads=3)


def test_missing_settings_are_chosen_from_the_episodes() -> None:
    episodes = planted_episodes(n_normal=6, n_anomalous=3, n_sensors=2, n_timepoints=600, seed=0)
    network = Diagnoser(segment_length=20).network_settings(episodes)
    assert (network.width, network.heads, network.d_model) == (38, 2, 38)  # 30 segments and a quarter in reserve
    assert Diagnoser().network_settings(episodes).width == 32
    convolving = Diagnoser(segment_length=20, network={"embedding": "cnn", "heads": 8})
    assert convolving.network_settings(episodes).filters == 20  # as many for the encoding as for the heads
    assert Diagnoser(batch_size=1).training_settings(50).epochs == 20
    assert Diagnoser(normals_per_anomaly=1).training_settings(1000, 20).epochs == 100  # 40 episodes in 3 steps


def test_the_paper_s_preset_is_its_network_and_its_training() -> None:
    episodes = planted_episodes(n_normal=6, n_anomalous=3, n_sensors=20, n_timepoints=800, seed=0)
    detector = Diagnoser(preset="paper", segment_length=100)
    assert detector.network_settings(episodes) == NetworkShape.paper(n_sensors=20, segment_length=100)
    training = detector.training_settings(len(episodes)).model_dump()
    assert {name: value for name, value in PRESETS["paper"].items() if name in training}.items() <= training.items()
    assert (training["learning_rate"], training["schedule"], training["batch_size"]) == (1e-5, "constant", 16)
    assert (training["noise"], training["sensor_dropout"], training["imbalance"]) == (0, 0, "none")
    assert Diagnoser(preset="paper", epochs=3, imbalance="weighted").all_settings()["imbalance"] == "weighted"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("inceptiontime", {"time_shift"}),
        ("mlstm-fcn", {"time_shift"}),
        ("tapnet", {"time_shift", "mixup", "learning_rate"}),
        ("mh1dcnn-lstm", set()),
    ],
)
def test_a_rival_is_trained_as_diagnoser_is_unless_it_says_otherwise(name: str, own: set[str]) -> None:
    rival, ours = detector_kind(name)().training_settings(100).model_dump(), Diagnoser().training_settings(100)
    differ = {setting for setting, value in ours.model_dump().items() if rival[setting] != value}
    assert differ == own | {"epochs"}
    if own:
        assert rival["time_shift"] == 0
        with pytest.raises(DfstransError, match="got 'time_shift'"):
            detector_kind(name).from_settings(time_shift=0.5)
