from __future__ import annotations

import numpy as np

from dfstrans import Diagnoser
from dfstrans.diagnosis.causes import Resemblance, resembling
from tests.tiny import TINY, tiny_episodes

KNOWN = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [-1.0, 0.0]])
KINDS = ["bump", "bump", "rust", "rust", "drift"]


def test_the_kinds_of_the_nearest_cases_are_counted() -> None:
    near_bump, near_rust = resembling(np.array([[5.0, 0.2], [0.1, 3.0]]), KNOWN, KINDS, neighbours=3)
    assert near_bump == (Resemblance("bump", 2, 3), Resemblance("rust", 1, 3))
    assert near_rust == (Resemblance("rust", 2, 3), Resemblance("bump", 1, 3))


def test_among_equally_frequent_kinds_the_nearest_comes_first() -> None:
    ((first, second),) = resembling(np.array([[0.6, 0.5]]), KNOWN[[0, 2]], ["bump", "rust"])
    assert (first.kind, second.kind) == ("bump", "rust")


def test_there_may_be_fewer_cases_than_neighbours_and_features_of_zero() -> None:
    assert resembling(np.zeros((1, 2)), KNOWN[:1], ["bump"]) == [(Resemblance("bump", 1, 1),)]


def test_a_known_case_resembles_its_own_kind_first_and_batches_do_not_matter() -> None:
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    anomalous = episodes[episodes.require_labels() == 1]
    together = list(detector.diagnose(anomalous, known=anomalous))
    (alone,) = detector.diagnose(anomalous[3], known=anomalous)
    assert alone.resembles == together[3].resembles
    assert sum(found.cases for found in alone.resembles) == 5
    assert {found.kind for found in alone.resembles} <= set(anomalous.fault_kinds())
    assert "resembles" in alone.summary() or not alone.is_anomaly


def test_without_known_kinds_nothing_is_said_to_be_resembled() -> None:
    episodes = tiny_episodes()
    detector = Diagnoser(**TINY).fit(episodes)
    (found,) = detector.diagnose(episodes[0])
    assert (found.resembles, found.likely_cause) == ((), None)
