"""Recordings unlike anything in training: what the detector, its files, diagnoses and commands say about them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.deploy.onnx_export import export_onnx
from dfstrans.detectors.workflow import predict_table
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.runtime import OnnxDetector
from tests.cli.command_line import output_of, result_of
from tests.tiny import TINY

pytestmark = pytest.mark.filterwarnings("ignore:values outside the range", "ignore:these are the episodes")
STRANGE = 5  # first recordings


def fleet(half: int) -> Episodes:
    base = planted_episodes(120, 60, n_sensors=3, n_timepoints=48)
    groups = [f"m{row % 5}" for row in range(len(base))]
    return Episodes.from_arrays(np.asarray(base.values), base.labels, groups=groups)[half::2]


def some_strange() -> Episodes:
    """The first recordings of the second half oscillate in the second sensor as none of training does."""
    episodes = fleet(1)
    values = np.array(episodes.values)
    values[:STRANGE, 1] += 40 * np.sin(np.arange(48))
    return replace(episodes, values=values)


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser.from_settings(**{**TINY, "members": "trees"}).fit(fleet(0))


@pytest.fixture(scope="module")
def saved(detector: Diagnoser, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The saved model, and recordings of which the first are strange."""
    folder = tmp_path_factory.mktemp("novelty")
    detector.save(folder / "model")
    save_episodes(some_strange(), folder / "some.npz")
    return folder / "model", folder / "some.npz"


def test_predictions_have_a_verdict(detector: Diagnoser) -> None:
    table = predict_table(detector, some_strange())
    assert (table.verdict[:STRANGE] == "not seen before").all()
    seen = table[table.verdict != "not seen before"]
    assert len(seen) >= 75
    assert (seen.verdict == np.where(seen.anomalous == 1, "anomalous", "normal")).all()


def test_recordings_one_by_one_a_saved_model_and_an_export_agree(detector: Diagnoser, saved: tuple[Path, Path]) -> None:
    folder, _ = saved
    export_onnx(folder, folder.with_suffix(".onnx"))
    runtime, loaded = OnnxDetector.load(folder.with_suffix(".onnx"), threads=1), Diagnoser.load(folder)
    known = some_strange()
    unknown = replace(known, groups=np.full(len(known), "new"))
    for episodes in (known, unknown, np.asarray(known.values)):
        expected = detector.novelty(episodes)
        assert (expected[:STRANGE] > 1).all()
        np.testing.assert_array_equal(loaded.novelty(episodes), expected)
        np.testing.assert_array_equal(runtime.novelty(episodes), expected)
        np.testing.assert_array_equal([detector.novelty(episodes[[row]])[0] for row in range(9)], expected[:9])


def test_a_diagnosis_says_so_and_counts_less(detector: Diagnoser, tmp_path: Path) -> None:
    episodes = some_strange()
    strange, *_, last = detector.diagnose(episodes)
    assert (strange.verdict, strange.strangest_sensor) == ("not seen before", episodes.sensors[1])
    start = f"{strange.episode_id}: not seen before (probability {strange.probability:.3f}, threshold "
    assert strange.summary().startswith(start)
    assert f"): unlike anything in training, most in sensor {episodes.sensors[1]}; " in strange.summary()
    assert strange.doubts == ["the recording is unlike anything in training"]
    assert strange.to_dict()["novelty"] > 1
    assert last.verdict in ("anomalous", "normal")
    assert (last.novelty_words, last.doubts, last.strangest_sensor) == ("", [], None)
    page = write_diagnosis(tmp_path / "page.html", strange, recordings_of(detector, episodes)(0)).read_text()
    assert "Not seen before (probability" in page
    assert f"This recording is unlike anything in training, most in sensor {episodes.sensors[1]}, so" in page


def test_commands_count_them(saved: tuple[Path, Path]) -> None:
    model, some = saved
    found = result_of("evaluate", model, some)
    assert STRANGE <= found["not_seen_before"] < 15
    assert found["seen_before"]["episodes"] == 90 - found["not_seen_before"]
    out, _ = output_of("evaluate", model, some)
    assert "all, seen before" in out
    assert f"unlike anything in training (not seen before): {found['not_seen_before']} of 90" in out
    out, err = output_of("predict", model, some, "--json")
    verdicts = [one["verdict"] for one in json.loads(out)["predictions"]]
    assert verdicts.count("not seen before") == found["not_seen_before"]
    assert f"not seen before, since unlike anything in training: {found['not_seen_before']} of 90 episodes" in err
    _, err = output_of("diagnose", model, some, "--json", "--no-trust")
    hidden = sum(one["verdict"] == "not seen before" and not one["anomalous"] for one in json.loads(out)["predictions"])
    assert (f"{hidden} episode" in err) == (hidden > 0)
    assert "is unlike the 90 of training counts as “not seen before”" in (model / "MODEL_CARD.md").read_text()


def test_a_committee_tells_what_its_trees_tell(detector: Diagnoser) -> None:
    committee = Diagnoser.from_settings(**{**TINY, "members": "committee"}).fit(fleet(0))
    np.testing.assert_array_equal(committee.novelty(some_strange()), detector.novelty(some_strange()))
    strange = next(committee.diagnose(some_strange()[:1], trust=True))
    assert strange.verdict == "not seen before"
    assert strange.trust is None or strange.trust.support != "supported"


def test_few_recordings_and_a_network_alone_cannot_tell(tmp_path: Path) -> None:
    few = fleet(0)[::2]
    for members in ("trees", "network"):
        detector = Diagnoser.from_settings(**{**TINY, "members": members}).fit(few)
        assert np.isnan(detector.novelty(few)).all()
        detector.save(tmp_path / members)
        assert "in training is unknown: that requires trees, and at least 50 recordings" in (
            tmp_path / members / "MODEL_CARD.md"
        ).read_text().replace("\n", " ")
    save_episodes(few, tmp_path / "few.npz")
    found = result_of("predict", tmp_path / "trees", tmp_path / "few.npz")["predictions"]
    assert {one["novelty"] for one in found} == {None}
    assert {one["verdict"] for one in found} <= {"anomalous", "normal"}
    out, _ = output_of("evaluate", tmp_path / "trees", tmp_path / "few.npz")
    assert "unlike anything in training (not seen before): cannot tell; that requires trees" in out
