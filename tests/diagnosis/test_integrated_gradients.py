from __future__ import annotations

import sys

import numpy as np
import pytest

from dfstrans import Diagnoser
from dfstrans.diagnosis.counterfactual import Counterfactual, integrated_gradients
from dfstrans.errors import DfstransError
from tests.tiny import TINY, tiny_episodes


@pytest.fixture(scope="module")
def detector() -> Diagnoser:
    return Diagnoser(**TINY).fit(tiny_episodes())


def test_they_add_up_to_the_logit_beyond_that_of_a_normal_episode(
    detector: Diagnoser, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("captum", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    monkeypatch.setattr("dfstrans.diagnosis.counterfactual.STEPS", 200)  # its kinks are met by chance with few
    episode = tiny_episodes()[-1]
    found = integrated_gradients(detector, episode, detector.reference_)
    cells = Counterfactual.of(detector, episode, detector.reference_)
    whole, normal = cells.logits(np.stack([np.zeros(cells.shape, dtype=bool), np.ones(cells.shape, dtype=bool)]))
    assert found.shape == cells.shape
    assert whole == pytest.approx(detector.decision_function(episode)[0], abs=1e-5)
    assert found.sum() == pytest.approx(whole - normal, abs=1e-3)


def test_without_captum_the_remedy_is_named(detector: Diagnoser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        integrated_gradients(detector, tiny_episodes()[-1], detector.reference_)
