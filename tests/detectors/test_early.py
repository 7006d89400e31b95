"""Early warning: prefixes, and thresholds of early alarms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.early import EarlyWarning, Step
from dfstrans.errors import DfstransError
from tests.cli.command_line import refused, result_of
from tests.tiny import write_table


@pytest.fixture(scope="module")
def detector(planted_model: tuple[Path, Episodes]) -> Diagnoser:
    return Diagnoser.load(planted_model[0])


@pytest.fixture(scope="module")
def labelled() -> Episodes:
    return planted_episodes(n_normal=60, n_anomalous=30, n_sensors=4, n_timepoints=96, seed=1)


def test_the_probability_after_a_segment_is_that_of_the_prefix_alone(detector: Diagnoser, labelled: Episodes) -> None:
    lengths = [96, 50, 16, 33]
    series = [labelled.values[row, :, :length] for row, length in enumerate(lengths)]
    found = detector.predict_prefixes(Episodes.from_arrays(series))
    assert found.shape == (4, 6)
    for row, length in enumerate(lengths):
        segments = -(-length // 16)
        assert np.isnan(found[row, segments:]).all()
        for segment in range(segments):
            alone = Episodes.from_arrays([series[row][:, : 16 * (segment + 1)]])
            assert found[row, segment] == pytest.approx(detector.predict_proba(alone)[0, 1], abs=1e-6)


def test_values_after_a_prefix_do_not_matter(detector: Diagnoser, labelled: Episodes) -> None:
    changed = labelled.values[:3].copy()
    changed[:, :, 48:] = 1.0
    before = detector.predict_prefixes(labelled[:3])[:, :3]
    assert detector.predict_prefixes(Episodes.from_arrays(changed))[:, :3] == pytest.approx(before, abs=1e-6)


def test_early_false_alarms_grow_at_most_evenly_to_those_of_whole_recordings(
    detector: Diagnoser, labelled: Episodes
) -> None:
    detector.threshold_ = detector.threshold_.model_copy(update={"value": 0.02})  # so that there are false alarms
    found = EarlyWarning.measure(detector, "", labelled)
    assert [step.points for step in found.steps] == [16, 32, 48, 64, 80, 96]
    normal = labelled[labelled.require_labels() == 0]
    probabilities = detector.predict_prefixes(normal)
    alarms = np.logical_or.accumulate(probabilities >= [step.threshold for step in found.steps], axis=1).sum(axis=0)
    final = int((probabilities[:, -1] >= 0.02).sum())
    assert final > 5
    assert (alarms[:-1] <= final * np.arange(1, 6) / 6).all()
    assert alarms[-2] > 0
    assert min(step.threshold for step in found.steps) >= 0.02
    recalls = [step.recall for step in found.steps]
    assert recalls == sorted(recalls)


def test_few_labelled_recordings_have_no_thresholds(detector: Diagnoser, labelled: Episodes) -> None:
    labels = labelled.require_labels()
    few = np.r_[np.flatnonzero(labels)[:3], np.flatnonzero(labels == 0)]
    with pytest.raises(DfstransError, match=r"as many anomalous .* got 60 and 3"):
        EarlyWarning.measure(detector, "", labelled[few])


def test_a_threshold_holds_at_its_step_only() -> None:
    steps = [
        Step(points=n, share=n / 30, threshold=n / 100, pr_auc=1, f1=f1, recall=1, false_alarms_per_100_normal=0)
        for n, f1 in ((10, 0.5), (20, 0.96), (30, 1.0))
    ]
    found = EarlyWarning(model="", episodes=1, anomalous=1, typical=30, steps=steps)
    assert [found.threshold(n - 5, n) for n in (5, 10, 15, 20, 25, 30)] == [None, 0.1, None, 0.2, None, None]
    assert found.enough.points == 20


@pytest.mark.filterwarnings("ignore:values outside the range")
def test_evaluate_writes_thresholds_and_a_figure(
    planted_model: tuple[Path, Episodes], labelled: Episodes, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    model, data, early = planted_model[0], tmp_path / "data.npz", tmp_path / "early"
    from dfstrans import save_episodes

    save_episodes(labelled, data)
    found = result_of("evaluate", model, data, "--early", early)["early"]
    assert found["steps"][-1]["recall"] > 0.5
    assert found["steps"][0]["begun"] <= found["steps"][-1]["begun"] == 1.0
    assert (early / "early.svg").read_text().count("<svg") == 1
    assert EarlyWarning.load(early, found["model"]).model_dump() == found
    with pytest.raises(DfstransError, match="of the model another"):
        EarlyWarning.load(early, "another")
    with pytest.raises(DfstransError, match="dfstrans evaluate"):
        EarlyWarning.load(tmp_path, found["model"])


@pytest.mark.filterwarnings("ignore:these are the episodes")
def test_a_model_without_segments_gives_no_early_alarms(tmp_path: Path, labelled: Episodes) -> None:
    write_table(labelled.select_sensors(labelled.sensors[:3]), tmp_path / "data.csv")
    result_of("train", tmp_path / "data.csv", "--model", "boosting", "--out", tmp_path / "model")
    assert "segments" in refused("evaluate", tmp_path / "model", tmp_path / "data.csv", "--early", tmp_path / "early")
