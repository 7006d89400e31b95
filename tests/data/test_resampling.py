"""Recordings are clipped, filled and resampled before they are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.readers.preparing import clip_beyond, fill_forward, resample
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError, Note, settings_as_options
from tests.data.text_tables import from_text

NAN = float("nan")


def one_recording(*values: float, **known: Any) -> Episodes:
    """One recording of one sensor, a."""
    known = {"interval": 1.0, "time_unit": "s", "ids": ["x"], "sensors": ["a"], **known}
    return Episodes.from_arrays(np.array([[values]]), **known)


# ---- resampling ---------------------------------------------------------------------------------------------------


def test_mean_of_each_bin_without_missing_values() -> None:
    coarse = resample(one_recording(1, 3, NAN, 5, NAN, NAN, 7), "2s")
    assert_array_equal(coarse.values[0, 0], [2, 5, NAN, 7])
    assert (coarse.interval, coarse.time_unit, coarse.sensors) == (2.0, "s", ("a",))


def test_mean_rms_and_peak_are_channels_of_a_fast_signal() -> None:
    fast = one_recording(3, -4, 0, NAN, 1, 1, units=["g"])
    coarse = resample(fast, "2s", by=("mean", "rms", "peak"))
    assert (coarse.sensors, coarse.units) == (("a mean", "a rms", "a peak"), ("g", "g", "g"))
    assert_allclose(coarse.values[0], [[-0.5, 0, 1], [np.sqrt(12.5), 0, 1], [4, 0, 1]])
    assert resample(fast, "2s", by=("rms",)).sensors == ("a rms",)


@pytest.mark.parametrize(
    ("interval", "unit", "duration", "expected", "means"),
    [
        (0.5, "s", "1s", 1.0, [0.5, 2.5, 4.5]),
        (500, "ms", "1s", 1000.0, [0.5, 2.5, 4.5]),
        (0.1, "s", "300ms", 0.3, [1, 4]),
        (20, "s", "1min", 60.0, [1, 4]),
        (1, "", "3", 3.0, [1, 4]),
        (None, "", "3", None, [1, 4]),
        (1, "s", "2.5s", 2.5, [1, 3.5, 5]),
        (1, "s", "1s", 1.0, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_duration_is_converted_to_the_unit_of_the_recordings(
    interval: float | None, unit: str, duration: str, expected: float | None, means: list[float]
) -> None:
    coarse = resample(one_recording(*range(6), interval=interval, time_unit=unit), duration)
    assert_allclose(coarse.values[0, 0], means)
    assert coarse.interval == expected


def test_labels_faults_groups_and_starts_follow() -> None:
    fine = Episodes.from_arrays(
        [np.zeros((2, 10)), np.zeros((2, 4))],
        [1, 0],
        sensors=["a", "b"],
        groups=["m", "n"],
        interval=1.0,
        time_unit="s",
        faults=[[Fault(3, 4, ("b",), "wear", 2.0), Fault(4, 9)], []],
        starts=["2024-05-01T12:00", None],
    )
    coarse = resample(fine, "4s", by=("mean", "peak"))
    assert coarse.lengths.tolist() == [3, 1]
    assert coarse.faults == ((Fault(0, 1, ("b mean", "b peak"), "wear", 2.0), Fault(1, 3)), ())
    assert (coarse.require_labels().tolist(), coarse.require_groups().tolist()) == ([1, 0], ["m", "n"])
    assert str(coarse.starts) == str(fine.starts)


@pytest.mark.parametrize(
    ("known", "duration", "words"),
    [
        ({}, "500ms", "at least the interval of the recordings, 1 s, got 500ms; choose a longer one"),
        ({}, "7s", r"recordings of at least 7s for resample='7s', got 1 of 1 that are shorter: x \(6 s\)"),
        ({"interval": None, "time_unit": ""}, "2s", r"got no time; name the time column \(time_column=…\).*: points"),
        ({"time_unit": ""}, "2s", "got a time in an unknown unit; .*in the unit of the time column"),
        ({"interval": None, "time_unit": ""}, "0.5", "interval of the recordings, 1 point, got 0.5"),
        ({}, "2 weeks", "a duration such as 10s, 1min or 50ms .* got '2 weeks'"),
        ({}, "0s", "got '0s'"),
    ],
)
def test_impossible_resampling_is_refused(known: dict[str, Any], duration: str, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        resample(one_recording(*range(6), **known), duration)


# ---- clipping and filling -----------------------------------------------------------------------------------------


def test_values_far_from_the_median_of_all_recordings_become_missing() -> None:
    episodes = Episodes.from_arrays(
        [np.array([[1, 2, 3, 4], [0, 0, 0, 0]]), np.array([[5, 6, 7, -3e9], [0, 0, 0, 8]])], sensors=["a", "switch"]
    )
    with pytest.warns(Note, match=r"clip_beyond=5 made values missing: a \(1\), and left switch unchanged, since most"):
        clipped = clip_beyond(episodes, 5)
    assert_array_equal(clipped.values[:, 0], [[1, 2, 3, 4], [5, 6, 7, NAN]])
    assert clipped.values[1, 1, 3] == 8
    with pytest.warns(Note, match="found no such value"):
        clip_beyond(clipped.select_sensors(["a"]), 5)


def test_infinite_values_are_clipped(tmp_path: Path) -> None:
    text = "id,a\n" + "".join(f"x,{value}\n" for value in (1, 2, 3, 2, "inf"))
    with pytest.warns(Note, match=r"a \(1\)"):
        assert np.isnan(from_text(tmp_path, text, clip_beyond=9).values[0, 0, 4])


def test_last_value_is_carried_forward_within_a_recording() -> None:
    values = np.array([[[NAN, 1, NAN, NAN], [2, NAN, 3, NAN]], [[NAN, NAN, 4, NAN], [5, 6, NAN, 7]]])
    filled = fill_forward(Episodes.from_arrays(values))
    assert_array_equal(filled.values, [[[NAN, 1, 1, 1], [2, 2, 3, 3]], [[NAN, NAN, 4, 4], [5, 6, 6, 7]]])


# ---- from files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".h5", ".npz", ".parquet"])
def test_every_format_is_filled_resampled_and_cut(tmp_path: Path, suffix: str) -> None:
    rows = [(t, "" if t == 5 else t, int(t == 9)) for t in range(12)]
    text = "id,time [s],a,label\n" + "".join(f"x,{t},{a},{label}\n" for t, a, label in rows)
    path = tmp_path / "runs.csv"
    path.write_text(text)
    if suffix != ".csv":
        path = save_episodes(load_episodes(path), tmp_path / f"stored{suffix}")
    pieces = load_episodes(path, fill="forward", resample="2s", length=3)
    assert (pieces.ids.tolist(), pieces.require_labels().tolist(), pieces.interval) == (["x@0", "x@3"], [0, 1], 2)
    assert_allclose(pieces.values[:, 0], [[0.5, 2.5, 4], [6.5, 8.5, 10.5]])
    assert pieces.faults == ((), (Fault(1, 2),))


def test_public_folder_is_resampled_with_its_labels(tmp_path: Path) -> None:
    for folder, text in (("test", "1,2\n3,4\n5,6\n7,8\n"), ("test_label", "0\n0\n0\n1\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "machine-1-1.txt").write_text(text)
    pieces = load_episodes(tmp_path, resample="2", length=1, drop_sensors="sensor_2")
    assert_array_equal(pieces.values[:, 0, 0], [2, 6])
    assert (pieces.require_labels().tolist(), pieces.sensors) == ([0, 1], ("sensor_1",))


def test_sensors_to_drop_are_separated_by_commas(tmp_path: Path) -> None:
    for dropped in ("b, c", ["b,c"], ["b", "c"]):
        assert from_text(tmp_path, "id,a,b,c\nx,1,2,3\n", drop_sensors=dropped).sensors == ("a",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resample": "soon"}, "a duration such as 10s.*got 'soon'"),
        ({"resample": 2, "resample_by": "mean,median"}, "--resample-by among mean, rms, peak.*got mean, median"),
        ({"resample_by": "rms"}, "expected --resample with --resample-by rms, got none; set both or neither"),
        ({"stride": 2}, "expected --length with --stride 2, got none"),
        ({"clip_beyond": 0}, "clip.beyond"),
        ({"fill": "back"}, "fill"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with settings_as_options(), pytest.raises(DfstransError, match=words):
        from_text(tmp_path, "id,a\nx,1\nx,2\n", **options)


def test_recordings_of_different_rates_are_read_if_they_are_resampled(tmp_path: Path) -> None:
    for step in (1, 1.5):
        rows = "".join(f"{step * row},{step * row}\n" for row in range(13))
        (tmp_path / f"every_{step}.csv").write_text(f"time [s],a\n{rows}")
    with pytest.raises(DfstransError, match=r"one sampling rate in all episodes .*resample='1.5'"):
        load_episodes(tmp_path)
    episodes = load_episodes(tmp_path, resample="3s")
    assert episodes.interval == 3
    assert episodes.values[0, 0, :4].tolist() == [0.75, 3.75, 6.75, 9.75]  # every_1.5
    assert episodes.values[1, 0, :4].tolist() == [1, 4, 7, 10]
    with pytest.raises(DfstransError, match=r"the longest interval of the recordings, 1.5 s, got 1200ms"):
        load_episodes(tmp_path, resample="1200ms")
    whole = pd.concat([pd.read_csv(path).assign(id=path.stem) for path in sorted(tmp_path.iterdir())])
    whole.to_csv(tmp_path / "long.csv", index=False)
    assert_array_equal(load_episodes(tmp_path / "long.csv", resample="3s").values, episodes.values)


def test_no_recording_is_resampled_below_its_own_interval(tmp_path: Path) -> None:
    for step in (0.5, 1):  # the shorter divides the longer
        rows = "".join(f"{step * row},{step * row}\n" for row in range(13))
        (tmp_path / f"every_{step}.csv").write_text(f"time [s],a\n{rows}")
    with pytest.raises(DfstransError, match=r"at least the longest interval of the recordings, 1 s, got 0\.7s"):
        load_episodes(tmp_path, resample="0.7s")
    assert load_episodes(tmp_path, resample="1s").lengths.tolist() == [7, 13]
