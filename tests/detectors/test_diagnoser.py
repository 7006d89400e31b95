from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser, Diagnosis, Episodes, load_episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.card import model_card
from dfstrans.detectors.saved_model import load_model, save_model
from dfstrans.detectors.workflow import evaluate_diagnoses
from dfstrans.diagnosis.schema import TrustVerdict
from dfstrans.errors import DfstransError
from dfstrans.model import detector as detector_module
from dfstrans.training.lightning_module import DetectorModule
from tests.tiny import TINY, tiny_episodes

EPISODES = tiny_episodes()


@pytest.fixture
def detector() -> Diagnoser:
    return Diagnoser.load(Path(__file__).parents[1] / "models" / "tiny")


def test_a_fit_on_a_file_equals_a_fit_in_memory(tmp_path: Path) -> None:
    save_episodes(EPISODES, tmp_path / "episodes.h5")
    stored = load_episodes(tmp_path / "episodes.h5")
    assert stored.is_stored
    a, b = (Diagnoser.from_settings(**TINY).fit(which) for which in (EPISODES, stored))
    np.testing.assert_array_equal(a.decision_function(EPISODES), b.decision_function(stored))
    assert a.data_ == b.data_


def test_attention_comes_batch_by_batch_with_rows_that_sum_to_one(detector: Diagnoser) -> None:
    sizes = []
    for forward in detector.forward(EPISODES, return_attention=True):
        assert forward.attention is not None
        np.testing.assert_allclose(forward.attention.temporal.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(forward.attention.spatial.sum(-1), 1, atol=1e-5)
        sizes.append(len(forward.logit))
    assert sum(sizes) == len(EPISODES)


@pytest.mark.slow
def test_planted_anomalies_are_found_with_f1_of_095() -> None:
    train, validation, test = planted_episodes(seed=1).split(1)
    detector = Diagnoser(epochs=25, learning_rate=1e-3, seed=1).fit(train, validation=validation)
    assert detector.evaluate(test).f1 >= 0.95
    assert detector.loss_beside_guessing < 0.5


def test_the_number_of_steps_follows_the_episodes_drawn_per_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    step = DetectorModule.training_step
    monkeypatch.setattr(DetectorModule, "training_step", lambda *args: (steps.append(1), step(*args))[1])
    train, validation, _ = tiny_episodes(n_normal=200, n_anomalous=40).split(0)
    assert (len(train), train.n_anomalous) == (168, 28)
    soon_over = {"schedule": "constant", "patience": 1, "learning_rate": 1e-9}
    chosen = {**TINY, **soon_over, "batch_size": None, "epochs": None, "normals_per_anomaly": 1}
    detector = Diagnoser.from_settings(**chosen).fit(train, validation=validation)
    assert detector.training_settings_.epochs == 100  # 55, had all 168 been counted
    assert len(steps) == 4 * len(detector.log_)  # 56 episodes in batches of 16
    assert (detector.data_.train_episodes, detector.data_.validation_episodes) == (168, len(validation))


def test_bf16_scores_are_close_to_32_bits_until_the_next_fit(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: True)
    detector = Diagnoser.load(tiny_model)
    exact = detector.decision_function(EPISODES)
    rounded = detector.predict_in("auto").decision_function(EPISODES)
    assert rounded.dtype == np.float64
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()
    assert len(np.unique(rounded)) == len(np.unique(exact)) == len(EPISODES)
    diagnosis = next(iter(detector.diagnose(EPISODES[:1])))
    assert diagnosis.probability == pytest.approx(detector.probability(exact[0]), abs=1e-6)
    np.testing.assert_array_equal(detector.predict_in("32").decision_function(EPISODES), exact)
    np.testing.assert_array_equal(detector.predict_in("bf16").fit(EPISODES).decision_function(EPISODES), exact)


def test_bf16_falls_back_to_32_bits_with_a_warning(detector: Diagnoser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector_module, "bf16_is_fast", lambda: False)
    exact = detector.decision_function(EPISODES)
    with pytest.warns(UserWarning, match="32 bits instead"):
        np.testing.assert_array_equal(detector.predict_in("bf16").decision_function(EPISODES), exact)
    np.testing.assert_array_equal(detector.predict_in("auto").decision_function(EPISODES), exact)
    with pytest.raises(DfstransError, match="expected one of auto, 32, bf16, got precision '16'"):
        detector.predict_in("16")  # type: ignore[arg-type]


# ---- the committee of network and trees ---------------------------------------------------------------------------

GROUPED = replace(EPISODES, groups=np.array([f"m{row % 4}" for row in range(len(EPISODES))]))


@pytest.fixture(scope="module")
def committee(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("committee") / "model"
    Diagnoser.from_settings(**{**TINY, "members": "committee"}).fit(GROUPED).save(folder)
    return folder


def test_a_committee_is_restored_with_its_members_and_baselines(committee: Path) -> None:
    detector = Diagnoser.load(committee)
    assert detector.committee_ is not None
    assert detector.members == "committee"
    assert set(detector.machines_) == {"m0", "m1", "m2", "m3"}
    again = Diagnoser.from_settings(**{**TINY, "members": "committee"}).fit(GROUPED)
    np.testing.assert_array_equal(detector.decision_function(GROUPED), again.decision_function(GROUPED))


def test_a_committee_that_lacks_what_is_normal_for_its_trees_is_refused(committee: Path, tmp_path: Path) -> None:
    stored = load_model(committee)
    for kept in ([name for name in stored.reference if not name.startswith("trees.")], []):
        reference = {name: stored.reference[name] for name in kept}
        save_model(tmp_path / "earlier", stored._replace(reference=reference))
        with pytest.raises(DfstransError, match=r"that another version saved .* train it again"):
            Diagnoser.load(tmp_path / "earlier")


def test_without_machines_the_network_of_a_committee_is_trained_as_alone() -> None:
    one_fleet = replace(GROUPED, groups=None)
    alone, together = (
        Diagnoser.from_settings(**{**TINY, "members": members}).fit(one_fleet).network_
        for members in ("network", "committee")
    )
    for name, tensor in alone.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), together.state_dict()[name].numpy())


def test_a_diagnosis_says_what_each_member_thinks(committee: Path) -> None:
    detector = Diagnoser.load(committee)
    assert detector.committee_ is not None
    probabilities = detector.predict_proba(GROUPED)[:, 1]
    for diagnosis, probability in zip(detector.diagnose(GROUPED), probabilities, strict=True):
        assert diagnosis.probability == pytest.approx(probability, abs=1e-6)
        network, trees = diagnosis.members["network"], diagnosis.members["trees"]
        assert network == pytest.approx(detector.probability(diagnosis.network_logit))
        assert diagnosis.members_disagree == ((network >= diagnosis.threshold) != (trees >= diagnosis.threshold))
        assert diagnosis.to_dict()["members"] == {"network": network, "trees": trees}


def test_a_commissioned_machine_is_compared_with_itself_by_both_members(committee: Path) -> None:
    detector = Diagnoser.load(committee)
    new = replace(GROUPED, groups=np.full(len(GROUPED), "new"))
    before = [d.members for d in detector.diagnose(new[:3])]
    assert detector.machines_without_baseline(new) == ["new"]
    detector.commission(new)
    after = [d.members for d in detector.diagnose(new[:3])]
    for member in ("network", "trees"):
        assert [one[member] for one in before] != [one[member] for one in after]


def test_a_commissioned_machine_is_diagnosed_by_its_own_habits(committee: Path, tmp_path: Path) -> None:
    detector = Diagnoser.load(committee)
    new = replace(GROUPED, values=np.asarray(GROUPED.values) + 7, groups=np.full(len(GROUPED), "new"))
    usual = new[new.require_labels() == 0]
    before = list(detector.diagnose(usual))
    assert all(one.suspected_instrument for one in before)
    assert {one.symptom for one in before[0].health} == {"out of training range"}
    detector.commission(replace(new, labels=None, faults=None))
    detector.save(tmp_path / "model")
    loaded = Diagnoser.load(tmp_path / "model")
    after = list(loaded.diagnose(usual))
    assert not any(one.suspected_instrument for one in after)
    assert {one.compared_with.machine for one in after} == {"new"}
    typical, of_stranger = (np.median([one.deviation for one in found]) for found in (after, before))
    assert 0.5 < typical < 0.8 * of_stranger
    shifted = np.asarray(usual.values[:1]).copy()
    shifted[:, 0] += 20
    diagnosis = next(loaded.diagnose(replace(usual[:1], values=shifted)))
    assert diagnosis.top_sensors(1)[0].direction == "higher than normal"
    assert "normal spreads above its normal value on machine new" in diagnosis.summary()
    own = next(Diagnoser.load(committee).with_own_baselines(new).diagnose(usual[:1]))
    assert own.compared_with.machine == "new"


def test_a_machine_without_a_baseline_lowers_trust_until_it_is_commissioned(
    committee: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supported = TrustVerdict("supported", "the logit drops", 5.0, 3.0, 0.1, 1.0)
    monkeypatch.setattr("dfstrans.diagnosis.diagnose.judge", lambda *_: supported)
    detector = Diagnoser.load(committee)
    detector.threshold_ = detector.threshold_.model_copy(update={"value": 0.0})  # all members call everything anomalous
    detector.log_ = []  # nothing is known of the training
    new = replace(GROUPED, groups=np.full(len(GROUPED), "new"))

    def first(episodes: Episodes) -> Diagnosis:
        return next(detector.diagnose(episodes[:1], trust=True))

    for episodes, reason in ((new, "has no baseline"), (replace(new, groups=None), "is unknown")):
        diagnosis = first(episodes)
        assert diagnosis.trust is not None
        assert diagnosis.to_dict()["baseline"] == "fleet"
        assert (diagnosis.trust.support, diagnosis.trust.reason) == (
            "weak",
            f"the logit drops, but the machine {reason}",
        )
        assert "compared with the fleet" in diagnosis.summary()
        assert reason in diagnosis.trust_words
    detector.commission(new)
    for episodes in (new, GROUPED):
        diagnosis = first(episodes)
        assert diagnosis.trust == supported
        assert diagnosis.to_dict()["baseline"] == "own"
        assert "fleet" not in diagnosis.summary()


def test_where_no_machines_are_known_nothing_is_said_of_baselines(detector: Diagnoser) -> None:
    diagnosis = next(detector.diagnose(GROUPED[:1]))
    assert diagnosis.to_dict()["baseline"] is None
    assert not any("machine" in doubt for doubt in diagnosis.doubts)


def test_members_are_evaluated_beside_the_committee(committee: Path) -> None:
    detector = Diagnoser.load(committee)
    assert detector.committee_ is not None
    found = detector.evaluate_members(GROUPED)
    assert list(found) == ["committee", "network", "trees"]
    assert found["committee"] == detector.evaluate(GROUPED)
    detector.evaluate_test(GROUPED)
    assert detector.committee_.pr_auc["test"] == {name: found[name].pr_auc for name in ("network", "trees")}
    assert set(detector.committee_.pr_auc) == {"validation", "test"}
    card = model_card(detector._stored().record.model_dump())
    assert f"test part: network {found['network'].pr_auc:.4g}, trees {found['trees'].pr_auc:.4g}" in card
    assert detector.committee_.note in card


def test_trees_alone_diagnose_without_attention(tmp_path: Path) -> None:
    detector = Diagnoser.from_settings(**{**TINY, "members": "trees"}).fit(GROUPED)
    detector.save(tmp_path / "model")
    loaded = Diagnoser.load(tmp_path / "model")
    assert loaded.members == loaded.members_ == "trees"
    np.testing.assert_array_equal(loaded.decision_function(GROUPED), detector.decision_function(GROUPED))
    probabilities = detector.predict_proba(GROUPED)[:, 1]
    for diagnosis, again, probability in zip(
        detector.diagnose(GROUPED), loaded.diagnose(GROUPED), probabilities, strict=True
    ):
        assert diagnosis.probability == again.probability == probability
        assert diagnosis.baseline == "own"
        assert diagnosis.explained_by == "trees"
        assert np.isnan(diagnosis.global_temporal_relevance).all()
        content = diagnosis.to_dict(raw=True)
        json.dumps(content, allow_nan=False)
        assert content["network_logit"] is content["trust"] is None
        assert content["pairs"] == content["beyond_band"] == []
        assert "no attention to show" in content["summary"]
    assert any(one.ranked_by == "occlusion" for one in detector.diagnose(GROUPED))
    with pytest.raises(DfstransError, match="trees alone"):
        next(detector.forward(GROUPED))


def test_trees_find_the_planted_sensor() -> None:
    episodes = planted_episodes(60, 30, n_sensors=4, n_timepoints=100, strength=3)
    detector = Diagnoser(segment_length=20, members="trees").fit(episodes)
    causes = {episode.id: episode.faults[0].sensors[0] for episode in episodes if episode.faults}
    found = [one.top_sensor == causes[one.episode_id] for one in detector.diagnose(episodes) if one.is_anomaly]
    assert len(found) > 20
    assert np.mean(found) > 0.8


def test_trees_explain_what_only_they_call_anomalous(tmp_path: Path) -> None:
    episodes = planted_episodes(60, 30, n_sensors=4, n_timepoints=96, strength=3)
    causes = {episode.id: episode.faults[0].sensors[0] for episode in episodes if episode.faults}
    detector = Diagnoser.from_settings(**{**TINY, "members": "committee", "epochs": 1}).fit(episodes)
    assert detector.committee_ is not None
    blind = detector.committee_.network.model_copy(update={"shift": 1e6})
    detector.committee_ = detector.committee_.model_copy(
        update={"network": blind, "network_weight": 0.0, "network_weight_on_fleet": 0.0}
    )
    detector.save(tmp_path / "model")
    for one in (detector, Diagnoser.load(tmp_path / "model")):
        called = [found for found in one.diagnose(episodes, trust=True) if found.is_anomaly]
        assert len(called) > 20
        assert {found.explained_by for found in called} == {"trees"}
        assert all(found.trust is None and found.members["network"] < 0.01 for found in called)
        assert np.mean([found.top_sensor == causes.get(found.episode_id) for found in called]) > 0.8
    others = [found.explained_by for found in detector.diagnose(episodes) if not found.is_anomaly]
    assert set(others) == {"network"}
    curves = evaluate_diagnoses(detector, episodes)["curves"]
    assert curves["metrics"]["comprehensiveness"] > curves["random_metrics"]["comprehensiveness"]


def test_trees_learn_from_the_validation_part_after_calibration() -> None:
    rng = np.random.default_rng(0)
    noise = Episodes.from_arrays(rng.normal(size=(60, 2, 32)), rng.integers(0, 2, 60))
    train, validation = noise[:30], noise[30:]
    detector = Diagnoser.from_settings(**{**TINY, "members": "trees"}).fit(train, validation=validation)
    assert detector.metrics_["validation"]["pr_auc"] < 0.8
    assert detector.evaluate(validation).pr_auc == 1


def test_preset_paper_is_the_network_alone() -> None:
    quick = {"epochs": 1, "width": 8, "heads": 2, "feedforward": 16, "head_width": 8, "segment_length": 16}
    detector = Diagnoser.from_settings(preset="paper", **quick).fit(EPISODES)
    assert detector.committee_ is None
    assert next(detector.diagnose(EPISODES[:1])).members == {}
    with pytest.raises(DfstransError, match="members"):
        Diagnoser.from_settings(members="everybody")  # before recordings are read
