from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.known_faults import KnownCases, Resemblance, resembling
from tests.tiny import TINY, tiny_episodes

KNOWN = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [-1.0, 0.0]])
KINDS = ["bump", "bump", "rust", "rust", "drift"]


def test_the_kinds_of_the_nearest_cases_are_counted() -> None:
    near_bump, near_rust = (resembling(np.array(one), KNOWN, KINDS, neighbours=3) for one in ([5.0, 0.2], [0.1, 3.0]))
    assert near_bump == (Resemblance("bump", 2, 3), Resemblance("rust", 1, 3))
    assert near_rust == (Resemblance("rust", 2, 3), Resemblance("bump", 1, 3))


def test_among_equally_frequent_kinds_the_nearest_comes_first() -> None:
    first, second = resembling(np.array([0.6, 0.5]), KNOWN[[0, 2]], ["bump", "rust"])
    assert (first.kind, second.kind) == ("bump", "rust")


def test_there_may_be_fewer_cases_than_neighbours_and_features_of_zero() -> None:
    assert resembling(np.zeros(2), KNOWN[:1], ["bump"]) == (Resemblance("bump", 1, 1),)


def test_a_case_does_not_count_for_itself() -> None:
    cases = KnownCases(("1", "2", "3"), ("bump", "rust", "rust"), KNOWN[:3].astype(np.float32))
    assert cases.resembled_by("1", KNOWN[0]) == (Resemblance("rust", 2, 2),)
    assert cases.resembled_by("another", KNOWN[0]) == (Resemblance("bump", 1, 1),)  # not outvoted by the two others
    assert KnownCases(("1",), ("bump",), cases.features[:1]).resembled_by("1", KNOWN[0]) == ()


def test_a_model_keeps_the_known_anomalies_of_training_and_tells_which_an_episode_resembles(tmp_path: Path) -> None:
    episodes = of_kinds("bump", "rust")
    detector = Diagnoser(**TINY).fit(episodes)
    anomalous = episodes[episodes.require_labels() == 1]
    together = list(detector.diagnose(anomalous))
    detector.save(tmp_path / "model")
    (alone,) = Diagnoser.load(tmp_path / "model").diagnose(anomalous[3])
    assert alone.resembles == together[3].resembles
    assert sum(found.cases for found in alone.resembles) in (3, 5)
    assert {found.kind for found in alone.resembles} <= {"bump", "rust"}
    assert "resembles" in alone.summary() or not alone.is_anomaly
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "which of these known faults" in card
    assert "bump (" in card


def test_other_known_anomalies_may_be_given_instead() -> None:
    episodes = of_kinds("bump", "rust")
    detector = Diagnoser(**TINY).fit(of_kinds(""))
    anomalous = episodes[episodes.require_labels() == 1]
    (without,) = detector.diagnose(anomalous[0])
    (found,) = detector.diagnose(anomalous[0], known=anomalous)
    assert without.resembles == ()
    assert {case.kind for case in found.resembles} <= {"bump", "rust"}
    assert found.likely_cause in {"bump", "rust"}


def test_one_kind_alone_tells_nothing() -> None:
    episodes = of_kinds("bump")
    detector = Diagnoser(**TINY).fit(episodes)
    (found,) = detector.diagnose(episodes[0])
    assert (found.resembles, found.likely_cause) == ((), None)


def of_kinds(*kinds: str) -> Episodes:
    """Anomalies whose faults are of these kinds, in turn."""
    episodes = tiny_episodes()
    faults = [
        tuple(fault._replace(kind=kinds[row % len(kinds)]) for fault in known)
        for row, known in enumerate(episodes.faults or ())
    ]
    return replace(episodes, faults=tuple(faults))
