"""Times: dates, units, gaps, order, midnight."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text, write


def at_times(folder: Path, *times: object, header: str = "time", delimiter: str = ",", **options: object) -> Episodes:
    """One episode with these times, its only sensor counting the rows."""
    rows = [("id", header, "a"), *(("x", str(time), str(row)) for row, time in enumerate(times))]
    return from_text(folder, "".join(delimiter.join(row) + "\n" for row in rows), **options)


def test_gap_becomes_missing_values(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a\nx,0,1\nx,0.1,2\nx,0.41,5\nx,0.5,6\nx,0.6,7\ny,3,1\n")
    assert (episodes.interval, episodes.lengths.tolist()) == (pytest.approx(0.1), [7, 1])
    assert_array_equal(episodes.values[0, 0], [1, 2, np.nan, np.nan, 5, 6, 7])
    one_of_two_steps = at_times(tmp_path, 0, 0.1, 0.4)
    assert (one_of_two_steps.interval, one_of_two_steps.lengths.tolist()) == (0.1, [5])


@pytest.mark.parametrize(
    ("header", "times", "interval", "unit"),
    [
        ("time", ("0", "5"), 5, ""),
        ("time [ms]", ("0", "5"), 5, "ms"),
        ("time_s", ("0", "5"), 5, "s"),
        ("date", ("2024-05-01T12:00:00", "2024-05-01T12:00:05"), 5, "s"),
        ("time", ("2024-05-01 12:00:00.00", "2024-05-01 12:00:00.25"), 0.25, "s"),
        ("time", ("2024-05-01T12:00:00.000Z", "2024-05-01T12:00:00.250Z"), 0.25, "s"),
        ("time", ("2024-05-01T12:00:00.000+02:00", "2024-05-01T12:00:00.250+02:00"), 0.25, "s"),
        ("time", ("01.05.2024 12:00:00", "01.05.2024 12:00:02"), 2, "s"),
        ("time", ("31.03.2024 00:30", "31.03.2024 00:31"), 60, "s"),
        ("time", ("31.03.2024", "01.04.2024"), 86400, "s"),
        ("time", ("00:30:00", "00:30:10"), 10, "s"),
        ("time", ("00:30:00.25", "00:30:00.75"), 0.5, "s"),
        ("time", ("23:59:58,5", "23:59:59,0"), 0.5, "s"),
        ("time", ("31.05.2024 12:00:00.250", "31.05.2024 12:00:00.500"), 0.25, "s"),
        ("time", ("14.03.2024 08:00:00,5", "14.03.2024 08:00:01,0"), 0.5, "s"),
        ("time", ("2024-03-14 08:00:00,5", "2024-03-14 08:00:01,0"), 0.5, "s"),
        ("time", ("9.05.2024 12:00:00", "10.05.2024 12:00:00"), 86400, "s"),
        ("time", ("30.9.2024 9:59", "01.10.2024 10:00"), 86460, "s"),
        ("time", ("9.5.2024 9:59:59.5", "09.05.2024 10:00:00.75"), 1.25, "s"),
        ("time", ("20240531115959", "20240531120001"), 2, "s"),
        ("time", ("20240229235959500", "20240301000000000"), 0.5, "s"),
        ("time [ns]", ("20240101000000", "20240101000100"), 100, "ns"),
    ],
)
def test_interval_and_unit_of_numbers_dates_and_times_of_day(
    tmp_path: Path, header: str, times: tuple[str, str], interval: float, unit: str
) -> None:
    episodes = at_times(tmp_path, *times, header=header, delimiter=";")
    assert (episodes.interval, episodes.time_unit) == (interval, unit)


@pytest.mark.parametrize("first", [20240230000000, 20241301000000, 20240501240000, 10_000_000_000_000])
def test_integers_are_dates_only_if_all_of_them_are(tmp_path: Path, first: int) -> None:
    episodes = from_text(tmp_path, f"id,time,a\nx,{first},1\nx,{first + 1},2\ny,20240501000000,3\n")
    assert (episodes.interval, episodes.time_unit) == (1.0, "")


def test_no_time_column_means_no_interval(tmp_path: Path) -> None:
    assert from_text(tmp_path, "id,a\nx,1\nx,2\n").interval is None


def test_ambiguous_dates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"dates such as 2024.*got 03/04/2024"):
        at_times(tmp_path, "03/04/2024", "03/05/2024")
    with pytest.raises(DfstransError, match=r"got 1\.13\.2024 12:00:00,5, at noon;"):
        at_times(tmp_path, "1.13.2024 12:00:00,5", "at noon", delimiter=";")


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ("1710400000000000000", 1_000_000),
        ("1710400000.000", 0.001),
        ("1710400000123", 1),
        ("1710400000", 1 / 256),
        ("1710400000", 1 / 1024),
    ],
)
def test_interval_of_times_since_1970_is_free_of_rounding(tmp_path: Path, start: str, step: float) -> None:
    exact = [Decimal(start) + point * Decimal(str(step)) for point in range(20)]
    for way in ("error", "ignore"):
        assert at_times(tmp_path, *exact, irregular_time=way).interval == step


def test_many_steps_since_1970_give_a_more_precise_interval_than_one(tmp_path: Path) -> None:
    times = [f"{1710400000 + point / 44100:.9f}" for point in range(2000)]
    assert at_times(tmp_path, *times).interval == pytest.approx(1 / 44100, rel=1e-5)


# ---- order ------------------------------------------------------------------------------------------------------


def test_interleaved_episodes_keep_the_order_of_first_appearance(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a\nz,0,1\nb,0,10\nz,1,2\nb,1,20\nz,2,3\n")
    assert (episodes.ids.tolist(), episodes.lengths.tolist()) == (["z", "b"], [3, 2])
    assert_array_equal(episodes.values, [[[1, 2, 3]], [[10, 20, np.nan]]])


def test_unsorted_time_is_refused_unless_sorted(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"unsorted times in episode 'x': 1 after 2.*sort_time"):
        at_times(tmp_path, 0, 2, 1)
    assert_array_equal(at_times(tmp_path, 0, 2, 1, sort_time=True).values[0, 0], [0, 2, 1])


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((0, 1, 1), "repeated one in episode 'x'"),
        ((0, 1, 2.5, 3.5), "1 irregular steps, the first of 1.5"),
        ((0, 1, 2, 90000), "long gaps"),
    ],
)
def test_repeated_and_irregular_times_are_refused_unless_ignored(
    tmp_path: Path, times: tuple[float, ...], words: str
) -> None:
    with pytest.raises(DfstransError, match=words + r".*irregular_time='ignore'"):
        at_times(tmp_path, *times)
    assert at_times(tmp_path, *times, irregular_time="ignore").lengths.tolist() == [len(times)]


@pytest.mark.parametrize("copy", ["x,0,1\nx,1,2", "x,1,7\nx,2,8"], ids=["the same", "overlapping"])
def test_episode_written_twice_is_named_and_sorting_is_not_advised(tmp_path: Path, copy: str) -> None:
    with pytest.raises(DfstransError, match=r"same times more than once in x; .*its own id") as caught:
        from_text(tmp_path, f"id,time,a\nx,0,1\nx,1,2\nx,2,3\ny,0,1\ny,1,2\n{copy}\n")
    assert "sort_time" not in str(caught.value)


def test_episodes_at_a_faster_rate_are_named(tmp_path: Path) -> None:
    rows = [f"{name},{point * step},1" for name, step in (("x", 1.0), ("y", 0.4), ("z", 1.0)) for point in range(12)]
    with pytest.raises(DfstransError, match=r"median step 1\), got others in y \(step 0\.4\); resample"):
        from_text(tmp_path, "id,time,a\n" + "\n".join(rows))


# ---- midnight ---------------------------------------------------------------------------------------------------

EVERY_WAY = ({}, {"sort_time": True}, {"irregular_time": "ignore"})


def test_times_of_day_may_pass_midnight(tmp_path: Path) -> None:
    evening = ["23:59:58", "23:59:59", "00:00:00", "00:00:01"]
    rows = [row for point, time in enumerate(evening) for row in (f"x,{time},{point}", f"y,12:00:0{point},{point}")]
    for options in EVERY_WAY:
        episodes = from_text(tmp_path, "id,time,a\n" + "\n".join(rows), **options)
        assert (episodes.interval, episodes.lengths.tolist()) == (1.0, [4, 4])
        assert_array_equal(episodes.values[:, 0], [[0, 1, 2, 3]] * 2)
    folder = write(tmp_path / "runs", r="|".join(["time,a", *(f"{time},1" for time in evening)]))
    assert load_episodes(folder).lengths.tolist() == [4]


def test_unsorted_times_of_day_around_midnight_are_refused(tmp_path: Path) -> None:
    for options in EVERY_WAY:
        with pytest.raises(DfstransError, match=r"unsorted times, .* in x; write the times with their date"):
            at_times(tmp_path, "23:59:58", "00:00:00", "23:59:59", "00:00:02", "00:00:01", **options)


def test_long_episode_written_twice_does_not_pass_midnight(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"twice"):
        at_times(tmp_path, *[f"{hour:02}:00:00" for hour in range(6, 21)] * 2)
    two_days = [f"{hour % 24:02}:00:00" for hour in range(6, 54)]
    assert at_times(tmp_path, *two_days).lengths.tolist() == [48]


def test_shuffled_times_of_a_whole_day_are_sorted(tmp_path: Path) -> None:
    hours = np.random.default_rng(0).permutation(24).tolist()
    hours.remove(23)
    hours.insert(hours.index(0), 23)  # neighbours as at midnight, by chance
    episodes = at_times(tmp_path, *(f"{hour:02}:00:00" for hour in hours), sort_time=True)
    assert_array_equal(episodes.values[0, 0], np.argsort(hours))
