"""A detector that is not shown to be better than guessing says so, wherever its results are seen."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.cli.options import warn_of_guessing
from dfstrans.detectors.card import model_card
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.report.index import write_index
from dfstrans.training.evaluation import ChanceCheck, check_against_chance, rank_sum_chance
from tests.report.drawn import made_diagnosis
from tests.tiny import TINY

GUESS = ChanceCheck(
    False,
    "this detector is not shown to be better than guessing on its validation part; try it on more labelled episodes "
    "before you act on it",
    "why",
)


def figures(roc_auc: float | None, anomalous: int = 15, episodes: int = 100) -> dict[str, Any]:
    return {"roc_auc": roc_auc, "anomalous": anomalous, "episodes": episodes}


def test_the_chance_is_that_of_all_orders_counted_one_by_one() -> None:
    anomalous, normal = 5, 7
    places = range(anomalous + normal)
    orders = [set(chosen) for chosen in itertools.combinations(places, anomalous)]
    aucs = np.array([sum(a > n for a in o for n in set(places) - o) for o in orders]) / (anomalous * normal)
    for reached in (0.6, 0.8, 1.0):
        exact = float((aucs >= reached - 1e-9).mean())
        assert rank_sum_chance(reached, anomalous, normal) == pytest.approx(exact, abs=0.02)


def test_every_held_out_part_has_to_be_better_than_guessing() -> None:
    good, bad = figures(0.8), figures(0.55)
    assert check_against_chance({"validation": good, "test": good}).better_than_guessing is True
    assert check_against_chance({"validation": bad, "test": good}).note == GUESS.note
    flattered = check_against_chance({"validation": good, "test": bad})
    assert flattered.better_than_guessing is False
    assert "on its test part" in flattered.note
    assert "test: ROC-AUC 0.55, p = 0.27" in flattered.why


@pytest.mark.parametrize(
    "metrics", [{}, {"validation": figures(None)}, {"validation": figures(1.0, 1, 10), "test": {}}]
)
def test_parts_that_are_too_small_tell_nothing(metrics: dict[str, Any]) -> None:
    assert check_against_chance(metrics).better_than_guessing is None


def test_a_small_test_part_does_not_spoil_a_good_validation_part() -> None:
    assert check_against_chance({"validation": figures(0.9), "test": figures(0.5, 1, 4)}).better_than_guessing is True


def test_a_detector_with_the_figures_of_a_coin_says_so_in_its_card_and_its_diagnoses(tmp_path: Path) -> None:
    values, labels = np.random.default_rng(0).normal(size=(60, 2, 32)), np.arange(60) % 2
    detector = Diagnoser(**{**TINY, "epochs": 1}).fit(Episodes.from_arrays(values, labels))
    # set, not learned: even on noise, a few validation episodes may by luck look better than guessing
    detector.metrics_["validation"] |= figures(0.5, 10, 20)
    detector.save(tmp_path / "model")
    assert (
        "**This detector is not shown to be better than guessing" in (tmp_path / "model" / "MODEL_CARD.md").read_text()
    )
    (diagnosis,) = Diagnoser.load(tmp_path / "model").diagnose(values[:1])
    assert diagnosis.only_a_guess
    assert diagnosis.to_dict()["detector"]["better_than_guessing"] is False
    assert "But this detector is not shown to be better than guessing on its validation part" in diagnosis.summary()


def test_pages_and_index_carry_a_banner_only_where_it_is_a_guess(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for standing_, there in ((GUESS, True), (ChanceCheck(True, "better"), False), (None, False)):
        one = replace(diagnosis, chance_check=standing_)
        pages = write_diagnosis(tmp_path / "a.html", one, recording), write_index(tmp_path / "i.html", [one.to_dict()])
        assert [("This detector is not shown to be better than guessing" in page.read_text()) for page in pages] == [
            there
        ] * 2


def test_the_command_line_speaks_only_where_there_is_doubt(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_guessing(ChanceCheck(True, "better"))
    assert capsys.readouterr().err == ""
    warn_of_guessing(GUESS)
    assert capsys.readouterr().err.startswith("warning: this detector is not shown to be better than guessing")


def test_the_card_of_a_good_detector_is_not_in_bold(tmp_path: Path) -> None:
    assert "\nThis detector is better than guessing (rank-sum test; validation: ROC-AUC 0.80" in _card(figures(0.8))
    assert "\n**Too few validation and test episodes" in _card(figures(None))


def _card(validation: dict[str, Any]) -> str:
    data = {"shortest": 1, "longest": 2, "interval": None, "train_episodes": 1, "train_anomalous": 1}
    data |= {"validation_episodes": 1, "validation_anomalous": 1}
    return model_card(
        {
            "data": data,
            "network": {},
            "threshold": {"value": 0.5, "rule": "f1", "note": ""},
            "calibration": {"note": ""},
            "sensors": [],
            "units": [],
            "estimator": "dfstrans",
            "created": "",
            "versions": {"dfstrans": ""},
            "metrics": {"validation": validation},
            "training": {"seed": 0},
            "best_epoch": 1,
            "parameters": 1,
        }
    )
