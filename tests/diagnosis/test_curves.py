from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dfstrans import Diagnoser, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.diagnosis.counterfactual import (
    Counterfactual,
    Mask,
    RankingCurves,
    first_cells,
    places_of,
    ranking_curves,
)
from dfstrans.errors import DfstransError


@pytest.fixture(scope="module")
def planted() -> Episodes:
    return planted_episodes(n_normal=60, n_anomalous=20, n_sensors=4, n_timepoints=96, seed=1)


@pytest.fixture(scope="module")
def detector(planted: Episodes) -> Diagnoser:
    settings = {"segment_length": 16, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 16, "batch_size": 8}
    return Diagnoser.from_settings(**settings, epochs=12, learning_rate=5e-3).fit(planted)


def test_the_figures_of_a_curve_worked_out_by_hand() -> None:
    curves = RankingCurves(
        percentages=np.array([0.0, 50.0, 100.0]),
        deletion=np.array([0.8, 0.2, 0.0]),
        insertion=np.array([0.0, 0.6, 0.8]),
        random_deletion=np.array([[0.8, 0.6, 0.0], [0.8, 0.4, 0.0]]),
        random_insertion=np.array([[0.0, 0.2, 0.8], [0.0, 0.4, 0.8]]),
    )
    assert curves.figures() == pytest.approx(
        {"comprehensiveness": 0.6, "sufficiency": 0.2, "deletion_area": 0.3, "insertion_area": 0.5}
    )
    assert curves.random_figures() == pytest.approx(
        {"comprehensiveness": 0.3, "sufficiency": 0.5, "deletion_area": 0.45, "insertion_area": 0.35}
    )
    assert curves.to_dict()["random_deletion"] == pytest.approx([0.8, 0.5, 0.0])


def test_the_first_cells_are_those_of_the_highest_scores() -> None:
    places = places_of(np.array([[1.0, 4.0], [3.0, 2.0]]))
    first = first_cells(places, np.array([0.0, 1.0, 50.0, 100.0]))
    assert first.tolist() == [
        [[False, False], [False, False]],
        [[False, True], [False, False]],  # one at least
        [[False, True], [True, False]],
        [[True, True], [True, True]],
    ]


def test_a_curve_is_the_probability_with_the_first_cells_made_normal(detector: Diagnoser, planted: Episodes) -> None:
    episode = planted[-1]
    ranking = np.random.default_rng(3).random((6, 4))
    curves = ranking_curves(detector, episode, ranking, detector.reference_, [25], draws=2)
    assert curves.percentages.tolist() == [0, 25, 100]
    segments, valid, _ = next(iter(detector.batches(episode)))
    first = torch.as_tensor(ranking >= np.sort(ranking, axis=None)[-6])[..., None]
    with torch.inference_mode():
        x = detector.network_.embed(segments, valid)[0]
        normal = torch.as_tensor(detector.reference_.by_moment["embedding"].centre, dtype=x.dtype)
        for curve, variant in (
            (curves.deletion, torch.where(first, normal, x)),
            (curves.insertion, torch.where(first, x, normal)),
        ):
            logit = float(detector.network_.attend(variant[None]).logit)
            assert curve[1] == pytest.approx(detector.probability(logit), abs=1e-5)
    whole = detector.predict_proba(episode)[0, 1]
    assert curves.deletion[0] == pytest.approx(whole, abs=1e-5)
    assert curves.insertion[-1] == pytest.approx(whole, abs=1e-5)
    np.testing.assert_allclose(curves.random_deletion[:, -1], curves.insertion[0], atol=1e-6)


def test_no_variant_is_tried_twice(detector: Diagnoser, planted: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    logits = Counterfactual.logits

    def counted(self: Counterfactual, replaced: Mask) -> npt.NDArray[np.float64]:
        tried.extend(mask.tobytes() for mask in replaced)
        return logits(self, replaced)

    monkeypatch.setattr(Counterfactual, "logits", counted)
    reference = detector.reference_
    cells = Counterfactual.of(detector, planted[:1], reference).shape
    ranking = np.arange(np.prod(cells), dtype=np.float64).reshape(cells)
    curves = ranking_curves(detector, planted[:1], ranking, reference, [10.0, 50.0], draws=3)
    assert len(set(tried)) == len(tried)
    assert len(tried) <= 2 + 2 * 4 * 2  # nothing and all, and two steps of four orders in two directions
    np.testing.assert_array_equal(curves.random_deletion[:, 0], curves.deletion[0])
    np.testing.assert_array_equal(curves.random_insertion[:, -1], curves.deletion[0])


def test_what_a_diagnosis_shows_matters_more_than_random_cells(detector: Diagnoser, planted: Episodes) -> None:
    anomalous = planted[planted.require_labels() == 1]
    found = [
        ranking_curves(detector, anomalous[row], diagnosis.ranking, detector.reference_)
        for row, diagnosis in enumerate(detector.diagnose(anomalous))
        if diagnosis.is_anomaly
    ]
    shown, random = (
        {name: np.mean([one[name] for one in figures]) for name in figures[0]}
        for figures in ([one.figures() for one in found], [one.random_figures() for one in found])
    )
    assert shown["comprehensiveness"] > random["comprehensiveness"]
    assert shown["sufficiency"] < random["sufficiency"]
    assert shown["deletion_area"] < random["deletion_area"]
    assert shown["insertion_area"] > random["insertion_area"]


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ((6, 4), {"percentages": [0]}, "between 0 and 100"),
        ((6, 4), {"percentages": []}, "between 0 and 100"),
        ((6, 4), {"draws": 0}, "at least one draw"),
        ((5, 4), {}, r"\(6, 4\) \(segment, sensor\)"),
    ],
)
def test_impossible_requests_are_refused(
    detector: Diagnoser, planted: Episodes, shape: tuple[int, int], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DfstransError, match=message):
        ranking_curves(detector, planted[-1], np.zeros(shape), detector.reference_, **settings)  # type: ignore[arg-type]
