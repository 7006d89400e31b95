from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dfstrans.data.scaling import SensorScaler
from dfstrans.errors import DfstransError
from dfstrans.model import detector as detector_module
from dfstrans.model.network import DFSTrans
from dfstrans.model.quantile_features import QuantileFeatures
from dfstrans.settings import NetworkSettings, TrainingSettings
from dfstrans.training.batches import batch_loader
from dfstrans.training.callbacks import EpochLog
from dfstrans.training.fit import TrainedNetwork, train_network
from dfstrans.training.run_folder import Epochs, can_resume, epochs_of, read_log
from tests.tiny import TINY, tiny_episodes

TRAIN, VALIDATION, _ = tiny_episodes().split(0)
SCALER = SensorScaler.fit(TRAIN)
NETWORK = NetworkSettings(
    n_sensors=3, **{name: TINY[name] for name in ("segment_length", "filters", "heads", "feedforward", "head_width")}
)
CODED = NETWORK.model_copy(update={"quantile_features": 5})


def train(
    run_folder: Path | None = None, resume: bool = False, network: NetworkSettings = NETWORK, **changes: Any
) -> TrainedNetwork:
    settings = TrainingSettings(**{"epochs": 4, "batch_size": 8, "precision": "32", **changes})
    return train_network(
        lambda: DFSTrans(network), network, settings, TRAIN, VALIDATION, SCALER, run_folder=run_folder, resume=resume
    )


def assert_same_weights(a: TrainedNetwork, b: TrainedNetwork) -> None:
    first, second = a.network.state_dict(), b.network.state_dict()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def interrupt_after(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ctrl-C came in the middle of the epoch that follows."""
    start = EpochLog.on_train_epoch_start

    def interrupted(self: EpochLog, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == epochs:
            raise KeyboardInterrupt
        start(self, trainer, module)

    monkeypatch.setattr(EpochLog, "on_train_epoch_start", interrupted)


def test_same_data_settings_and_seed_give_the_same_weights_bit_for_bit() -> None:
    assert_same_weights(train(), train())


def test_another_seed_gives_other_weights() -> None:
    with pytest.raises(AssertionError):
        assert_same_weights(train(seed=0), train(seed=1))


def test_training_leaves_the_random_state_of_the_caller_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    train(epochs=1)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(
    ("epochs", "settings"),
    [(1, {}), (3, {}), (2, {"network": CODED}), (2, {"network": CODED, "mixup": 0.3})],
    ids=["after one epoch", "after three", "with levels", "with levels and mixed pairs"],
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
    resumed = train(tmp_path, resume=True, **settings)
    assert_same_weights(resumed, whole)
    assert resumed.best_epoch == whole.best_epoch
    without_time = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.log] for run in (resumed, whole)]
    assert without_time[0] == without_time[1]


def test_levels_end_at_the_quantiles_of_the_training_part() -> None:
    expected = DFSTrans(CODED)
    expected.prepare_training(batch_loader(TRAIN, SCALER, CODED.segment_length, 8))
    assert torch.equal(train(network=CODED, epochs=2).network.quantile_features.edges, expected.quantile_features.edges)


def test_a_run_that_goes_on_keeps_the_levels_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, network=CODED)
    begun = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]["network.quantile_features.edges"]
    monkeypatch.setattr(QuantileFeatures, "fit", lambda *_: pytest.fail("levels were taken anew"))
    assert torch.equal(train(tmp_path, resume=True, network=CODED).network.quantile_features.edges, begun)


def test_a_run_that_was_finished_but_not_saved_resumes_without_another_epoch(tmp_path: Path) -> None:
    settings = {"patience": 1, "epochs": 12, "schedule": "constant"}
    whole = train(tmp_path, **settings)
    resumed = train(tmp_path, resume=True, **settings)
    assert len(resumed.log) == len(whole.log)
    assert_same_weights(resumed, whole)


def test_resume_without_an_earlier_run_starts_anew(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="starting anew"):
        resumed = train(tmp_path, resume=True)
    assert_same_weights(resumed, train())


def test_a_run_that_starts_anew_has_no_epochs_of_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, epochs=2)
    interrupt_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, epochs=2)
    assert epochs_of(tmp_path) == Epochs(0, 2, 0)


def test_resume_with_other_settings_is_refused_and_names_them(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    with pytest.raises(DfstransError, match=r"got epochs=2 instead of 1, noise=0\.5 instead of 0\.0; give the same"):
        train(tmp_path, resume=True, epochs=2, noise=0.5)


def test_a_setting_that_an_older_run_did_not_know_was_as_it_is_by_default(tmp_path: Path) -> None:
    train(tmp_path, epochs=2)
    record = json.loads((tmp_path / "run.json").read_text())
    del record["training"]["normals_per_anomaly"], record["network"]["pooling"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert len(train(tmp_path, resume=True, epochs=2).log) == 2
    with pytest.raises(DfstransError, match=r"got normals_per_anomaly=2\.0 instead of None; give the same"):
        train(tmp_path, resume=True, epochs=2, normals_per_anomaly=2)


def test_resume_with_other_recordings_is_refused_and_names_the_part(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    settings = TrainingSettings(epochs=1, batch_size=8, precision="32")
    with pytest.raises(DfstransError, match=r"got another validation part .*; give the same ones"):
        train_network(
            lambda: DFSTrans(NETWORK),
            NETWORK,
            settings,
            TRAIN,
            VALIDATION[:-1],
            SCALER,
            run_folder=tmp_path,
            resume=True,
        )


def test_a_checkpoint_holds_no_code(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    content = torch.load(tmp_path / "last.ckpt", weights_only=True)  # refuses anything but plain data
    assert content["epoch"] == 0


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


def test_a_cycle_is_run_to_its_end_whatever_the_patience() -> None:
    assert len(train(epochs=6, patience=1, learning_rate=1e-9).log) == 6


def test_training_stops_when_patience_runs_out() -> None:
    result = train(epochs=40, patience=2, learning_rate=1e-9, schedule="constant")
    assert len(result.log) < 40
    assert len(result.log) - result.best_epoch == 2


def test_the_loss_goes_down() -> None:
    result = train(epochs=40, learning_rate=1e-2, sensor_dropout=0.0, noise=0.0, time_shift=0.0, patience=40)
    assert result.log[-1]["loss"] < 0.7 * result.log[0]["loss"]


def test_validation_without_anomalies_is_scored_by_its_loss() -> None:
    normal = VALIDATION[VALIDATION.require_labels() == 0]
    settings = TrainingSettings(epochs=2, batch_size=8, precision="32")
    result = train_network(lambda: DFSTrans(NETWORK), NETWORK, settings, TRAIN, normal, SCALER)
    losses = [row["validation_loss"] for row in result.log]
    assert result.best_epoch == int(np.argmin(losses)) + 1


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
def test_an_epoch_may_be_judged_by_its_loss_alone(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first epoch has by far the best order."""
    orders = iter([1.0, *[0.1] * 6, 1.0, *[0.1] * 6])
    monkeypatch.setattr("dfstrans.training.lightning_module.average_precision", lambda *_: next(orders))
    by_order = train(epochs=7, learning_rate=0.01, schedule=schedule)
    by_loss = train(epochs=7, learning_rate=0.01, schedule=schedule, select_by="loss")
    losses = [row["validation_loss"] for row in by_loss.log]
    assert by_order.best_epoch == 1
    assert by_loss.best_epoch == int(np.argmin(losses)) + 1 > 1


def test_the_imbalance_of_the_classes_is_weighed_unless_the_plain_loss_is_wanted() -> None:
    labels = TRAIN.require_labels()
    assert train(epochs=1).odds == pytest.approx((labels == 0).sum() / labels.sum())
    assert train(epochs=1, imbalance="none").odds == 1


@pytest.mark.parametrize("imbalance", ["weighted", "none"])
def test_leaving_normal_episodes_out_raises_the_odds_of_an_anomaly(imbalance: str) -> None:
    labels = TRAIN.require_labels()
    drawn = train(epochs=1, normals_per_anomaly=1, imbalance=imbalance)
    assert drawn.odds == pytest.approx((labels == 0).sum() / labels.sum())


def test_a_run_on_drawn_episodes_resumes_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(normals_per_anomaly=1)
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, normals_per_anomaly=1)
    assert_same_weights(train(tmp_path, resume=True, normals_per_anomaly=1), whole)
    with pytest.raises(AssertionError):
        assert_same_weights(whole, train())


def test_bf16_on_a_processor_without_it_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: False)
    with pytest.warns(UserWarning, match="bf16"):
        result = train(epochs=1, precision="bf16")
    assert_same_weights(result, train(epochs=1))


def test_bf16_trains_to_finite_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: True)
    result = train(epochs=1, precision="bf16")
    assert all(torch.isfinite(tensor).all() for tensor in result.network.state_dict().values())
    assert result.network.head.weight.dtype == torch.float32


def test_the_run_record_names_data_and_settings(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["train_fingerprint"] == TRAIN.fingerprint()
    assert record["training"]["epochs"] == 1


def test_a_damaged_checkpoint_is_refused_with_the_remedy(tmp_path: Path) -> None:
    train(tmp_path, epochs=2)
    content = (tmp_path / "last.ckpt").read_bytes()
    (tmp_path / "last.ckpt").write_bytes(content[: len(content) // 2])
    with pytest.raises(DfstransError, match=r"got a damaged one; start anew without resume"):
        train(tmp_path, resume=True, epochs=2)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may have more than 20 kB, by the system's own limit."""
    ignored, (soft, hard) = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.usefixtures("small_disk")
def test_a_checkpoint_that_the_disk_refuses_gives_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected to write .*last\.ckpt, but the system refused: File too large"):
        train(tmp_path, epochs=1)
    assert not can_resume(tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_run_that_diverges_from_the_start_says_so() -> None:
    with pytest.raises(DfstransError, match="training diverged"):
        train(epochs=2, learning_rate=1e30, schedule="constant", gradient_clip=1e30)


def test_a_lost_run_record_is_a_clear_error(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    (tmp_path / "run.json").unlink()
    with pytest.raises(DfstransError, match="start anew without resume"):
        train(tmp_path, resume=True, epochs=1)
