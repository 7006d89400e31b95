from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import DfstransError, Diagnoser
from dfstrans.detectors import saved_model as artifact
from dfstrans.detectors.summary import model_summary
from tests.tiny import edit_record, tiny_episodes

EPISODES = tiny_episodes()
KEPT = Path(__file__).parents[1] / "models" / "tiny"
NETWORK = json.loads((KEPT / "model.json").read_text())["network"]


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def test_a_model_is_a_folder_of_json_and_safetensors(tiny_model: Path) -> None:
    names = "model.json weights.safetensors scaler.json reference.safetensors parts.json MODEL_CARD.md training_log.csv"
    assert {path.name for path in tiny_model.iterdir()} == set(names.split())
    record = json.loads((tiny_model / "model.json").read_text())
    assert record.keys() >= {"network", "schema_version", "sensors", "units", "threshold", "calibration", "versions"}
    assert record["data"]["train_fingerprint"]
    assert record["training"]["seed"] == 0
    assert record["metrics"]["validation"]["episodes"] == 7


def test_the_model_card_names_sensors_metrics_and_limits(tiny_model: Path) -> None:
    card = (tiny_model / "MODEL_CARD.md").read_text()
    for words in ("S1 [mm/s]", "PR-AUC", "validation", "Threshold", "seed 0", "## Limits"):
        assert words in card


@pytest.mark.parametrize("name", ["weights.safetensors", "scaler.json", "reference.safetensors", "model.json"])
def test_a_missing_or_changed_file_gives_one_clear_error(model: Path, name: str) -> None:
    readers = (Diagnoser.load,) if name.startswith("reference") else (Diagnoser.load, model_summary)
    content = (model / name).read_bytes()
    (model / name).write_bytes(content[: len(content) // 2])
    for read in readers:
        with pytest.raises(DfstransError, match=f"damaged one: {name}"):
            read(model)
    (model / name).unlink()
    for read in readers:
        with pytest.raises(DfstransError, match=f"damaged one: {name} is missing; restore a backup or train again"):
            read(model)


@pytest.mark.parametrize(
    ("group", "change"),
    [("network", {"heads": 1}), ("network", {"encoding": "vanilla"}), ("threshold", {"value": 0.01})],
)
def test_a_record_that_was_edited_gives_one_clear_error(model: Path, group: str, change: dict[str, Any]) -> None:
    record = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(record))  # other blanks are no change
    Diagnoser.load(model)
    record[group] |= change
    (model / "model.json").write_text(json.dumps(record))
    for read in (Diagnoser.load, model_summary):
        with pytest.raises(DfstransError, match=r"model\.json is not the file that was saved .*edited"):
            read(model)


def test_a_model_stays_valid_when_an_export_is_recorded(model: Path) -> None:
    told = {"logit_difference": 0, "attention_difference": 0, "tolerance": 1, "attention_tolerance": 1, "episodes": 1}
    artifact.save_export(model, artifact.ExportRecord(**told, generated=True, fingerprint=""))
    assert artifact.read_whole_record(model).export is not None


@pytest.mark.parametrize("content", ["", '{"format": "dfstrans', '{"format": "dfstrans-model", "schema_version": 2}'])
def test_a_model_with_a_damaged_record_may_be_replaced(model: Path, content: str) -> None:
    (model / "model.json").write_text(content)
    artifact.check_place(model)
    (model / "weights.safetensors").unlink()
    with pytest.raises(DfstransError, match=r"model\.json that may belong to something else; choose another folder"):
        artifact.check_place(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "something"}, "of another kind"),
        ({"surprise": 1}, r"another version saved .*: unknown setting 'surprise'.*train it again"),
        ({"best_epoch": "late"}, "best_epoch"),
        ({"sensors": ["S3", "S2", "S1"]}, "name different sensors"),
        ({"network": {**NETWORK, "feedforward": 32}}, "another version saved .*content does not fit"),
    ],
)
def test_a_record_of_another_model_is_refused(model: Path, changes: dict[str, Any], message: str) -> None:
    edit_record(model, **changes)
    with pytest.raises(DfstransError, match=message):
        Diagnoser.load(model)


def test_a_full_disk_leaves_the_earlier_model_and_nothing_else(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = Diagnoser.load(model)
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(artifact.safetensors.torch, "save", full)
    with pytest.raises(DfstransError, match="No space left on device; free some space"):
        detector.save(model)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_folder_with_other_files_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("all of it")
    with pytest.raises(DfstransError, match=r"got other files \(thesis\.txt\); choose another folder"):
        Diagnoser.load(model).save(precious)
    assert (precious / "thesis.txt").read_text() == "all of it"
    with pytest.raises(DfstransError, match="got a file; choose another path"):
        Diagnoser.load(model).save(precious / "thesis.txt")
    (precious / "thesis.txt").rename(precious / "model.json")
    (precious / "model.json").write_text('{"modelTopology": 1}')
    with pytest.raises(DfstransError, match="of another kind"):
        Diagnoser.load(model).save(precious)
    assert (precious / "model.json").read_text() == '{"modelTopology": 1}'


def test_the_committed_model_always_loads_and_gives_its_scores() -> None:
    detector = Diagnoser.load(KEPT)
    expected = json.loads((KEPT.parent / "tiny_scores.json").read_text())
    np.testing.assert_allclose(detector.decision_function(EPISODES), expected["logits"], atol=1e-5)
    assert detector.predict(EPISODES).tolist() == expected["decisions"]
    diagnosis = next(iter(detector.diagnose(EPISODES[-1:])))
    assert diagnosis.probability == pytest.approx(expected["last_probability"], abs=1e-5)


def test_a_model_of_another_version_may_be_replaced_but_not_loaded(tmp_path: Path) -> None:
    shutil.copytree(KEPT, tmp_path / "model")
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps({**record, "schema_version": 1}))
    with pytest.raises(DfstransError, match=r"schema version 2\), got .*, schema version 1\); train it"):
        Diagnoser.load(tmp_path / "model")
    Diagnoser.load(KEPT).save(tmp_path / "model")
    assert Diagnoser.load(tmp_path / "model").sensors_ == Diagnoser.load(KEPT).sensors_
