from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.counterfactual import (
    Counterfactual,
    Mask,
    RankingCurves,
    first_cells,
    integrated_gradients,
    occlusion,
    places_of,
    ranking_curves,
)
from dfstrans.diagnosis.diagnose import with_trust
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.errors import DfstransError
from tests.tiny import tiny_episodes


def logit_with_normal(detector: Diagnoser, episode: Episodes, replaced: Mask) -> tuple[float, float]:
    """The logit, and that with some cells (segment, sensor) at the normal mean, computed with the network itself."""
    segments, valid, *_ = next(iter(detector.batches(episode)))
    with torch.inference_mode():
        x = detector.network_.embed(segments, valid)
        normal = torch.as_tensor(detector.reference_.by_segment.bands["embedding"].centre, dtype=x.dtype)
        changed = torch.where(torch.as_tensor(replaced)[..., None], normal, x)
        return float(detector.network_.attend(x).logit), float(detector.network_.attend(changed).logit)


def test_occlusion_is_the_drop_in_the_logit_without_one_cell(detector: Diagnoser, planted: Episodes) -> None:
    falls = occlusion(detector, planted[-1], detector.reference_)
    for cell in ((0, 0), (5, 3), (2, 1)):
        replaced = np.zeros((6, 4), dtype=bool)
        replaced[cell] = True
        whole, changed = logit_with_normal(detector, planted[-1], replaced)
        assert falls[cell] == pytest.approx(whole - changed, abs=1e-4)


def test_unsupported_attention_falls_back_to_occlusion(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dfstrans.diagnosis.trust.MATERIAL_DROP", np.inf)
    row = next(row for row, d in enumerate(diagnoses) if d.is_anomaly)
    one = with_trust(diagnoses[row], detector, planted[row], detector.reference_, smallest_drop=0.0)
    assert one.trust is not None
    assert one.trust.support == "not supported"
    drops = one.occlusion
    assert drops is not None
    content = one.to_dict()
    assert content["ranked_by"] == "occlusion"
    assert one.top_sensor == one.sensors[int(drops.max(axis=0).argmax())]
    assert [sensor["drop"] for sensor in content["interpretation"]] == pytest.approx(sorted(drops.max(axis=0))[::-1])
    assert [found["drop"] for found in content["segments"]] == pytest.approx(sorted(drops.max(axis=1))[:-6:-1])
    assert content["interpretation"][0]["segments"][0]["drop"] == pytest.approx(drops.max())
    np.testing.assert_array_equal(one.to_frame()["drop"], drops.ravel())
    assert "replaced by its normal signal" in one.summary()
    assert "furthest from normal" not in one.summary()
    same = with_trust(diagnoses[row], detector, planted[row], detector.reference_, smallest_drop=drops.max() + 1)
    assert (same.occlusion, same.ranked_by, same.top_segments(1)[0].drop) == (None, "deviation", None)
    assert "Replacing a single sensor" in same.summary()
    assert "Replacing a single sensor" not in one.summary()


def test_integrated_gradients_sum_to_the_difference_in_logits(tiny: Diagnoser) -> None:
    pytest.importorskip("captum", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    episode = tiny_episodes()[-1]
    found = integrated_gradients(tiny, episode, tiny.reference_, n_steps=200)
    cells = Counterfactual.of(tiny, episode, tiny.reference_)
    whole, normal = cells.logits(np.stack([np.zeros(cells.shape, dtype=bool), np.ones(cells.shape, dtype=bool)]))
    assert found.shape == cells.shape
    assert whole == pytest.approx(tiny.decision_function(episode)[0], abs=1e-5)
    assert found.sum() == pytest.approx(whole - normal, abs=1e-3)


def test_without_captum_the_remedy_is_named(tiny: Diagnoser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        integrated_gradients(tiny, tiny_episodes()[-1], tiny.reference_)


# ---- deletion and insertion -----------------------------------------------------------------------------------------


def test_curve_metrics_worked_by_hand() -> None:
    curves = RankingCurves(
        percentages=np.array([0.0, 50.0, 100.0]),
        deletion=np.array([0.8, 0.2, 0.0]),
        insertion=np.array([0.0, 0.6, 0.8]),
        random_deletion=np.array([[0.8, 0.6, 0.0], [0.8, 0.4, 0.0]]),
        random_insertion=np.array([[0.0, 0.2, 0.8], [0.0, 0.4, 0.8]]),
    )
    assert curves.metrics() == pytest.approx(
        {"comprehensiveness": 0.6, "sufficiency": 0.2, "deletion_area": 0.3, "insertion_area": 0.5}
    )
    assert curves.random_metrics() == pytest.approx(
        {"comprehensiveness": 0.3, "sufficiency": 0.5, "deletion_area": 0.45, "insertion_area": 0.35}
    )
    assert curves.to_dict()["random_deletion"] == pytest.approx([0.8, 0.5, 0.0])
    assert curves.to_dict()["deletion"] == [0.8, 0.2, 0.0]


def test_the_first_cells_are_those_of_the_highest_scores() -> None:
    first = first_cells(places_of(np.array([[1.0, 4.0], [3.0, 2.0]])), np.array([0.0, 1.0, 50.0, 100.0]))
    # none, at least one, half, all
    assert first.astype(int).tolist() == [[[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 1], [1, 0]], [[1, 1], [1, 1]]]


def test_a_curve_is_the_probability_with_the_first_cells_made_normal(detector: Diagnoser, planted: Episodes) -> None:
    episode, ranking = planted[-1], np.random.default_rng(3).random((6, 4))
    curves = ranking_curves(detector, episode, ranking, detector.reference_, [25], draws=2)
    assert curves.percentages.tolist() == [0, 25, 100]
    first = ranking >= np.sort(ranking, axis=None)[-6]
    for curve, replaced in ((curves.deletion, first), (curves.insertion, ~first)):
        _, logit = logit_with_normal(detector, episode, replaced)
        assert curve[1] == pytest.approx(detector.probability(logit), abs=1e-5)
    whole = detector.probability(next(detector.diagnose(episode)).network_logit)
    assert (curves.deletion[0], curves.insertion[-1]) == pytest.approx((whole, whole), abs=1e-5)
    np.testing.assert_allclose(curves.random_deletion[:, -1], curves.insertion[0], atol=1e-6)


def test_no_variant_is_computed_twice(detector: Diagnoser, planted: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    logits = Counterfactual.logits

    def counted(self: Counterfactual, replaced: Mask) -> np.ndarray:
        tried.extend(mask.tobytes() for mask in replaced)
        return logits(self, replaced)

    monkeypatch.setattr(Counterfactual, "logits", counted)
    ranking = np.arange(24.0).reshape(6, 4)
    curves = ranking_curves(detector, planted[:1], ranking, detector.reference_, [10.0, 50.0], draws=3)
    assert len(set(tried)) == len(tried) <= 2 + 2 * 4 * 2  # none and all; two steps of four orders in two directions
    np.testing.assert_array_equal(curves.random_deletion[:, 0], curves.deletion[0])
    np.testing.assert_array_equal(curves.random_insertion[:, -1], curves.deletion[0])


def test_what_a_diagnosis_shows_matters_more_than_random_cells(
    detector: Diagnoser, planted: Episodes, diagnoses: list[Diagnosis]
) -> None:
    found = [
        ranking_curves(detector, planted[row], diagnosis.ranking, detector.reference_)
        for row, diagnosis in enumerate(diagnoses)
        if diagnosis.is_anomaly and planted.require_labels()[row]
    ]
    for name, sign in {"comprehensiveness": 1, "sufficiency": -1, "deletion_area": -1, "insertion_area": 1}.items():
        shown, random = np.mean([(one.metrics()[name], one.random_metrics()[name]) for one in found], axis=0)
        assert sign * shown > sign * random


def test_impossible_requests_are_refused(detector: Diagnoser, planted: Episodes) -> None:
    with pytest.raises(DfstransError, match="between 0 and 100"):
        ranking_curves(detector, planted[-1], np.zeros((6, 4)), detector.reference_, [100])
    with pytest.raises(DfstransError, match=r"\(6, 4\) \(segment, sensor\)"):
        ranking_curves(detector, planted[-1], np.zeros((5, 4)), detector.reference_)
