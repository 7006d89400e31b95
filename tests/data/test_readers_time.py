"""The time of long tables: dates, units, gaps, order."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text


def test_a_gap_in_time_becomes_missing_values(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a\nx,0,1\nx,0.1,2\nx,0.41,5\nx,0.5,6\nx,0.6,7\ny,3,1\n")
    assert episodes.interval == pytest.approx(0.1)
    assert episodes.lengths.tolist() == [7, 1]
    assert_array_equal(np.asarray(episodes.values)[0, 0], [1, 2, np.nan, np.nan, 5, 6, 7])


def test_one_gap_among_two_steps_is_still_a_gap(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a\nx,0,1\nx,0.1,2\nx,0.4,5\n")
    assert (episodes.interval, episodes.lengths.tolist()) == (0.1, [5])


def test_dates_give_the_interval_in_seconds(tmp_path: Path) -> None:
    for times in (
        ["2024-05-01 12:00:00.00", "2024-05-01 12:00:00.25", "2024-05-01 12:00:00.50"],
        ["2024-05-01T12:00:00.000Z", "2024-05-01T12:00:00.250Z", "2024-05-01T12:00:00.500Z"],
        ["2024-05-01T12:00:00.000+02:00", "2024-05-01T12:00:00.250+02:00", "2024-05-01T12:00:00.500+02:00"],
    ):
        text = "id,time,a\n" + "".join(f"x,{time},1\n" for time in times)
        assert from_text(tmp_path, text).interval == 0.25
    german = "id;time;a\nx;01.05.2024 12:00:00;1,5\nx;01.05.2024 12:00:02;2,5\n"
    assert from_text(tmp_path, german).interval == 2.0


def test_dates_that_cannot_be_told_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"dates such as 2024.*got 03/04/2024"):
        from_text(tmp_path, "id,time,a\nx,03/04/2024,1\nx,03/05/2024,2\n")
    with pytest.raises(DfstransError, match=r"got 1\.13\.2024 12:00:00,5, at noon;"):
        from_text(tmp_path, "id;time;a\nx;1.13.2024 12:00:00,5;1\nx;at noon;2\n")


def test_unsorted_time_is_refused_until_sorting_is_asked_for(tmp_path: Path) -> None:
    text = "id,time,a\nx,0,1\nx,2,3\nx,1,2\ny,0,4\n"
    with pytest.raises(DfstransError, match=r"unsorted in episode 'x': 1 after 2.*sort_time"):
        from_text(tmp_path, text)
    assert_array_equal(np.asarray(from_text(tmp_path, text, sort_time=True).values)[0, 0], [1, 2, 3])


def test_repeated_and_irregular_times_are_refused_unless_ignored(tmp_path: Path) -> None:
    repeated = "id,time,a\nx,0,1\nx,1,2\nx,1,3\n"
    irregular = "id,time,a\nx,0,1\nx,1,2\nx,2.5,3\nx,3.5,3\n"
    long_gap = "id,time,a\nx,0,1\nx,1,2\nx,2,3\nx,90000,3\n"
    for text, words in ((repeated, "repeated one in episode 'x'"), (irregular, "step of 1.5"), (long_gap, "long gaps")):
        with pytest.raises(DfstransError, match=words + r".*irregular_time='ignore'"):
            from_text(tmp_path, text)
        assert from_text(tmp_path, text, irregular_time="ignore").lengths.tolist() == [text.count("x,")]


@pytest.mark.parametrize(
    ("header", "first", "second", "unit"),
    [
        ("time", "0", "5", ""),
        ("time [ms]", "0", "5", "ms"),
        ("time_s", "0", "5", "s"),
        ("date", "2024-05-01T12:00:00", "2024-05-01T12:00:05", "s"),
    ],
)
def test_the_unit_of_time_is_that_of_the_header_or_seconds_of_dates(
    tmp_path: Path, header: str, first: str, second: str, unit: str
) -> None:
    episodes = from_text(tmp_path, f"id,{header},a\nx,{first},1\nx,{second},2\n")
    assert (episodes.interval, episodes.time_unit) == (5.0, unit)


def test_no_time_column_means_no_interval(tmp_path: Path) -> None:
    assert from_text(tmp_path, "id,a\nx,1\nx,2\n").interval is None


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        ("31.03.2024 00:30", "31.03.2024 00:31", 60),
        ("31.03.2024", "01.04.2024", 86400),
        ("00:30:00", "00:30:10", 10),
        ("00:30:00.25", "00:30:00.75", 0.5),
        ("31.05.2024 12:00:00.250", "31.05.2024 12:00:00.500", 0.25),
        ("9.05.2024 12:00:00", "10.05.2024 12:00:00", 86400),
        ("30.9.2024 9:59", "01.10.2024 10:00", 86460),
        ("9.5.2024 9:59:59.5", "09.05.2024 10:00:00.75", 1.25),
        ("20240531115959", "20240531120001", 2),
        ("20240229235959500", "20240301000000000", 0.5),
    ],
)
def test_dates_without_seconds_and_times_of_day_are_times(
    tmp_path: Path, first: str, second: str, seconds: float
) -> None:
    episodes = from_text(tmp_path, f"episode_id,time,a\n1,{first},5\n1,{second},6\n")
    assert (episodes.interval, episodes.time_unit) == (seconds, "s")


def test_fractions_of_a_second_behind_a_comma_are_read(tmp_path: Path) -> None:
    for day in ("14.03.2024", "2024-03-14"):
        text = f"id;time;a\nx;{day} 08:00:00,5;1,5\nx;{day} 08:00:01,0;2,5\n"
        assert from_text(tmp_path, text).interval == 0.5
    assert from_text(tmp_path, "id;time;a\nx;23:59:58,5;1,5\nx;23:59:59,0;2,5\n").interval == 0.5


def test_numbers_that_are_no_dates_throughout_stay_numbers(tmp_path: Path) -> None:
    for first in (20240230000000, 20241301000000, 20240501240000, 10_000_000_000_000):
        episodes = from_text(tmp_path, f"id,time,a\nx,{first},1\nx,{first + 1},2\ny,20240501000000,3\n")
        assert (episodes.interval, episodes.time_unit) == (1.0, "")
    counted = from_text(tmp_path, "id,time [ns],a\nx,20240101000000,1\nx,20240101000100,2\n")
    assert (counted.interval, counted.time_unit) == (100.0, "ns")


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
def test_the_interval_of_times_since_1970_is_free_of_rounding(tmp_path: Path, start: str, step: float) -> None:
    exact = [Decimal(start) + point * Decimal(str(step)) for point in range(20)]
    text = "id,time,a\n" + "".join(f"x,{time},1\n" for time in exact)
    for way in ("error", "ignore"):
        assert from_text(tmp_path, text, irregular_time=way).interval == step


def test_many_steps_since_1970_tell_an_interval_better_than_one(tmp_path: Path) -> None:
    text = "id,time,a\n" + "".join(f"x,{1710400000 + point / 44100:.9f},1\n" for point in range(2000))
    assert from_text(tmp_path, text).interval == pytest.approx(1 / 44100, rel=1e-5)


def test_times_of_day_go_on_after_midnight(tmp_path: Path) -> None:
    evening = ["23:59:58", "23:59:59", "00:00:00", "00:00:01"]
    rows = [row for point, time in enumerate(evening) for row in (f"x,{time},{point}", f"y,12:00:0{point},{point}")]
    for options in ({}, {"sort_time": True}, {"irregular_time": "ignore"}):
        episodes = from_text(tmp_path, "id,time,a\n" + "\n".join(rows), **options)
        assert (episodes.interval, episodes.lengths.tolist()) == (1.0, [4, 4])
        assert_array_equal(np.asarray(episodes.values)[:, 0], [[0, 1, 2, 3]] * 2)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "r.csv").write_text("time,a\n" + "".join(f"{time},1\n" for time in evening))
    assert load_episodes(tmp_path / "runs").lengths.tolist() == [4]


def test_times_of_day_about_midnight_that_are_unsorted_are_not_told_to_be_sorted(tmp_path: Path) -> None:
    text = "id,time,a\nx,23:59:58,1\nx,00:00:00,2\nx,23:59:59,3\nx,00:00:02,4\nx,00:00:01,5\n"
    for options in ({}, {"sort_time": True}, {"irregular_time": "ignore"}):
        with pytest.raises(DfstransError, match=r"unsorted, .* in x; write the times with their date"):
            from_text(tmp_path, text, **options)


def test_an_episode_of_many_hours_that_is_there_twice_does_not_pass_midnight(tmp_path: Path) -> None:
    hours = [f"x,{hour:02}:00:00,1" for hour in range(6, 21)]
    with pytest.raises(DfstransError, match=r"twice"):
        from_text(tmp_path, "id,time,a\n" + "\n".join(hours * 2))
    two_days = [f"x,{hour % 24:02}:00:00,1" for hour in range(6, 54)]
    assert from_text(tmp_path, "id,time,a\n" + "\n".join(two_days)).lengths.tolist() == [48]


def test_shuffled_times_of_a_whole_day_are_sorted(tmp_path: Path) -> None:
    hours = np.random.default_rng(0).permutation(24).tolist()
    hours.remove(23)
    hours.insert(hours.index(0), 23)  # side by side as at midnight, by chance
    text = "id,time,a\n" + "".join(f"x,{hour:02}:00:00,{hour}\n" for hour in hours)
    assert_array_equal(from_text(tmp_path, text, sort_time=True).values[0, 0], np.arange(24))


def test_episodes_at_a_faster_rate_than_most_are_named(tmp_path: Path) -> None:
    rows = [f"{name},{point * step},1" for name, step in (("x", 1.0), ("y", 0.4), ("z", 1.0)) for point in range(12)]
    with pytest.raises(DfstransError, match=r"median step 1\), got others in y \(step 0\.4\); resample all recordings"):
        from_text(tmp_path, "id,time,a\n" + "\n".join(rows))
