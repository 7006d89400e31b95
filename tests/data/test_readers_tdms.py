"""TDMS files: groups, channels, waveform properties, and folders of such files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans import load_episodes
from dfstrans.data.readers import read_episodes
from dfstrans.errors import DfstransError
from tests.tdms_files import START, write_tdms

pytest.importorskip("nptdms", reason="needs the extra tdms: pip install 'dfstrans[tdms]'")


def channels(n: int = 6, names: Sequence[str] = ("x", "y")) -> dict[str, Any]:
    return {name: np.arange(n) + 10.0 * i for i, name in enumerate(names)}


def test_channels_of_the_only_group_are_sensors_with_units_and_time(tmp_path: Path) -> None:
    path = write_tdms(tmp_path / "a.tdms", {"empty": {}, "rig": channels()})
    episodes = load_episodes(path, length=3)
    assert (episodes.sensors, episodes.units) == (("x", "y"), ("g", "g"))
    assert_array_equal(episodes.values, [[[0, 1, 2], [10, 11, 12]], [[3, 4, 5], [13, 14, 15]]])
    assert (episodes.interval, episodes.time_unit, episodes.time_zone) == (0.01, "s", "UTC")
    assert episodes.starts is not None
    assert episodes.starts[1] == START + np.timedelta64(30, "ms")
    assert load_episodes(path, length=3, sampling_rate=500).interval == 0.002


def test_without_a_start_times_count_from_zero(tmp_path: Path) -> None:
    for unset in ({}, {"wf_start_time": np.datetime64("1904-01-01T00:00:00")}):
        path = write_tdms(tmp_path / "a.tdms", {"rig": channels()}, {"wf_increment": 0.5, **unset})
        episodes = load_episodes(path, length=3)
        assert (episodes.interval, episodes.starts) == (0.5, None)
    path = write_tdms(tmp_path / "a.tdms", {"rig": channels()}, {})
    assert load_episodes(path, length=3).interval is None


def test_channel_with_the_time_is_the_time(tmp_path: Path) -> None:
    times = START + np.arange(6) * np.timedelta64(2, "s")
    path = write_tdms(tmp_path / "a.tdms", {"log": {"Time": times.astype("datetime64[us]"), **channels()}}, {})
    episodes = load_episodes(path, length=6)
    assert (episodes.sensors, episodes.interval, episodes.time_zone) == (("x", "y"), 2, "UTC")


def test_groups_with_the_same_channels_are_recordings(tmp_path: Path) -> None:
    about = {"": {"machine": "press 1"}, "run 1": {"Result": "pass"}, "run 2": {"Result": "leak"}}
    path = write_tdms(tmp_path / "a.tdms", {"run 1": channels(6), "run 2": channels(4)}, about=about)
    episodes = load_episodes(path, label_column="Result", normal_value="pass", group_column="machine")
    assert (episodes.ids.tolist(), episodes.lengths.tolist()) == (["run 1", "run 2"], [6, 4])
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.require_groups().tolist() == ["press 1"] * 2
    assert [[fault.kind for fault in faults] for faults in episodes.known_faults] == [[], ["leak"]]
    _, problems = read_episodes(path)
    assert "label_column='Result'" in problems.merged()[0].message


def test_other_groups_are_listed_and_the_check_goes_on_with_the_largest(tmp_path: Path) -> None:
    path = write_tdms(tmp_path / "a.tdms", {"slow": {"oil": np.arange(3.0)}, "fast": channels(60)})
    with pytest.raises(DfstransError, match=r"'slow' \(oil: 3 points at 100 Hz .*, 'fast' \(x, y: 60 .*dataset='fast'"):
        load_episodes(path, length=3)
    with pytest.raises(DfstransError, match=r"got 'medium'; the file contains 'slow'"):
        load_episodes(path, length=3, dataset="medium")
    episodes, problems = read_episodes(path, length=20)
    assert episodes is not None
    assert (episodes.sensors, len(problems.merged())) == (("x", "y"), 1)
    assert load_episodes(path, length=3, dataset="slow").sensors == ("oil",)


def test_channels_of_another_length_are_refused_until_dropped(tmp_path: Path) -> None:
    path = write_tdms(tmp_path / "a.tdms", {"rig": {**channels(60), "oil": np.arange(3.0)}})
    with pytest.raises(DfstransError, match=r"x, y: 60 points at 100 Hz from 2024-05-31T12:00:00.000; oil: 3 points"):
        load_episodes(path, length=20)
    assert load_episodes(path, length=20, drop_sensors=("oil",)).sensors == ("x", "y")


def test_folder_of_files_is_read_as_one_episode_each(tmp_path: Path) -> None:
    for name in ("good/1", "good/2", "bad/1"):
        write_tdms(tmp_path / "a" / f"{name}.tdms", {"rig": channels(), "meta": {"oil": np.arange(2.0)}})
    (tmp_path / "a/good/1.tdms_index").write_bytes(b"not a recording")
    with pytest.warns(UserWarning, match="labels are taken from the folders"):
        episodes = load_episodes(tmp_path / "a", dataset="rig")
    assert episodes.ids.tolist() == ["bad/1", "good/1", "good/2"]
    assert (episodes.require_labels().tolist(), episodes.interval) == ([1, 0, 0], 0.01)
    with pytest.warns(UserWarning, match="labels are taken"):
        _, problems = read_episodes(tmp_path / "a")
    assert [problem.message.endswith("perhaps dataset='rig'") for problem in problems.merged()] == [True]
    for n, result in enumerate(("pass", "fail")):
        write_tdms(tmp_path / "b" / f"{n}.tdms", {"rig": channels()}, about={"": {"Result": result}})
    assert load_episodes(tmp_path / "b", label_column="Result").require_labels().tolist() == [0, 1]
    (tmp_path / "b" / "labels.csv").write_text("file,label\n0.tdms,1\n1.tdms,0\n")
    assert load_episodes(tmp_path / "b", labels=tmp_path / "b/labels.csv").require_labels().tolist() == [1, 0]


def test_bad_files_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tdms(tmp_path / "a.tdms", {"rig": channels(1000)})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3000])
    with pytest.warns(UserWarning, match=r"a\.tdms ends within its last segment"):
        episodes = load_episodes(path, length=125)
    assert_array_equal(episodes.values[-1, :, -1], [624, 634])  # y has 625 points left
    assert capsys.readouterr().err == ""
    path.write_bytes(b"something else entirely, longer than a lead-in")
    with pytest.raises(DfstransError, match=r"expected TDMS in .*a\.tdms"):
        load_episodes(path, length=3)
    write_tdms(path, {"rig": {}})
    with pytest.raises(DfstransError, match="expected channels with values in"):
        load_episodes(path, length=3)


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tdms(tmp_path / "a.tdms", {"rig": channels()})
    monkeypatch.setitem(sys.modules, "nptdms", None)
    with pytest.raises(
        DfstransError, match=r"reading a\.tdms, but it is not installed; pip install 'dfstrans\[tdms\]'"
    ):
        load_episodes(path, length=3)
