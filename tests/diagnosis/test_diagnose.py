from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.diagnose import KnownCases, resembling
from dfstrans.diagnosis.schema import Resemblance
from tests.tiny import TINY, tiny_episodes

KNOWN = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [-1.0, 0.0]])
KINDS = ["bump", "bump", "rust", "rust", "drift"]


@pytest.mark.parametrize(
    ("features", "n_known", "n_nearest", "expected"),
    [
        ([5.0, 0.2], 5, 3, [("bump", 2, 3), ("rust", 1, 3)]),
        ([0.1, 3.0], 5, 3, [("rust", 2, 3), ("bump", 1, 3)]),
        ([0.6, 0.5], 3, 5, [("bump", 2, 3), ("rust", 1, 3)]),  # fewer cases than asked for
        ([0.6, 0.5], 4, 4, [("bump", 2, 4), ("rust", 2, 4)]),  # equally frequent: the nearest first
        ([0.0, 0.0], 1, 5, [("bump", 1, 1)]),
    ],
)
def test_the_kinds_of_the_nearest_cases_are_counted(
    features: list[float], n_known: int, n_nearest: int, expected: list[tuple[str, int, int]]
) -> None:
    found = resembling(np.array(features), KNOWN[:n_known], KINDS[:n_known], n_nearest)
    assert found == tuple(Resemblance(*one) for one in expected)


def test_known_case_does_not_resemble_itself() -> None:
    cases = KnownCases(("1", "2", "3"), ("bump", "rust", "rust"), KNOWN[:3].astype(np.float32))
    assert cases.resembled_by("1", KNOWN[0]) == (Resemblance("rust", 2, 2),)
    assert cases.resembled_by("another", KNOWN[0]) == (Resemblance("bump", 1, 1),)  # not outvoted by the two others
    assert KnownCases(("1",), ("bump",), cases.features[:1]).resembled_by("1", KNOWN[0]) == ()


def test_a_model_keeps_the_known_anomalies_of_training(tmp_path: Path) -> None:
    episodes = of_kinds("bump", "rust")
    detector = Diagnoser.from_settings(**TINY).fit(episodes)
    anomalous = episodes[episodes.require_labels() == 1]
    together = list(detector.diagnose(anomalous))
    detector.save(tmp_path / "model")
    (alone,) = Diagnoser.load(tmp_path / "model").diagnose(anomalous[3])
    assert alone.resembles == together[3].resembles
    assert sum(found.cases for found in alone.resembles) in (3, 5)
    assert {found.kind for found in alone.resembles} <= {"bump", "rust"}
    assert "resembles" in replace(alone, threshold=0.0).summary()
    assert "bump (" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_other_known_anomalies_need_two_kinds(tiny: Diagnoser) -> None:
    one = tiny_episodes()[-1]
    for kinds, expected in (((), {None}), (("bump",), {None}), (("bump", "rust"), {"bump", "rust"})):
        known = of_kinds(*kinds or ("",))
        (found,) = tiny.diagnose(one, known=known[known.require_labels() == 1])
        assert found.likely_cause in expected


def of_kinds(*kinds: str) -> Episodes:
    """Anomalies whose faults are of these kinds, in turn."""
    episodes = tiny_episodes()
    faults = [
        tuple(fault._replace(kind=kinds[row % len(kinds)]) for fault in known)
        for row, known in enumerate(episodes.faults or ())
    ]
    return replace(episodes, faults=tuple(faults))
