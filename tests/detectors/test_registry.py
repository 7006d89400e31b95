from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dfstrans import DfstransError, Diagnoser
from dfstrans.deploy.onnx_export import export_onnx
from dfstrans.detectors.registry import detector_kind, detector_names, load_detector
from dfstrans.detectors.summary import model_summary
from dfstrans.detectors.workflow import evaluate_diagnoses, train_model
from tests.tiny import edit_record, interrupt_after, tiny_episodes

EPISODES = tiny_episodes()
QUICK = {"epochs": 2, "batch_size": 8, "precision": "32"}


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rival") / "model"
    detector_kind("mlstm-fcn")(**QUICK).fit(EPISODES).save(folder)
    return folder


def test_every_name_gives_the_estimator_of_that_name() -> None:
    names = [
        "dfstrans",
        *["boosting", "extra-trees", "extra-trees-machine", "inceptiontime", "mh1dcnn-lstm", "minirocket"],
        *["mlstm-fcn", "tapnet", "trees"],
    ]
    assert detector_names() == names
    assert [detector_kind(name).estimator_name for name in names] == names
    assert detector_kind("dfstrans") is Diagnoser


@pytest.mark.parametrize("name", ["rocket", "leakage"])
def test_an_unknown_kind_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(DfstransError, match=rf"expected one of dfstrans, boosting, .*, trees, got '{name}'"):
        detector_kind(name)


def test_an_argument_that_a_rival_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        detector_kind("inceptiontime")(heads=3)


def test_a_saved_model_is_loaded_as_its_own_kind(rival: Path) -> None:
    assert isinstance(load_detector(rival), detector_kind("mlstm-fcn"))
    with pytest.raises(DfstransError, match=r"of the kind 'dfstrans' .* got one of the kind 'mlstm-fcn'"):
        Diagnoser.load(rival)


def test_a_rival_can_neither_diagnose_nor_be_exported(rival: Path, tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="expected a model of the kind 'dfstrans' for diagnoses, got 'mlstm-fcn'"):
        evaluate_diagnoses(load_detector(rival), EPISODES)
    pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install 'dfstrans[onnx]'")
    with pytest.raises(DfstransError, match=r"expected a dfstrans network to export, got .* 'mlstm-fcn'"):
        export_onnx(rival, tmp_path / "model.onnx")


def test_the_summary_of_a_rival_has_parameters_and_metrics(rival: Path) -> None:
    summary = model_summary(rival)
    assert summary["estimator"] == "mlstm-fcn"
    assert summary["parameters"] == 1536 * 3 + 340_737
    assert summary["metrics"]["validation"]["episodes"] == 7


def test_a_model_of_an_unknown_kind_is_refused(rival: Path, tmp_path: Path) -> None:
    record = (rival / "model.json").read_text().replace('"mlstm-fcn"', '"oracle"')
    (tmp_path / "model.json").write_text(record)
    with pytest.raises(DfstransError, match="got 'oracle'"):
        load_detector(tmp_path)


def test_unknown_settings_in_the_record_mean_another_version(rival: Path, tmp_path: Path) -> None:
    model = shutil.copytree(rival, tmp_path / "model")
    edit_record(model, network={**json.loads((rival / "model.json").read_text())["network"], "surprise": 1})
    with pytest.raises(DfstransError, match=r"another version saved .*unknown setting 'surprise'"):
        load_detector(model)


def test_an_interrupted_rival_resumes_to_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TapNet, which keeps more than weights between steps."""
    train, validation, _ = EPISODES.split(0)
    make = detector_kind("tapnet")
    whole = make(**QUICK).fit(train, validation=validation)
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            make(**QUICK).fit(train, validation=validation, run_folder=tmp_path)
    resumed = make(**QUICK).fit(train, validation=validation, run_folder=tmp_path, resume=True)
    for name, tensor in whole.network_.state_dict().items():
        assert torch.equal(tensor, resumed.network_.state_dict()[name]), name


def test_fixed_length_network_fits_the_longest_episode(tmp_path: Path) -> None:
    values = [x[:, : 30 + i // 2] for i, x in enumerate(EPISODES.values)]
    episodes = type(EPISODES).from_arrays(values, EPISODES.labels)
    detector = train_model(detector_kind("tapnet")(**{**QUICK, "epochs": 1}), episodes, tmp_path / "model")
    assert detector.network_settings_.n_timepoints == max(value.shape[1] for value in values)


def test_a_failed_fit_leaves_the_earlier_one_intact(tiny_model: Path) -> None:
    detector = Diagnoser.load(tiny_model)
    before, diverging = detector.decision_function(EPISODES), {"schedule": "constant", "gradient_clip": 1e30}
    with pytest.raises(DfstransError, match="diverged"):
        detector.set_params(learning_rate=1e30, training=diverging).fit(tiny_episodes(seed=4))
    assert (detector.decision_function(EPISODES) == before).all()


def test_a_fit_that_fails_after_training_leaves_the_earlier_one_whole(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = Diagnoser.load(tiny_model)
    before = vars(detector).copy()

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dfstrans.detectors.diagnoser.NormalReference.fit", fail)
    with pytest.raises(KeyboardInterrupt):
        detector.fit(tiny_episodes(seed=4))
    assert vars(detector) == before
