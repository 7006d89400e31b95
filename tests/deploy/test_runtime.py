from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import DfstransError, Diagnoser, Episodes
from dfstrans.deploy.onnx_export import export_onnx
from dfstrans.deploy.runtime import CONTENT, DIGEST
from dfstrans.diagnosis.inspection import episode_scores
from dfstrans.runtime import OnnxDetector
from tests.tiny import TINY, tiny_episodes

HEAVY = "torch lightning pytorch_lightning sklearn scipy pandas pyarrow h5py pydantic einops onnx onnxscript typer"


@pytest.fixture(scope="module")
def detector(exported: Path) -> Diagnoser:
    return Diagnoser.load(exported.with_suffix(""))


@pytest.fixture(scope="module")
def runtime(exported: Path) -> OnnxDetector:
    return OnnxDetector.load(exported, threads=1)


def recordings(lengths: list[int]) -> list[np.ndarray]:
    """Recordings of any lengths with gaps, and one sensor missing altogether in the first."""
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(3, length)) for length in lengths]
    for one in series:
        one[rng.random(one.shape) < 0.1] = np.nan
    series[0][1] = np.nan
    return series


@pytest.mark.filterwarnings("ignore:no values of")
@pytest.mark.parametrize(
    "lengths",
    [[16], [48], [128], [17, 128, 16, 90], [48] * 40, list(range(16, 129, 2))],
    ids=["one segment", "as trained", "the most segments", "mixed", "more than one batch", "many lengths"],
)
def test_scores_equal_those_of_torch(detector: Diagnoser, runtime: OnnxDetector, lengths: list[int]) -> None:
    series = recordings(lengths)
    expected = detector.decision_function(series)
    np.testing.assert_allclose(runtime.decision_function(series), expected, atol=1e-5)
    np.testing.assert_allclose(runtime.predict_proba(series), detector.predict_proba(series), atol=1e-5)
    np.testing.assert_array_equal(runtime.predict(series), detector.predict(series))
    np.testing.assert_array_equal(np.argsort(runtime.decision_function(series)), np.argsort(expected))


def test_a_committee_decides_as_in_python(tmp_path: Path) -> None:
    episodes = replace(tiny_episodes(), groups=np.array([f"m{row % 4}" for row in range(36)]))
    detector = Diagnoser.from_settings(**{**TINY, "members": "committee"}).fit(episodes)
    assert detector.trees_ is not None
    assert detector.trees_.baselines is not None
    highest = float(detector.predict_proba(episodes[::4])[:, 1].max())
    baselines = detector.trees_.baselines.with_thresholds({"m0": highest + 1e-3})
    detector.trees_ = detector.trees_._replace(baselines=baselines)
    detector.save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "model.onnx")
    runtime = OnnxDetector.load(tmp_path / "model.onnx", threads=1)
    unknown = replace(episodes, groups=np.full(36, "new"))
    for given in (episodes, unknown, np.asarray(episodes.values)):
        np.testing.assert_allclose(runtime.decision_function(given), detector.decision_function(given), atol=1e-5)
        np.testing.assert_allclose(runtime.predict_proba(given), detector.predict_proba(given), atol=1e-5)
        np.testing.assert_array_equal(runtime.predict(given), detector.predict(given))
    assert not runtime.predict(episodes)[::4].any()
    moved = [replace(one, values=np.asarray(one.values) * 1.2) for one in (unknown, episodes)]  # none was learned
    assert (runtime.decision_function(moved[0]) != runtime.decision_function(moved[1])).any()
    certain = {**runtime.record.calibration, "shift": 1e4}
    runtime.record = replace(runtime.record, calibration=certain)
    assert not runtime.predict_proba(episodes)[:, 1].any()


def test_arrays_lists_and_reordered_sensors_score_the_same(runtime: OnnxDetector) -> None:
    episodes = tiny_episodes()
    values, expected = np.asarray(episodes.values), runtime.decision_function(episodes)
    for given in (values, list(values), episodes.select_sensors(["S3", "S1", "S2"])):
        np.testing.assert_array_equal(runtime.decision_function(given), expected)
    more = np.concatenate([np.zeros((len(episodes), 1, 48)), values], axis=1)
    with pytest.warns(UserWarning, match="unknown to the model: unknown"):
        found = runtime.decision_function(Episodes.from_arrays(more, sensors=["unknown", *episodes.sensors]))
    np.testing.assert_array_equal(found, expected)


def test_attention_and_relevances_are_those_of_the_diagnosis(detector: Diagnoser, runtime: OnnxDetector) -> None:
    episodes = Episodes.from_arrays(recordings([17, 128, 16, 90]))
    (ours,) = runtime.forward(episodes)
    (theirs,) = detector.forward(episodes, return_attention=True)
    assert theirs.attention is not None
    np.testing.assert_allclose(ours.temporal_attention, theirs.attention.temporal, atol=1e-5)
    np.testing.assert_allclose(ours.spatial_attention, theirs.attention.spatial, atol=1e-5)
    for row, expected in enumerate(episode_scores(detector, episodes)):
        found = ours.global_temporal_relevance[row, : expected.n_segments]
        np.testing.assert_allclose(found, expected.global_temporal_relevance, atol=1e-5)
        np.testing.assert_allclose(ours.global_spatial_relevance[row], expected.global_spatial_relevance, atol=1e-5)


def test_the_threshold_decides_as_in_training(exported: Path, detector: Diagnoser) -> None:
    runtime = OnnxDetector.load(exported)
    assert runtime.threshold == detector.threshold_.value
    probabilities = runtime.predict_proba(tiny_episodes())[:, 1]
    runtime.record.threshold["value"] = float(probabilities[3])
    np.testing.assert_array_equal(runtime.predict(tiny_episodes()), probabilities >= probabilities[3])


def test_the_file_holds_all_that_a_prediction_needs(runtime: OnnxDetector, detector: Diagnoser) -> None:
    record = runtime.record
    assert runtime.sensors == ("S1", "S2", "S3")
    assert record.units == ("mm/s",) * 3
    assert (record.segment_length, record.interval, record.encoding) == (16, 0.01, "faithful")
    assert record.calibration == detector.calibration_.model_dump()
    np.testing.assert_array_equal(record.scaler.minimum, detector.scaler_.minimum)


def test_no_episodes_give_no_scores(runtime: OnnxDetector) -> None:
    none = tiny_episodes()[:0]
    assert runtime.decision_function(none).shape == (0,)
    assert runtime.predict_proba(none).shape == (0, 2)
    assert runtime.predict(none).shape == (0,)
    assert list(runtime.forward(none)) == []


@pytest.mark.parametrize(
    "given",
    [
        np.zeros((2, 4, 48)),
        np.zeros((2, 3, 15)),
        np.zeros((2, 3, 129)),
        np.full((2, 3, 48), np.inf),
        np.full((2, 3, 48), 3e38),
        np.zeros((3, 48)),
        [["a"]],
        Episodes.from_arrays(np.zeros((2, 2, 48)), sensors=["S1", "S2"]),
    ],
    ids=["sensors", "too short", "too long", "infinite", "too large", "two axes", "text", "names"],
)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # on the way to the error
def test_bad_recordings_get_the_errors_of_the_diagnoser(detector: Diagnoser, runtime: OnnxDetector, given: Any) -> None:
    with pytest.raises(DfstransError) as expected:
        detector.predict(given)
    with pytest.raises(DfstransError) as found:
        runtime.predict(given)
    assert str(found.value) == str(expected.value)


def test_another_sampling_interval_gives_a_warning(runtime: OnnxDetector) -> None:
    slower = Episodes.from_arrays(np.zeros((2, 3, 48)), sensors=["S1", "S2", "S3"], interval=0.02)
    with pytest.warns(UserWarning, match="in training it was 0.01"):
        runtime.predict(slower)


def rewritten(exported: Path, to: Path, **changes: Any) -> Path:
    """The file with changed metadata and the digest it had."""
    import onnx

    model = onnx.load(exported)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    properties[CONTENT] = json.dumps({**json.loads(properties[CONTENT]), **changes})
    onnx.helper.set_model_props(model, properties)
    onnx.save(model, to)
    return to


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_refused(exported: Path, tmp_path: Path, share: float) -> None:
    content = exported.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: int(share * len(content))])
    with pytest.raises(DfstransError, match=r"cut\.onnx.*export"):
        OnnxDetector.load(tmp_path / "cut.onnx")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "schema version 2, got 99 .* written by dfstrans .* export the model again"),
        ({"format": "another"}, "expected an ONNX file that dfstrans exported"),
        ({"threshold": {"value": 0.1}}, "checksum differs"),
    ],
)
def test_a_file_of_another_version_or_with_changes_is_refused(
    exported: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DfstransError, match=message):
        OnnxDetector.load(rewritten(exported, tmp_path / "changed.onnx", **changes))


def test_a_changed_weight_is_refused(exported: Path, tmp_path: Path) -> None:
    import onnx

    content = bytearray(exported.read_bytes())
    weight = max(onnx.load(exported).graph.initializer, key=lambda one: len(one.raw_data)).raw_data
    content[content.index(weight) + len(weight) // 2] ^= 1
    with pytest.raises(DfstransError, match=r"changed\.onnx: its checksum differs"):
        OnnxDetector.from_bytes(bytes(content), "changed.onnx")


def test_a_foreign_onnx_file_is_refused(exported: Path) -> None:
    import onnx

    foreign = onnx.load(exported)
    del foreign.metadata_props[:]
    with pytest.raises(DfstransError, match="got one without its metadata"):
        OnnxDetector.from_bytes(foreign.SerializeToString())
    onnx.helper.set_model_props(foreign, {CONTENT: "{", DIGEST: ""})
    with pytest.raises(DfstransError, match="its metadata are not JSON"):
        OnnxDetector.from_bytes(foreign.SerializeToString())


def test_anything_but_a_readable_onnx_file_is_refused(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(DfstransError, match=r"onnxruntime .* cannot read: .*text\.onnx"):
        OnnxDetector.load(tmp_path / "text.onnx")
    with pytest.raises(DfstransError, match="No such file or directory; check the path"):
        OnnxDetector.load(tmp_path / "nothing.onnx")
    with pytest.raises(DfstransError, match=r"got a folder: .*export it first"):
        OnnxDetector.load(exported.with_suffix(""))


def test_no_threads_and_no_onnxruntime_are_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DfstransError, match="at least 1, got 0"):
        OnnxDetector.load(exported, threads=0)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DfstransError, match=r"package onnxruntime, .*pip install 'dfstrans\[onnx\]'"):
        OnnxDetector.load(exported)


def test_prediction_needs_only_numpy_and_onnxruntime(exported: Path, tmp_path: Path) -> None:
    values = np.asarray(tiny_episodes().values)
    np.save(tmp_path / "values.npy", values)
    code = (
        f"import sys\nfor name in {HEAVY.split()}: sys.modules[name] = None\n"
        "import numpy as np\nfrom dfstrans.runtime import OnnxDetector\n"
        "detector = OnnxDetector.load(sys.argv[1])\n"
        "print(*detector.decision_function(np.load(sys.argv[2])))\n"
    )
    command = [sys.executable, "-c", code, str(exported), str(tmp_path / "values.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = OnnxDetector.load(exported).decision_function(values)
    np.testing.assert_allclose([float(score) for score in done.stdout.split()], expected, atol=1e-6)


@pytest.mark.usefixtures("exported")
def test_runtime_imports_in_half_a_second() -> None:
    code = (
        "import sys, time\nstart = time.process_time()\nimport dfstrans.runtime, onnxruntime\n"
        "print(time.process_time() - start, *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    seconds, *loaded = min((run.stdout.split() for run in runs), key=lambda words: float(words[0]))
    assert float(seconds) < 0.5
    assert "dfstrans" in loaded
    assert not set(loaded) & set(HEAVY.split())
