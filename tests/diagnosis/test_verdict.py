from __future__ import annotations

import numpy as np
import pytest
import torch

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis import diagnose
from dfstrans.diagnosis import trust as verdict
from dfstrans.diagnosis.counterfactual import occlusion
from dfstrans.diagnosis.trust import judge, weigh
from dfstrans.model.network import DFSTrans

SETTINGS = {"segment_length": 16, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def planted() -> Episodes:
    return planted_episodes(n_normal=60, n_anomalous=20, n_sensors=4, n_timepoints=96, seed=1)


@pytest.fixture(scope="module")
def detector(planted: Episodes) -> Diagnoser:
    return Diagnoser.from_settings(**SETTINGS, epochs=12, learning_rate=5e-3).fit(planted)


def test_all_draws_are_not_called_100_per_cent_of_them() -> None:
    assert weigh(True, 3.0, 1.0, 5.0, 20)[1].endswith("falls by 3.00, more than in all 20 random draws")
    assert "more than in 98% of 20 random draws" in weigh(True, 3.0, 0.975, 5.0, 20)[1]


@pytest.mark.parametrize(
    ("is_anomaly", "fall", "percentile", "support"),
    [
        (True, 3.0, 1.0, "supported"),
        (True, 3.0, 0.8, "weak"),
        (True, 3.0, 0.5, "not supported"),
        (True, 0.1, 1.0, "not supported"),  # beats every draw, but changes nothing
        (True, -2.0, 0.0, "not supported"),
        (False, 3.0, 1.0, "not supported"),
    ],
)
def test_the_word_goes_by_size_and_place_of_the_fall(
    is_anomaly: bool, fall: float, percentile: float, support: str
) -> None:
    word, reason = weigh(is_anomaly, fall, percentile, 5, 20)
    assert word == support
    assert reason
    assert "by -" not in reason


def test_attention_of_an_untrained_model_and_of_normal_episodes_is_not_convincing(
    detector: Diagnoser, planted: Episodes
) -> None:
    normal = planted[planted.require_labels() == 0][:5]
    assert all(judge(detector, normal[row], False).support == "not supported" for row in range(5))
    torch.manual_seed(0)
    untrained = Diagnoser.from_settings(**SETTINGS)
    untrained.__dict__.update(detector.__dict__)
    untrained.network_ = DFSTrans(detector.network_settings_).eval()
    assert all(judge(untrained, planted[row], True).support == "not supported" for row in range(-5, 0))


def test_normal_episodes_would_not_convince_even_if_they_were_called_anomalous(
    detector: Diagnoser, planted: Episodes
) -> None:
    normal = planted[planted.require_labels() == 0][:5]
    assert all(judge(detector, normal[row], True).support == "not supported" for row in range(5))


def test_attention_learned_from_shuffled_labels_is_not_convincing(planted: Episodes) -> None:
    labels = np.random.default_rng(0).permutation(planted.require_labels())
    shuffled = Diagnoser.from_settings(**SETTINGS, epochs=12, learning_rate=5e-3).fit(planted.with_labels(labels))
    fresh = planted_episodes(n_normal=0, n_anomalous=12, n_sensors=4, n_timepoints=96, seed=2)
    supported = [d.trust is not None and d.trust.support == "supported" for d in shuffled.diagnose(fresh, trust=True)]
    assert np.mean(supported) < 0.35


def test_without_support_the_ranking_is_made_by_occlusion(
    detector: Diagnoser, planted: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "MATERIAL", np.inf)
    monkeypatch.setattr(diagnose, "LEAST_LOSS", 0.0)
    anomalous = planted[planted.require_labels() == 1]
    one = next(d for d in detector.diagnose(anomalous, trust=True) if d.is_anomaly)
    assert one.trust is not None
    assert one.trust.support == "not supported"
    assert one.occlusion is not None
    assert one.to_dict()["ranked_by"] == "occlusion"
    assert one.top_sensor == one.sensors[int(one.occlusion.max(axis=0).argmax())]
    content, falls = one.to_dict(), one.occlusion
    assert [sensor["loss"] for sensor in content["interpretation"]] == pytest.approx(sorted(falls.max(axis=0))[::-1])
    assert [moment["loss"] for moment in content["segments"]] == pytest.approx(sorted(falls.max(axis=1))[:-6:-1])
    assert content["interpretation"][0]["segments"][0]["loss"] == pytest.approx(falls.max())
    np.testing.assert_array_equal(one.to_frame()["loss"], falls.ravel())
    assert "made normal" in one.summary()
    assert "least like normal" not in one.summary()
    assert "furthest from normal: " in one.summary()
    monkeypatch.setattr(diagnose, "LEAST_LOSS", one.occlusion.max() + 1)
    (same,) = detector.diagnose(anomalous[anomalous.ids == one.episode_id], trust=True)
    assert same.occlusion is None  # what no cell matters to cannot be ranked by it
    assert same.to_dict()["ranked_by"] != "occlusion"
    assert same.to_dict()["segments"][0]["loss"] is None
    assert "No single sensor at one moment" in same.summary()
    assert "No single sensor at one moment" not in one.summary()


def test_occlusion_is_the_fall_of_the_logit_with_one_cell_made_normal(detector: Diagnoser, planted: Episodes) -> None:
    episode = planted[-1]
    falls = occlusion(detector, episode, detector.reference_)
    segments, valid, _ = next(iter(detector.batches(episode)))
    with torch.inference_mode():
        x = detector.network_.embed(segments, valid)
        whole = float(detector.network_.attend(x).logit)
        for moment, sensor in ((0, 0), (5, 3), (2, 1)):
            changed = x.clone()
            changed[0, moment, sensor] = torch.as_tensor(
                detector.reference_.by_moment["embedding"].centre[moment, sensor]
            )
            assert falls[moment, sensor] == pytest.approx(
                whole - float(detector.network_.attend(changed).logit), abs=1e-4
            )


def test_a_verdict_comes_again(detector: Diagnoser, planted: Episodes) -> None:
    first, again = (judge(detector, planted[-1], True) for _ in range(2))
    assert first == again
