"""Episodes: what is taken, what is refused, and that parts and wholes agree."""

from __future__ import annotations

from pathlib import Path

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


def small() -> Episodes:
    return Episodes.from_arrays(
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


def test_a_list_of_recordings_of_any_lengths_is_padded_with_nan() -> None:
    episodes = Episodes.from_arrays([np.ones((2, 3)), np.ones((2, 1))])
    assert episodes.shape == (2, 2, 3)
    assert episodes.lengths.tolist() == [3, 1]
    assert np.isnan(np.asarray(episodes.values)[1, :, 1:]).all()
    assert [one.values.shape for one in episodes] == [(2, 3), (2, 1)]


def test_repr_says_what_is_here() -> None:
    text = repr(small())
    assert text.splitlines()[0] == "Episodes: 3 (1 anomalous, 2 normal) × 2 sensors × 4 points"
    for part in ("a [m], b", "interval  0.5 s", "groups    2", "faults    1 with known place", "in memory"):
        assert part in text
    assert "(unlabelled)" in repr(Episodes.from_arrays(VALUES))


def test_selection_takes_everything_along() -> None:
    part = small()[[2, 1]]
    assert part.ids.tolist() == ["z", "y"]
    assert part.labels is not None
    assert part.groups is not None
    assert part.labels.tolist() == [0, 1]
    assert part.groups.tolist() == ["h", "g"]
    assert part.faults == ((), (Fault(1, 3, ("b",), "wear"),))
    assert_array_equal(part.values, VALUES[[2, 1]])
    assert small()[1].ids.tolist() == ["y"]
    assert small()[np.array([True, False, False])].ids.tolist() == ["x"]
    assert small()[1:, ...].ids.tolist() == ["y", "z"]
    with pytest.raises(DfstransError, match="use select_sensors"):
        small()[0, 1]


def test_sensors_are_selected_by_name_in_the_order_asked_for() -> None:
    part = small().select_sensors(["b", "a"])
    assert part.units == ("", "m")
    assert_array_equal(part.values, VALUES[:, ::-1])
    with pytest.raises(DfstransError, match="among a, b, got c"):
        small().select_sensors(["c"])


def test_parts_put_together_are_the_whole_in_memory_and_in_files(tmp_path: Path) -> None:
    whole = small()
    stored = load_episodes(save_episodes(whole, tmp_path / "set.h5"))
    for source in (whole, stored):
        again = Episodes.concatenate([source[:1], source[1:].select_sensors(["b", "a"])])
        assert again.fingerprint() == whole.fingerprint()
        assert again.is_stored == source.is_stored
        assert again.faults == whole.faults
        assert (again.interval, again.time_unit) == (0.5, "s")
    with pytest.raises(DfstransError, match="repeated ids: x, y, z"):
        Episodes.concatenate([whole, whole])
    with pytest.raises(DfstransError, match="at least one part"):
        Episodes.concatenate([])


def test_concatenation_pads_to_the_longest() -> None:
    both = Episodes.concatenate(
        [Episodes.from_arrays(np.ones((1, 1, 2)), ids=["x"]), Episodes.from_arrays(np.ones((1, 1, 5)), ids=["y"])]
    )
    assert both.lengths.tolist() == [2, 5]
    assert both.n_timepoints == 5


@given(st.integers(1, 20), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_batches_are_the_episodes_in_order(n: int, size: int) -> None:
    episodes = Episodes.from_arrays(np.arange(n, dtype=np.float32).reshape(n, 1, 1))
    batches = list(episodes.batches(size))
    assert all(len(batch) <= size for batch in batches)
    assert Episodes.concatenate(batches).fingerprint() == episodes.fingerprint()


def test_padding_does_not_change_the_fingerprint_but_values_labels_and_names_do() -> None:
    one = Episodes.from_arrays(VALUES, [0, 1, 0], lengths=[4, 2, 4])
    changed = VALUES.copy()
    changed[1, :, 2:] = np.nan
    assert one.fingerprint() == Episodes.from_arrays(changed, [0, 1, 0], lengths=[4, 2, 4]).fingerprint()
    changed[1, 0, 0] = 9
    others = [
        Episodes.from_arrays(changed, [0, 1, 0], lengths=[4, 2, 4]),
        one.with_labels([1, 1, 0]),
        Episodes.from_arrays(VALUES, [0, 1, 0], lengths=[4, 2, 4], sensors=["a", "b"]),
    ]
    assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 4


def test_fault_cells_are_the_segments_and_sensors_that_a_fault_touches() -> None:
    episodes = Episodes.from_arrays(
        np.zeros((1, 2, 10)), sensors=["a", "b"], faults=[[Fault(3, 7, ("b",)), Fault(0, 1)]]
    )
    assert_array_equal(episodes.fault_cells(0, 3), [[0, 0], [0, 1], [0, 1], [0, 0]])


def test_labels_of_any_type_become_0_and_1() -> None:
    for labels in ([0, 1, 1], [False, True, True], [0.0, 1.0, 1.0], ["0", "1", "1"]):
        given_labels = Episodes.from_arrays(VALUES, labels).labels
        assert given_labels is not None
        assert given_labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"values": VALUES, "labels": [0, 1]}, "expected 3 labels, got 2"),
        ({"values": VALUES, "labels": [0, 1, 2]}, "got 2; give 0 and 1, or say which value means anomalous"),
        ({"values": VALUES, "labels": [0, 1, np.nan]}, "got nan"),
        ({"values": VALUES, "labels": ["ok", "bad", "ok"]}, "got bad, ok"),
        ({"values": VALUES, "ids": ["x", "y", "x"]}, "repeated ids: x"),
        ({"values": VALUES, "sensors": ["a"]}, "expected 2 sensor names, got 1"),
        ({"values": VALUES, "sensors": ["a", "a"]}, "each sensor name once"),
        ({"values": VALUES, "units": ["m"]}, "expected 2 units"),
        ({"values": VALUES, "groups": ["m"]}, "expected 3 groups"),
        ({"values": VALUES, "faults": [[]]}, "expected 3 lists of faults"),
        ({"values": VALUES, "lengths": [4, 0, 4]}, "an empty episode has to be left out"),
        ({"values": VALUES, "lengths": [4, 5, 4]}, "between 1 and 4"),
        ({"values": VALUES, "interval": 0}, "interval above 0"),
        ({"values": VALUES[0]}, "a single episode is"),
        ({"values": np.zeros((3, 0, 4))}, "at least one sensor"),
        ({"values": [np.zeros((2, 3)), np.zeros((3, 2))]}, "is an array transposed"),
        ({"values": [[["a"]]]}, "convert text to numbers"),
    ],
)
def test_what_cannot_be_episodes_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        Episodes.from_arrays(**arguments)  # type: ignore[arg-type]


def test_faults_of_different_number_are_taken() -> None:
    episodes = Episodes.from_arrays(VALUES, faults=[[Fault(0, 1)], [], [Fault(0, 1), Fault(2, 3)]])
    assert episodes.faults is not None
    assert [len(faults) for faults in episodes.faults] == [1, 0, 2]


def test_work_that_needs_labels_or_groups_says_so() -> None:
    bare = Episodes.from_arrays(VALUES)
    with pytest.raises(DfstransError, match="add a label column"):
        bare.split()
    with pytest.raises(DfstransError, match="add a group column"):
        bare.with_labels([0, 1, 0]).split(by_group=True)


def test_nan_to_the_end_of_an_array_is_missing_unless_lengths_say_otherwise() -> None:
    values = np.ones((2, 2, 10), dtype=np.float32)
    values[1, :, 6:] = np.nan
    assert Episodes.from_arrays(values).lengths.tolist() == [10, 10]
    assert Episodes.from_arrays(values, lengths=[10, 6]).lengths.tolist() == [10, 6]


def test_a_remedy_in_python_names_the_function_that_takes_it() -> None:
    with pytest.raises(DfstransError, match=r"give 0 and 1, or .*\(load_episodes\(…, anomalous_value=…\)\)"):
        Episodes.from_arrays(np.zeros((2, 1, 5)), ["ok", "bad"])
