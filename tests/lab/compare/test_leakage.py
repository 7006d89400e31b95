from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.readers.cutting import cut
from dfstrans.data.splits import three_way_split
from dfstrans.lab.compare.leakage import LeakageCheck
from dfstrans.lab.injection.injecting import injected_id


def pieces(ids: list[str], labels: list[int], groups: list[str] | None = None) -> Episodes:
    values = np.random.default_rng(0).normal(size=(len(ids), 2, 10))
    return Episodes.from_arrays(values, labels, ids=ids, groups=groups)


TRAIN = pieces(["a@0", "a@10", "a@50", "a@70", "b@0", "b@10", "c", "d"], [0, 0, 1, 1, 1, 1, 0, 1], list("xxxxyyzz"))


def shares(ids: list[str], groups: list[str]) -> list[float]:
    detector = LeakageCheck().fit(TRAIN, validation=TRAIN)
    return (1 / (1 + np.exp(-detector.decision_function(pieces(ids, [0] * len(ids), groups))))).round(3).tolist()


def test_label_is_interpolated_between_neighbouring_pieces() -> None:
    assert shares(["a@20", "a@30", "a@40", "a@5"], list("xxxx")) == [0.25, 0.5, 0.75, 0.01]


def test_piece_at_an_end_has_the_label_of_the_nearest() -> None:
    assert shares(["a@60", "a@90", "b@70"], list("xxy")) == [0.99, 0.99, 0.99]


def test_unknown_recording_gets_the_share_of_its_group_or_of_all() -> None:
    assert shares(["e@0", "e", "f@0"], list("xzu")) == [0.5, 0.5, 0.625]


def test_whole_episode_gets_the_anomaly_share_of_its_group() -> None:
    assert shares(["c", "d"], list("zz")) == [0.5, 0.5]


def test_leakage_check_ignores_values() -> None:
    detector = LeakageCheck().fit(TRAIN, validation=TRAIN)
    other = Episodes.from_arrays(np.asarray(TRAIN.values) * -3, ids=TRAIN.ids, groups=TRAIN.groups)
    np.testing.assert_array_equal(detector.decision_function(other), detector.decision_function(TRAIN))


def test_overlapping_pieces_of_noise_leak_and_grouped_splits_do_not() -> None:
    rng = np.random.default_rng(0)
    points = [np.repeat(rng.random(20) < 0.3, 200) for _ in range(10)]  # anomalies of 200 points, by lot
    recordings = Episodes.from_arrays(rng.normal(size=(10, 2, 4000)), ids=[f"m{i}" for i in range(10)])
    episodes = cut(recordings, 100, 20, points)
    for groups, least, most in ((None, 0.9, 1.0), (episodes.groups, 0.0, 0.55)):
        train, validation, test = (episodes[rows] for rows in three_way_split(episodes.require_labels(), groups))
        f1 = LeakageCheck().fit(train, validation=validation).evaluate(test).f1
        assert f1 is not None
        assert least <= f1 <= most


@pytest.mark.parametrize(
    "name",
    ["a@", "@5", "a@b", "a@-5", "a@²", "a@05", "a@+5", "a@20+gain@3", f"a@{10**30}", injected_id("a@20", "stuck", 10)],
)
def test_id_that_only_resembles_that_of_a_piece_is_ignored(name: str) -> None:
    assert shares([name], ["u"]) == [0.625]
