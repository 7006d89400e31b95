from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from dfstrans import DfstransError, Diagnoser, Episodes, load_episodes, save_episodes
from dfstrans.deploy import onnx_export
from dfstrans.deploy.onnx_export import ExportedNetwork, export_onnx, generated_episodes, largest_differences
from dfstrans.deploy.runtime import OnnxDetector
from dfstrans.diagnosis.scores import AttentionScores
from dfstrans.model.fast import FastDFSTrans
from dfstrans.settings import NetworkShape
from tests.cli.command_line import refused, result_of
from tests.model.test_cnn import randomise_norms
from tests.tiny import TINY, tiny_episodes

KEPT = Path(__file__).parents[1] / "models" / "tiny"


# ---- the network that is exported -----------------------------------------------------------------------------------

SIZES = {"n_sensors": 3, "segment_length": 19, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 8}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layers": 2, "encoding": "vanilla"},
        {"embedding": "linear", "encoding": "none"},
        {"pooling": "mean+deviation", "quantile_features": 5},
        {"embedding": "tanh", "kernel": 1, "blocks": 1},
    ],
    ids=str,
)
@torch.inference_mode()
def test_the_exported_network_equals_the_trained_one(changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = FastDFSTrans(NetworkShape.paper(**SIZES | changes)).eval()
    randomise_norms(network)
    segments, lengths = torch.randn(3, 6, 3, 19), [6, 4, 1]  # the content of the padding must not matter
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    exported = ExportedNetwork(network, shift=0.7, temperature=1.3)(segments, valid)
    expected = network(segments, valid, return_attention=True)
    assert expected.logit.std() > 1e-3
    assert_close(exported.logit, expected.logit, atol=1e-5, rtol=1e-5)
    assert_close(exported.temporal_attention, expected.attention.temporal, atol=1e-6, rtol=1e-5)
    assert_close(exported.spatial_attention, expected.attention.spatial, atol=1e-6, rtol=1e-5)
    assert_close(exported.probability, torch.sigmoid((exported.logit.double() - 0.7) / 1.3))
    for row, n in enumerate(lengths):
        temporal, spatial = (weights[row, -1].mean(dim=1).double().numpy() for weights in expected.attention)
        scores = AttentionScores(temporal[:, :n, :n], spatial[:n])
        moments, sensors = exported.global_temporal_relevance[row], exported.global_spatial_relevance[row]
        np.testing.assert_allclose(moments[:n], scores.global_temporal_relevance, atol=1e-5)
        np.testing.assert_array_equal(moments[n:], 0)
        np.testing.assert_allclose(sensors, scores.global_spatial_relevance, atol=1e-5)


# ---- the export -----------------------------------------------------------------------------------------------------


@pytest.fixture
def model(exported: Path, tmp_path: Path) -> Path:
    """A copy of the model that was exported."""
    return Path(shutil.copytree(exported.with_suffix(""), tmp_path / "model"))


@pytest.fixture
def ready_graph(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of the exported model, without the seconds that tracing takes."""
    content = exported.read_bytes()
    metadata = OnnxDetector.from_bytes(content)._session.get_modelmeta().custom_metadata_map
    length = json.loads(metadata["dfstrans"])["graph_bytes"]
    monkeypatch.setattr(onnx_export, "_graph", lambda detector: content[:length])


def exported_from(detector: Diagnoser, folder: Path) -> OnnxDetector:
    detector.save(folder / "model")
    export_onnx(folder / "model", folder / "model.onnx")
    return OnnxDetector.load(folder / "model.onnx")


def test_difference_from_torch_is_recorded_everywhere(exported: Path) -> None:
    folder = exported.with_suffix("")
    found = OnnxDetector.load(exported).record.export
    assert found is not None
    assert 0 < found["logit_difference"] < 1e-5
    assert (found["episodes"], found["generated"], found["tolerance"]) == (36, False, 1e-4)
    assert json.loads((folder / "model.json").read_text())["export"] == found
    card = (folder / "MODEL_CARD.md").read_text()
    assert f"differs by at most\n{found['logit_difference']:.2g}" in card
    assert "36 episodes (given recordings)" in card
    Diagnoser.load(folder)  # its checksum includes the export


def test_trees_alone_export_and_predict_the_same(tmp_path: Path) -> None:
    episodes = tiny_episodes()
    detector = Diagnoser.from_settings(**{**TINY, "members": "trees"}).fit(episodes)
    detector.save(tmp_path / "m")
    found = export_onnx(tmp_path / "m", tmp_path / "m.onnx")
    assert found.logit_difference == 0
    loaded = OnnxDetector.load(tmp_path / "m.onnx")
    np.testing.assert_array_equal(loaded.decision_function(episodes), detector.decision_function(episodes))
    np.testing.assert_allclose(loaded.predict_proba(episodes), detector.predict_proba(episodes), rtol=1e-12)
    with pytest.raises(DfstransError, match="trees alone"):
        next(loaded.forward(episodes))


def test_generated_episodes_keep_resting_sensors_at_rest() -> None:
    values = np.random.default_rng(0).normal(size=(24, 3, 64))
    values[:, 1] = 7.0  # never moves
    values[:, 2] = 0.0
    values[:3, 2, 5] = 1000.0  # rests at 0 but for three spikes
    episodes = Episodes.from_arrays(list(values), labels=np.arange(24) % 2)
    detector = Diagnoser.from_settings(**{**TINY, "epochs": 1}).fit(episodes)
    generated = np.stack([episode.values for episode in generated_episodes(detector)])
    scaler = detector.scaler_
    assert np.nanmin(generated[:, 0]) >= scaler.minimum[0]
    assert np.nanmax(generated[:, 0]) <= scaler.maximum[0]
    assert np.nanstd(generated[:, 0]) > 0.5
    assert set(generated[:, 1][~np.isnan(generated[:, 1])]) == {7.0}
    assert np.nanmax(np.abs(generated[:, 2])) < 20


def test_an_exported_file_names_no_path_of_the_machine(exported: Path) -> None:
    assert b"/dfstrans/" not in exported.read_bytes()
    assert b"site-packages" not in exported.read_bytes()


def test_the_committed_model_exports_on_generated_episodes(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(KEPT, tmp_path / "model"))
    found = export_onnx(folder, tmp_path / "first.onnx")
    assert found.generated
    assert found.logit_difference < 1e-5
    assert "generated, not real recordings" in (folder / "MODEL_CARD.md").read_text()
    expected = json.loads((KEPT.parent / "tiny_scores.json").read_text())
    detector = OnnxDetector.load(tmp_path / "first.onnx")
    np.testing.assert_allclose(detector.decision_function(tiny_episodes()), expected["logits"], atol=1e-5)
    assert detector.predict(tiny_episodes()).tolist() == expected["decisions"]


@pytest.mark.slow
@pytest.mark.usefixtures("exported")
@pytest.mark.parametrize(
    "changes",
    [
        {"embedding": "tanh", "encoding": "vanilla", "layers": 2},
        {"embedding": "linear", "encoding": "none"},
    ],
    ids=str,
)
def test_every_kind_of_network_exports(changes: dict[str, Any], tmp_path: Path) -> None:
    detector = Diagnoser.from_settings(**{**TINY, "epochs": 1, **changes}).fit(tiny_episodes())
    longer = [np.tile(one.values, 4) for one in tiny_episodes()]  # 12 segments, where training had 3
    found = exported_from(detector, tmp_path).decision_function(longer)
    np.testing.assert_allclose(found, detector.decision_function(longer), atol=1e-5)


@pytest.mark.usefixtures("exported")
def test_resting_sensor_gives_the_same_logit_as_torch(tmp_path: Path) -> None:
    """Narrow steps of its quantile features magnify rounding: in 32 bits the two would be 1e-5 apart."""
    values = np.random.default_rng(0).normal(size=(36, 3, 96))
    moving = np.clip(values[:, 1], 0, 1)
    values[:, 1] = np.where(np.arange(96) < 80, 0.37 + 1e-6 * values[:, 1], moving)  # at rest in three of four segments
    values[:, 1, -2:] = (0.0, 1.0)  # its range
    episodes = Episodes.from_arrays(values, labels=np.arange(36) % 2)
    detector = Diagnoser.from_settings(**{**TINY, "segment_length": 24}).fit(episodes)
    assert (detector.network_.quantile_features.edges[1, 0].diff() < 1e-5).sum() >= 8  # of the steps of its mean
    assert largest_differences(detector, exported_from(detector, tmp_path), episodes)[0] < 2e-6


@pytest.mark.usefixtures("ready_graph")
def test_export_writes_next_to_the_model_and_prints_the_difference(model: Path, tmp_path: Path) -> None:
    recordings = save_episodes(tiny_episodes(seed=5), tmp_path / "recordings.npz")
    content = result_of("export", model, "--format", "onnx", "--data", recordings)
    assert (Path(content["written"]), content["episodes"]) == (tmp_path / "model.onnx", 36)
    assert content["logit_difference"] < 1e-5


@pytest.mark.usefixtures("ready_graph")
def test_many_recordings_are_compared_on_an_even_sample(model: Path, tmp_path: Path) -> None:
    assert export_onnx(model, tmp_path / "model.onnx", tiny_episodes(), most_compared=5).episodes == 5


@pytest.mark.usefixtures("ready_graph")
def test_export_beyond_the_tolerance_is_refused_and_removed(model: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    with pytest.raises(DfstransError, match=r"at most 1e-12 in a logit .*, got .*predict with the"):
        export_onnx(model, tmp_path / "model.onnx", tiny_episodes(), tolerance=1e-12)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.usefixtures("ready_graph")
def test_a_graph_of_other_weights_is_refused(model: Path, tmp_path: Path) -> None:
    detector = Diagnoser.load(model)
    detector.network_.logit.bias.data += 1
    detector.save(model)
    with pytest.raises(DfstransError, match=r"differ from torch by at most 0\.0001"):
        export_onnx(model, tmp_path / "other.onnx", tiny_episodes())
    assert not (tmp_path / "other.onnx").exists()


def test_a_score_that_is_not_a_number_counts_as_a_difference(exported: Path) -> None:
    detector = Diagnoser.load(exported.with_suffix(""))
    detector.network_.logit.bias.data.fill_(float("nan"))
    assert largest_differences(detector, OnnxDetector.load(exported), tiny_episodes())[0] == float("inf")


def test_a_damaged_model_is_refused(model: Path, tmp_path: Path) -> None:
    (model / "scaler.json").unlink()
    with pytest.raises(DfstransError, match=r"scaler\.json is missing"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_its_remedy(
    model: Path, tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DfstransError, match=rf"package {package} for the export, .*pip install 'dfstrans\[onnx\]'"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        (Episodes.from_arrays(np.zeros((2, 2, 48)), sensors=["S1", "S2"]), "missing: S3"),
        (tiny_episodes()[:0], "at least one episode to compare on, got none"),
    ],
)
def test_recordings_that_cannot_be_compared_on_are_refused(
    model: Path, tmp_path: Path, episodes: Episodes, message: str
) -> None:
    with pytest.raises(DfstransError, match=message):
        export_onnx(model, tmp_path / "model.onnx", episodes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "onnx", "--out", "model.bin"], "--out to end in .onnx, got model.bin"),
        (["--format", "onnx", "--length", "48"], "expected --data with reading options"),
        (["--format", "tflite"], "'tflite' is not one of 'onnx'"),
        ([], "Missing option '--format'"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(model: Path, arguments: list[str], message: str) -> None:
    assert message in " ".join(refused("export", model, *arguments).replace("│", " ").split())


@pytest.mark.slow
@pytest.mark.usefixtures("exported")
def test_ranking_of_all_smd_episodes_equals_torch(smd_folder: Path, tmp_path: Path) -> None:
    episodes = load_episodes(smd_folder, length=500, stride=500)
    train, validation, test = episodes.split(seed=0)
    detector = Diagnoser.from_settings(feedforward=32, epochs=2).fit(train, validation=validation)
    detector.save(tmp_path / "model")
    assert export_onnx(tmp_path / "model", tmp_path / "model.onnx", test).logit_difference <= 1e-4
    exported = OnnxDetector.load(tmp_path / "model.onnx", threads=1)
    for part in (test, episodes):
        expected, found = detector.decision_function(part), exported.decision_function(part)
        assert np.abs(found - expected).max() <= 1e-5
        np.testing.assert_array_equal(np.argsort(found, kind="stable"), np.argsort(expected, kind="stable"))
        np.testing.assert_array_equal(exported.predict(part), detector.predict(part))
