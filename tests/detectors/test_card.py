"""A detector that is not shown to be better than guessing says so, wherever its results are seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dfstrans import Diagnoser
from dfstrans.cli.options import warn_of_guessing
from dfstrans.detectors.card import model_card
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.report.index import write_index
from dfstrans.training.evaluation import ChanceCheck
from tests.report.drawn import made_diagnosis
from tests.tiny import tiny_episodes


def figures(roc_auc: float | None, anomalous: int = 15, episodes: int = 100) -> dict[str, Any]:
    return {"roc_auc": roc_auc, "anomalous": anomalous, "episodes": episodes}


GUESS = ChanceCheck(
    False,
    "this detector is not shown to be better than guessing on its validation part; try it on more labelled episodes "
    "before you act on it",
    "why",
)


def test_card_and_diagnoses_warn_of_a_detector_no_better_than_guessing(tiny_model: Path, tmp_path: Path) -> None:
    detector = Diagnoser.load(tiny_model)
    detector.metrics_["validation"] |= figures(0.5, 10, 20)
    detector.log_ = [{"loss": 9.0}]
    detector.save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "**This detector is not shown to be better than guessing" in card
    assert "**The network has learned little: its training loss ended at" in card
    (diagnosis,) = Diagnoser.load(tmp_path / "model").diagnose(tiny_episodes()[:1])
    assert diagnosis.only_a_guess
    assert diagnosis.doubts == ["the network has learned little"]
    assert "The network has learned little" in diagnosis.summary()
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


def test_the_card_of_a_good_detector_is_not_in_bold(tiny_model: Path) -> None:
    record = json.loads((tiny_model / "model.json").read_text())
    good, unknown = (model_card({**record, "metrics": {"validation": figures(auc)}}) for auc in (0.8, None))
    assert "\nThis detector is better than guessing (rank-sum test; validation: ROC-AUC 0.80" in good
    assert "\n**Too few validation and test episodes" in unknown
