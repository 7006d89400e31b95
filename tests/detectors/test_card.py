"""A detector that is not shown to be better than guessing says so, wherever its results are seen."""

from __future__ import annotations

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
from dfstrans.training.evaluation import ChanceCheck
from tests.report.drawn import made_diagnosis
from tests.tiny import TINY


def figures(roc_auc: float | None, anomalous: int = 15, episodes: int = 100) -> dict[str, Any]:
    return {"roc_auc": roc_auc, "anomalous": anomalous, "episodes": episodes}


GUESS = ChanceCheck(
    False,
    "this detector is not shown to be better than guessing on its validation part; try it on more labelled episodes "
    "before you act on it",
    "why",
)


def test_card_and_diagnoses_warn_of_a_detector_no_better_than_guessing(tmp_path: Path) -> None:
    values, labels = np.random.default_rng(0).normal(size=(60, 2, 32)), np.arange(60) % 2
    detector = Diagnoser.from_settings(**{**TINY, "epochs": 1}).fit(Episodes.from_arrays(values, labels))
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


def test_pages_and_index_have_a_banner_only_if_the_detector_is_guessing(tmp_path: Path) -> None:
    diagnosis, recording = made_diagnosis()
    for standing_, there in ((GUESS, True), (ChanceCheck(True, "better"), False), (None, False)):
        one = replace(diagnosis, chance_check=standing_)
        pages = write_diagnosis(tmp_path / "a.html", one, recording), write_index(tmp_path / "i.html", [one.to_dict()])
        assert [("This detector is not shown to be better than guessing" in page.read_text()) for page in pages] == [
            there
        ] * 2


def test_the_command_line_warns_only_of_a_detector_that_may_be_guessing(capsys: pytest.CaptureFixture[str]) -> None:
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
