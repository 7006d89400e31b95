from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.errors import DfstransError
from dfstrans.model import detector as detector_module
from dfstrans.model.network import DFSTrans
from dfstrans.model.quantile_features import QuantileFeatures
from dfstrans.settings import NetworkShape, TrainingPlan
from dfstrans.training import fit, processes
from dfstrans.training.batches import batch_loader
from dfstrans.training.fit import TrainedNetwork, train_network
from dfstrans.training.run_folder import Epochs, can_resume, epochs_of, read_log
from tests.tiny import TINY, interrupt_after, tiny_episodes

TRAIN, VALIDATION, _ = tiny_episodes().split(0)
SCALER = SensorScaler.fit(TRAIN)
NETWORK = NetworkShape.paper(n_sensors=3, segment_length=16, **TINY["network"])
SETTINGS = {"epochs": 4, "batch_size": 8, "precision": "32", "mixup": 0, "sensor_dropout": 0.15}
CODED = NETWORK.model_copy(update={"quantile_features": 5})


def train(
    run_folder: Path | None = None,
    resume: bool = False,
    network: NetworkShape = NETWORK,
    validation: Episodes = VALIDATION,
    **changes: Any,
) -> TrainedNetwork:
    plan, build = TrainingPlan(**{**SETTINGS, **changes}), partial(DFSTrans, network)
    return train_network(build, network, plan, TRAIN, validation, SCALER, run_folder=run_folder, resume=resume)


def assert_same_weights(a: TrainedNetwork, b: TrainedNetwork) -> None:
    first, second = a.network.state_dict(), b.network.state_dict()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_data_settings_and_seed_decide_the_weights_bit_for_bit(tmp_path: Path) -> None:
    first = train(seed=0)
    with pytest.warns(UserWarning, match="starting a new one"):
        assert_same_weights(first, train(tmp_path, resume=True, seed=0))
    for other in (train(seed=1), train(seed=0, normals_per_anomaly=1)):
        with pytest.raises(AssertionError):
            assert_same_weights(first, other)


def test_training_leaves_the_random_state_of_the_caller_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    train(epochs=1)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(
    ("epochs", "settings"),
    [(1, {}), (3, {"normals_per_anomaly": 1}), (2, {"network": CODED}), (2, {"network": CODED, "mixup": 0.3})],
    ids=["after one epoch", "drawn episodes", "quantile features", "quantile features and mixup"],
)
def test_an_interrupted_run_resumes_to_the_weights_of_an_uninterrupted_one(
    epochs: int, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(**settings)
    with monkeypatch.context() as patch:
        interrupt_after(epochs, patch)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, **settings)
    assert can_resume(tmp_path)
    assert len(read_log(tmp_path / "training_log.csv")) == epochs
    monkeypatch.setattr(QuantileFeatures, "fit", lambda *_: pytest.fail("quantiles were estimated again"))
    resumed = train(tmp_path, resume=True, **settings)
    assert_same_weights(resumed, whole)
    assert resumed.best_epoch == whole.best_epoch
    without_time = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.log] for run in (resumed, whole)]
    assert without_time[0] == without_time[1]


def test_quantile_edges_are_those_of_the_training_part() -> None:
    expected = DFSTrans(CODED)
    expected.prepare_training(batch_loader(TRAIN, SCALER, CODED.segment_length, 8))
    assert torch.equal(train(network=CODED, epochs=2).network.quantile_features.edges, expected.quantile_features.edges)


def test_finished_but_unsaved_run_resumes_without_another_epoch(tmp_path: Path) -> None:
    settings = {"patience": 1, "epochs": 12, "schedule": "constant"}
    whole = train(tmp_path, **settings)
    resumed = train(tmp_path, resume=True, **settings)
    assert len(resumed.log) == len(whole.log)
    assert_same_weights(resumed, whole)


def test_a_new_run_has_no_epochs_of_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, epochs=2)
    interrupt_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, epochs=2)
    assert epochs_of(tmp_path) == Epochs(0, 2, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 2, "noise": 0.5}, r"got epochs=2 instead of 1, noise=0\.5 instead of 0\.0; use the same"),
        ({"epochs": 1, "validation": VALIDATION[:-1]}, "got another validation part .*; use the same ones"),
    ],
)
def test_resume_with_other_settings_or_data_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    train(tmp_path, epochs=1)
    with pytest.raises(DfstransError, match=message):
        train(tmp_path, resume=True, **changes)


@pytest.mark.parametrize(("name", "kept"), [("last.ckpt", 1000), ("run.json", 0)])
def test_a_damaged_run_cannot_be_resumed(tmp_path: Path, name: str, kept: int) -> None:
    train(tmp_path, epochs=1)
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)  # refuses anything but plain data
    assert checkpoint["epoch"] == 0
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:kept])
    with pytest.raises(DfstransError, match="start a new run without resume"):
        train(tmp_path, resume=True, epochs=1)


def scores_of(result: TrainedNetwork) -> list[float]:
    return [row["validation_pr_auc"] - 1e-3 * row["validation_loss"] for row in result.log]


def test_the_last_epoch_within_a_standard_error_of_the_best_is_kept() -> None:
    result = train(epochs=12, patience=12, learning_rate=3e-2)
    scores, kept = scores_of(result), 0
    for epoch, score in enumerate(scores):
        best = min(max(scores[: epoch + 1]), 1.0)
        if score >= best - np.sqrt(best * (1 - best) / VALIDATION.n_anomalous):
            kept = epoch
    assert result.best_epoch == kept + 1
    assert np.ptp(scores) > 0.01  # epochs differ, so the choice says something


def test_without_annealing_the_best_epoch_is_kept() -> None:
    result = train(epochs=12, patience=12, schedule="constant")
    assert result.best_epoch == int(np.argmax(np.float32(scores_of(result)))) + 1


def test_patience_ends_a_constant_schedule_and_no_cycle() -> None:
    assert len(train(epochs=6, patience=1, learning_rate=1e-9).log) == 6
    stopped = train(epochs=40, patience=2, learning_rate=1e-9, schedule="constant")
    assert len(stopped.log) - stopped.best_epoch == 2
    assert len(stopped.log) < 40


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
def test_epochs_can_be_selected_by_loss(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first epoch has by far the best order, and a later one the smallest loss."""
    orders = iter([1.0, *[0.1] * 6, 1.0, *[0.1] * 6])
    monkeypatch.setattr("dfstrans.training.lightning_module.average_precision", lambda *_: next(orders))
    by_order = train(epochs=7, learning_rate=1e-3, schedule=schedule)
    by_loss = train(epochs=7, learning_rate=1e-3, schedule=schedule, select_by="loss")
    losses = [row["validation_loss"] for row in by_loss.log]
    assert by_order.best_epoch == 1
    assert by_loss.best_epoch == int(np.argmin(losses)) + 1 > 1


def test_validation_without_anomalies_is_scored_by_its_loss() -> None:
    result = train(epochs=2, validation=VALIDATION[VALIDATION.require_labels() == 0])
    assert result.best_epoch == int(np.argmin([row["validation_loss"] for row in result.log])) + 1


@pytest.mark.parametrize(
    "changes", [{}, {"normals_per_anomaly": 1}, {"normals_per_anomaly": 1, "imbalance": "none"}, {"imbalance": "none"}]
)
def test_weights_and_draws_raise_the_odds_of_an_anomaly(changes: dict[str, Any]) -> None:
    labels = TRAIN.require_labels()
    raised = 1 if changes == {"imbalance": "none"} else (labels == 0).sum() / labels.sum()
    assert train(epochs=1, **changes).odds == pytest.approx(raised)


def test_bf16_training_is_finite_and_falls_back_if_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: True)
    result = train(epochs=1, precision="bf16")
    assert all(torch.isfinite(tensor).all() for tensor in result.network.state_dict().values())
    assert result.network.head.weight.dtype == torch.float32
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: False)
    with pytest.warns(UserWarning, match="bf16"):
        assert_same_weights(train(epochs=1, precision="bf16"), train(epochs=1))


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may have more than 20 kB, by the system's own limit."""
    ignored, (soft, hard) = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected to write .*last\.ckpt, but the system refused: File too large"):
        train(tmp_path, epochs=1)
    assert not can_resume(tmp_path)
    assert not list(tmp_path.glob(".*"))


# ---- a GPU ----------------------------------------------------------------------------------------------------------


class Asked(Exception):  # noqa: N818
    """Raised with what a trainer was asked for."""


def asked_for(monkeypatch: pytest.MonkeyPatch, gpus: int, **changes: Any) -> dict[str, Any]:
    def refuse(**asked: Any) -> None:
        raise Asked(asked)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.random, "fork_rng", lambda **_: nullcontext())
    monkeypatch.setattr(fit, "pl", SimpleNamespace(Trainer=refuse))
    with pytest.raises(Asked) as found:
        train(**changes)
    return dict(found.value.args[0])


def test_a_gpu_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        on_cpu = asked_for(patch, gpus=0)
    on_gpu = asked_for(monkeypatch, gpus=1)
    assert (on_cpu["accelerator"], on_gpu["accelerator"]) == ("cpu", "cuda")
    different = {name for name in on_cpu if name not in ("callbacks", "plugins") and on_cpu[name] != on_gpu[name]}
    assert different == {"accelerator"}


def test_a_gpu_computes_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="on a GPU computes in 32 bits"):
        assert asked_for(monkeypatch, gpus=1, precision="bf16")["precision"] == "32-true"


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(processes, "count_here", lambda: 2)
    with pytest.raises(DfstransError, match=r"at most 1 processes on this computer, one for each GPU, got 2.*VISIBLE"):
        train()
