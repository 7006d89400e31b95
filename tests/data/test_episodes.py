"""Episodes: what is accepted, what is refused, and that selections and concatenations keep everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError

VALUES = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
SMALL = Episodes.from_arrays(
    VALUES,
    [0, 1, 0],
    ids=["x", "y", "z"],
    sensors=["a", "b"],
    units=["m", ""],
    interval=0.5,
    time_unit="s",
    groups=["g", "g", "h"],
    faults=[[], [Fault(1, 3, ("b",), "wear")], []],
)


def test_recordings_of_different_lengths_are_padded_with_nan() -> None:
    episodes = Episodes.from_arrays([np.ones((2, 3)), np.ones((2, 1))])
    assert episodes.shape == (2, 2, 3)
    assert episodes.lengths.tolist() == [3, 1]
    assert np.isnan(np.asarray(episodes.values)[1, :, 1:]).all()
    assert [one.values.shape for one in episodes] == [(2, 3), (2, 1)]


def test_nan_at_the_end_of_an_array_is_missing_unless_lengths_are_given() -> None:
    values = np.ones((2, 2, 10), dtype=np.float32)
    values[1, :, 6:] = np.nan
    assert Episodes.from_arrays(values).lengths.tolist() == [10, 10]
    assert Episodes.from_arrays(values, lengths=[10, 6]).lengths.tolist() == [10, 6]


def test_repr_summarizes_the_contents() -> None:
    assert repr(SMALL).splitlines()[0] == "Episodes: 3 (1 anomalous, 2 normal) × 2 sensors × 4 points"
    for part in ("a [m], b", "interval  0.5 s", "groups    2", "faults    1 with known location", "in memory"):
        assert part in repr(SMALL)
    assert "(unlabelled)" in repr(Episodes.from_arrays(VALUES))


def test_a_selection_keeps_everything() -> None:
    part = SMALL[[2, 1]]
    assert part.ids.tolist() == ["z", "y"]
    assert part.require_labels().tolist() == [0, 1]
    assert part.require_groups().tolist() == ["h", "g"]
    assert part.faults == ((), (Fault(1, 3, ("b",), "wear"),))
    assert_array_equal(part.values, VALUES[[2, 1]])
    assert SMALL[1].ids.tolist() == ["y"]
    assert SMALL[np.array([True, False, False])].ids.tolist() == ["x"]
    assert SMALL[1:, ...].ids.tolist() == ["y", "z"]
    with pytest.raises(DfstransError, match="use select_sensors"):
        SMALL[0, 1]


def test_sensors_are_selected_by_name_in_the_given_order() -> None:
    part = SMALL.select_sensors(["b", "a"])
    assert part.units == ("", "m")
    assert_array_equal(part.values, VALUES[:, ::-1])
    with pytest.raises(DfstransError, match="among a, b, got c"):
        SMALL.select_sensors(["c"])


@pytest.mark.parametrize("stored", [False, True])
def test_concatenated_parts_equal_the_whole(tmp_path: Path, stored: bool) -> None:
    source = load_episodes(save_episodes(SMALL, tmp_path / "set.h5")) if stored else SMALL
    again = Episodes.concatenate([source[:1], source[1:].select_sensors(["b", "a"])])
    assert again.fingerprint() == SMALL.fingerprint()
    assert again.is_stored == stored
    assert again.faults == SMALL.faults
    assert (again.interval, again.time_unit) == (0.5, "s")


def test_concatenation_pads_to_the_longest_and_refuses_repeated_ids() -> None:
    short, long = (Episodes.from_arrays(np.ones((1, 1, n)), ids=[f"{n}"]) for n in (2, 5))
    both = Episodes.concatenate([short, long])
    assert both.lengths.tolist() == [2, 5]
    assert both.n_timepoints == 5
    with pytest.raises(DfstransError, match="repeated ones: x, y, z"):
        Episodes.concatenate([SMALL, SMALL])
    with pytest.raises(DfstransError, match="at least one part"):
        Episodes.concatenate([])


@given(st.integers(1, 20), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_batches_are_the_episodes_in_order(n: int, size: int) -> None:
    episodes = Episodes.from_arrays(np.arange(n, dtype=np.float32).reshape(n, 1, 1))
    batches = list(episodes.batches(size))
    assert all(len(batch) <= size for batch in batches)
    assert Episodes.concatenate(batches).fingerprint() == episodes.fingerprint()


def test_values_labels_and_names_change_the_fingerprint_but_padding_does_not() -> None:
    changed = VALUES.copy()
    changed[1, :, 2:] = np.nan
    known: dict[str, Any] = {"labels": [0, 1, 0], "lengths": [4, 2, 4]}
    one = Episodes.from_arrays(VALUES, **known)
    assert one.fingerprint().startswith("9533620574b6")  # saved results depend on it
    assert one.fingerprint() == Episodes.from_arrays(changed, **known).fingerprint()
    changed[1, 0, 0] = 9
    others = [
        Episodes.from_arrays(changed, **known),
        one.with_labels([1, 1, 0]),
        Episodes.from_arrays(VALUES, sensors=["a", "b"], **known),
    ]
    assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 4


def test_copies_are_found_and_dropped() -> None:
    values = np.random.default_rng(0).normal(size=(5, 2, 4))
    values[3], values[2], values[4] = values[1], 0, 0  # nothing moves in the last two: equal by chance
    episodes = Episodes.from_arrays(values, [0, 0, 1, 1, 1], ids=["a", "b", "c", "d", "e"])
    assert episodes.copies().tolist() == [0, 1, 2, 1, 4]
    with pytest.warns(UserWarning, match=r"1 of 5 episodes .* and another label: d; check which is right"):
        episodes.warn_of_copies()
    with pytest.warns(UserWarning, match=r"1 episode with the same values as others, but another label: d"):
        assert episodes.without_copies().ids.tolist() == ["a", "b", "c", "e"]


def test_fault_cells_are_the_segments_and_sensors_that_a_fault_touches() -> None:
    episodes = Episodes.from_arrays(
        np.zeros((1, 2, 10)), sensors=["a", "b"], faults=[[Fault(3, 7, ("b",)), Fault(0, 1)]]
    )
    assert_array_equal(episodes.fault_cells(0, 3), [[0, 0], [0, 1], [0, 1], [0, 0]])


@pytest.mark.parametrize("labels", [[0, 1, 1], [False, True, True], [0.0, 1.0, 1.0], ["0", "1", "1"]])
def test_labels_of_any_type_become_0_and_1(labels: Any) -> None:
    assert Episodes.from_arrays(VALUES, labels).require_labels().tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labels": [0, 1]}, "expected 3 labels, got 2"),
        ({"labels": [[0, 1, 0]]}, "expected 3 labels, got an array with 2 axes"),
        ({"labels": [0, 1, 2]}, r"got 2; .*normal \(normal_value=…\)"),
        ({"labels": [0, 1, np.nan]}, "got nan"),
        ({"labels": ["ok", "bad", "ok"]}, "got bad, ok"),
        ({"ids": ["x", "y", "x"]}, "episode ids, got repeated ones: x"),
        ({"sensors": ["a"]}, "expected 2 sensor names, got 1"),
        ({"sensors": ["a", "a"]}, "sensor names, got repeated ones: a"),
        ({"units": ["m"]}, "expected 2 units"),
        ({"groups": ["m"]}, "expected 3 groups"),
        ({"faults": [[]]}, "expected 3 lists of faults"),
        ({"lengths": [4, 0, 4]}, "remove empty episodes"),
        ({"lengths": [4, 5, 4]}, "between 1 and 4"),
        ({"interval": 0}, "interval above 0"),
        ({"values": VALUES[0]}, "a single episode is"),
        ({"values": np.zeros((3, 0, 4))}, "at least one sensor"),
        ({"values": [np.zeros((2, 3)), np.zeros((3, 2))]}, "is an array transposed"),
        ({"values": [[["a"]]]}, "convert text to numbers"),
        ({"values": VALUES * 1j}, "magnitude and phase"),
    ],
)
def test_bad_arrays_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        Episodes.from_arrays(**{"values": VALUES, **arguments})


def test_a_split_without_labels_or_groups_is_refused() -> None:
    bare = Episodes.from_arrays(VALUES)
    with pytest.raises(DfstransError, match="add a label column"):
        bare.split()
    with pytest.raises(DfstransError, match="name the column with the group"):
        bare.with_labels([0, 1, 0]).split(by_group=True)
