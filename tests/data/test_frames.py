"""Episodes from pandas frames, and from the layouts of aeon, sktime and tsai."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import DfstransError

TIMES = ("1T12:00:00", "1T12:00:02", "2T00:00:00", "1T12:00:06", "2T00:00:02")
LONG = pd.DataFrame(
    {
        "run": ["y", "y", "x", "y", "x"],
        "when": pd.to_datetime([f"2024-05-0{time}" for time in TIMES]),
        "speed": [1, 2, 10, 4, 20],
        "state": ["ok", "bad", "ok", "ok", "ok"],
        "machine": ["m", "m", "n", "m", "n"],
    }
)
NAMED = {"id": "run", "time": "when", "label": "state", "group": "machine", "normal_value": "ok"}


def test_long_frame_becomes_episodes_on_a_regular_grid() -> None:
    episodes = Episodes.from_dataframe(LONG, **NAMED)
    assert (episodes.ids.tolist(), episodes.sensors, episodes.lengths.tolist()) == (["y", "x"], ("speed",), [4, 2])
    assert_array_equal(episodes.values[:, 0], [[1, 2, np.nan, 4], [10, 20, np.nan, np.nan]])
    assert (episodes.interval, episodes.time_unit) == (2.0, "s")
    assert (episodes.require_labels().tolist(), episodes.require_groups().tolist()) == ([1, 0], ["m", "n"])
    assert episodes.faults == ((Fault(1, 2),), ())
    assert episodes.starts is not None
    assert episodes.starts.astype("datetime64[s]").astype(str).tolist() == [
        "2024-05-01T12:00:00",
        "2024-05-02T00:00:00",
    ]


def test_usual_column_names_need_not_be_given() -> None:
    frame = pd.DataFrame(
        {"episode_id": [1, 1, 2, 2], "time": [0, 5, 0, 5], "a": [1.0, None, 3, 4], "label": [0, 0, 1, 1]}
    )
    episodes = Episodes.from_dataframe(frame, time_unit="ms")
    assert (episodes.ids.tolist(), episodes.sensors, episodes.interval, episodes.time_unit) == (
        ["1", "2"],
        ("a",),
        5.0,
        "ms",
    )
    assert (episodes.require_labels().tolist(), episodes.faults, episodes.starts) == ([0, 1], None, None)
    assert_array_equal(episodes.values[:, 0], [[1, np.nan], [3, 4]])


def test_zone_of_a_frame_is_utc() -> None:
    episodes = Episodes.from_dataframe(LONG.assign(when=LONG["when"].dt.tz_localize("Europe/Berlin")), **NAMED)
    assert episodes.time_zone == "UTC"
    assert str(episodes.starts[0]).startswith("2024-05-01T10:00:00")  # type: ignore[index]


@pytest.mark.parametrize(
    ("frame", "named", "words"),
    [
        (LONG, NAMED | {"id": "nr"}, r"columns nr \(id\) in the frame, got run, when, .*; name them, such as id='run'"),
        (LONG, {}, r"columns episode_id \(id\)"),
        (LONG, {"id": "run"}, "got other content in when, state, machine; convert or drop these columns"),
        (LONG, {**NAMED, "normal_value": "fine"}, "normal_value among the labels bad, ok, got fine"),
        (LONG, {**NAMED, "normal_value": None}, "labels 0 .* and 1 .*, got bad, ok; .*normal_value=…"),
        (LONG, {**NAMED, "anomalous_value": "bad"}, "got both"),
        (LONG.assign(machine=list("abcde")), NAMED, "one group per episode, got several in y, x"),
        (LONG.assign(run=["x", None, "x", "x", "x"]), NAMED, r"a value in each row of 'run' \(id\)"),
        (LONG.assign(when=LONG["when"].astype(str)), NAMED, r"numbers or dates as time.*pandas\.to_datetime"),
        (LONG.iloc[::-1], NAMED, "expected time to increase within each episode"),
        (LONG.iloc[:0], NAMED, "got 0 rows"),
        ({"a": [1]}, {}, "a pandas DataFrame .* got dict"),
    ],
)
def test_frames_that_do_not_fit_are_refused(frame: Any, named: dict[str, Any], words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        Episodes.from_dataframe(frame, **named)


# ---- aeon, sktime, tsai -------------------------------------------------------------------------------------------

VALUES = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
NESTED = pd.DataFrame({name: [pd.Series(row[i]) for row in VALUES] for i, name in enumerate("ab")})
INDEX = pd.MultiIndex.from_product([["x", "y"], range(3)], names=["case", "time"])
LAYOUTS = {
    "array": VALUES,
    "list": list(VALUES),
    "nested": NESTED,
    "multiindex": pd.DataFrame(VALUES.transpose(0, 2, 1).reshape(6, 2), index=INDEX, columns=["a", "b"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_values(layout: str) -> None:
    episodes = Episodes.from_dataset(LAYOUTS[layout], np.array(["2", "1"]), normal_value=1, sensors=["a", "b"])
    assert_array_equal(episodes.values, VALUES)
    assert (episodes.sensors, episodes.require_labels().tolist()) == (("a", "b"), [1, 0])


def test_series_of_different_lengths_and_of_one_channel() -> None:
    nested = pd.DataFrame({"a": [pd.Series([1.0, 2]), pd.Series([3.0])]}, index=["p", "q"])
    episodes = Episodes.from_dataset(nested)
    assert (episodes.lengths.tolist(), episodes.ids.tolist(), episodes.labels) == ([2, 1], ["p", "q"], None)
    assert Episodes.from_dataset(np.zeros((4, 9))).shape == (4, 1, 9)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.zeros(3), None, r"\(episode, channel, timepoint\).*got shape \(3,\)"),
        (pd.DataFrame({"a": [1, 2]}), None, "a series in each cell .*from_dataframe for a row per point"),
        (VALUES, [0, 1, 1], "expected 2 labels, got 3"),
        (VALUES, ["a", "b"], "got a, b; name the one that means normal"),
        (VALUES, np.zeros((2, 2)), "pass one label per episode"),
        (
            pd.DataFrame({"a": [pd.Series([1.0])], "b": [pd.Series([1.0, 2])]}),
            None,
            "same length in each row, got 1, 2",
        ),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(X: Any, y: Any, words: str) -> None:  # noqa: N803
    with pytest.raises(DfstransError, match=words):
        Episodes.from_dataset(X, y)
