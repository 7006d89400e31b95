from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dfstrans.errors import DfstransError
from dfstrans.lab.rivals.tapnet import TapNet, TapNetClassifier, TapNetSettings
from dfstrans.model.detector import Batch
from dfstrans.training.batches import batch_loader
from tests.tiny import tiny_episodes

EPISODES = tiny_episodes()
TRAIN, VALIDATION, TEST = EPISODES.split(0)
QUICK = {"epochs": 2, "batch_size": 8, "precision": "32"}


@pytest.fixture(scope="module")
def fitted() -> TapNetClassifier:
    return TapNetClassifier(**QUICK).fit(TRAIN, validation=VALIDATION)


def random_network() -> TapNet:
    torch.manual_seed(0)
    return TapNet(TapNetSettings(n_sensors=3, n_timepoints=20), torch.zeros(3))


def test_a_prototype_is_the_attentive_mean_of_its_class() -> None:
    network, members = random_network(), torch.randn(5, 300)
    prototype, weight = network._prototype(1, members)
    scores = [float(network.attention[1](e).detach()) for e in members]
    weights = np.exp(scores) / np.sum(np.exp(scores))
    expected = sum(w * e for w, e in zip(weights, members, strict=True))
    torch.testing.assert_close(prototype, expected, check_dtype=False, atol=1e-5, rtol=1e-4)
    assert float(weight.detach()) == pytest.approx(np.log(np.sum(np.exp(scores))), abs=1e-5)


def test_the_logit_is_the_difference_of_the_logits_of_two_classes() -> None:
    network = random_network().eval()
    network.prototypes.normal_()
    segments = torch.rand(4, 20, 3, 1)
    e = network.embed(segments)
    classes = [-0.5 * (e - p).norm(dim=1) ** 2 for p in network.prototypes]
    torch.testing.assert_close(network(segments).logit, classes[1] - classes[0], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 24])
def test_streamed_prototypes_equal_those_of_all_episodes(batch_size: int) -> None:
    network = random_network().eval()
    segments, labels = torch.rand(24, 20, 3, 1), (torch.arange(24) % 3 == 0).float()
    valid = torch.ones(24, 20, dtype=torch.bool)
    parts = (tensor.split(batch_size) for tensor in (segments, valid, labels))
    network.prepare_prediction([Batch(*part) for part in zip(*parts, strict=True)])
    e = network.embed(segments)
    for label in (0, 1):
        expected = network._prototype(label, e[labels == label])[0]
        torch.testing.assert_close(network.prototypes[label], expected.detach(), atol=1e-5, rtol=1e-4)


def test_kept_prototypes_are_those_of_the_whole_training_part(fitted: TapNetClassifier) -> None:
    kept = fitted.network_.prototypes.clone()
    assert kept.abs().sum(dim=1).min() > 0
    fitted.network_.prepare_prediction(batch_loader(TRAIN, fitted.scaler_, 1, 5))
    torch.testing.assert_close(fitted.network_.prototypes, kept, atol=1e-4, rtol=1e-3)
    fitted.network_.prototypes.copy_(kept)


def test_predicting_does_not_change_prototypes(fitted: TapNetClassifier) -> None:
    kept = fitted.network_.prototypes.clone()
    first = fitted.decision_function(TEST)
    np.testing.assert_array_equal(fitted.decision_function(TEST), first)
    assert torch.equal(fitted.network_.prototypes, kept)


def test_groups_and_prototypes_are_saved_with_the_model(fitted: TapNetClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    torch.manual_seed(99)  # the groups must not be drawn again
    loaded = TapNetClassifier.load(tmp_path / "model")
    assert torch.equal(loaded.network_.groups, fitted.network_.groups)
    assert torch.equal(loaded.network_.prototypes, fitted.network_.prototypes)
    assert loaded.all_settings()["n_timepoints"] == 48


def test_groups_come_from_the_seed_and_hold_no_sensor_twice() -> None:
    first, again = random_network(), random_network()
    assert torch.equal(first.groups, again.groups)
    assert first.groups.shape == (3, 2)
    assert all(len(set(group.tolist())) == 2 for group in first.groups)
    assert TapNetSettings(n_sensors=1, n_timepoints=20).group_size == 1


def test_a_class_missing_from_a_batch_keeps_its_prototype() -> None:
    network = random_network().train()
    segments, valid = torch.rand(6, 20, 3, 1), torch.ones(6, 20, dtype=torch.bool)
    network.training_logit(segments, valid, torch.tensor([0.0, 1.0] * 3))
    before = network.prototypes.clone()
    network.training_logit(torch.rand(6, 20, 3, 1), valid, torch.zeros(6))
    assert torch.equal(network.prototypes[1], before[1])
    assert not torch.equal(network.prototypes[0], before[0])


def test_longer_episodes_than_the_network_was_built_for_are_refused(fitted: TapNetClassifier) -> None:
    longer = np.tile(np.asarray(TEST.values), (1, 1, 2))
    with pytest.raises(DfstransError, match=r"at most 48 points.* got 96 in episode .*n_timepoints"):
        fitted.predict(longer)
    roomy = TapNetClassifier(**{**QUICK, "epochs": 1}, network={"n_timepoints": 96}).fit(TRAIN, validation=VALIDATION)
    assert roomy.predict(longer).shape == (len(TEST),)


def test_too_short_episodes_for_the_convolutions_are_refused() -> None:
    with pytest.raises(DfstransError, match="n_timepoints to be a whole number of at least 14, got 13"):
        TapNetClassifier(network={"n_timepoints": 13}).fit(EPISODES)
