"""Times: dates, units, gaps, order, midnight; the date, the zone and summer time."""

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
    with pytest.raises(DfstransError, match=r"unsorted times in episode 'x': 1 after 2 in its row 3; .*sort_time"):
        from_text(tmp_path, "id,time,a\ny,0,1\ny,1,1\nx,0,1\nx,2,2\nx,1,3\n")
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


# ---- the date and time of episodes ------------------------------------------------------------------------------


def starts_of(episodes: Episodes) -> list[str]:
    """The starts to the millisecond."""
    assert episodes.starts is not None
    return episodes.starts.astype("datetime64[ms]").astype(str).tolist()


@pytest.mark.parametrize(
    ("header", "times", "start", "zone"),
    [
        ("time", ("2024-05-01T12:00:00", "2024-05-01T12:00:05"), "2024-05-01T12:00:00.000", ""),
        ("time", ("01.05.2024 12:00", "01.05.2024 12:01"), "2024-05-01T12:00:00.000", ""),
        ("time", ("2024-05-01 12:00:00.5Z", "2024-05-01 12:00:01Z"), "2024-05-01T12:00:00.500", "UTC"),
        ("time", ("2024-05-01T12:00:00+02:00", "2024-05-01T12:00:05+0200"), "2024-05-01T12:00:00.000", "+02:00"),
        ("time", ("2024-05-01T12:00:00-0330", "2024-05-01T12:00:05-0330"), "2024-05-01T12:00:00.000", "-03:30"),
        ("time", (20240531120000, 20240531120010), "2024-05-31T12:00:00.000", ""),
        ("time", (1710400000, 1710400001), "2024-03-14T07:06:40.000", "UTC"),
        ("time", (1710400000.25, 1710400000.5), "2024-03-14T07:06:40.250", "UTC"),
        ("time [ms]", (1710400000123, 1710400000124), "2024-03-14T07:06:40.123", "UTC"),
        ("time", (1710400000000000000, 1710400000000000001), "2024-03-14T07:06:40.000", "UTC"),
    ],
)
def test_start_and_zone_come_from_the_time_column(
    tmp_path: Path, header: str, times: tuple[object, ...], start: str, zone: str
) -> None:
    episodes = at_times(tmp_path, *times, header=header)
    assert (starts_of(episodes), episodes.time_zone) == ([start], zone)


@pytest.mark.parametrize("times", [(0, 1), ("12:00:00", "12:00:01"), (5.5, 6.5)])
def test_plain_numbers_and_times_of_day_have_no_date(tmp_path: Path, times: tuple[object, ...]) -> None:
    assert at_times(tmp_path, *times).starts is None


def test_piece_starts_later_than_its_recording(tmp_path: Path) -> None:
    times = [f"2024-05-01T12:00:{second:02d}" for second in range(0, 60, 10)]
    pieces = at_times(tmp_path, *times, length=2)
    assert starts_of(pieces) == [f"2024-05-01T12:00:{second}.000" for second in ("00", "20", "40")]
    assert [str(piece.start)[11:19] for piece in pieces] == ["12:00:00", "12:00:20", "12:00:40"]


KNOWN = Episodes.from_arrays(
    np.ones((3, 1, 2)), [0, 1, 0], starts=["2024-05-01T12:00:00.123456789", None, "2024-05-02"], time_zone="+02:00"
)


def test_selections_and_concatenations_keep_the_starts() -> None:
    assert starts_of(KNOWN[[2, 0]]) == ["2024-05-02T00:00:00.000", "2024-05-01T12:00:00.123"]
    assert "times     2024-05-01T12:00:00 to 2024-05-02T00:00:00 +02:00" in repr(KNOWN)
    assert starts_of(Episodes.concatenate([KNOWN[:1], KNOWN[1:]])) == starts_of(KNOWN)
    plain = Episodes.from_arrays(np.ones((1, 1, 2)), [0], ids=["z"])
    assert starts_of(Episodes.concatenate([KNOWN, plain]))[2:] == ["2024-05-02T00:00:00.000", "NaT"]
    elsewhere = Episodes.from_arrays(np.ones((1, 1, 2)), [0], ids=["z"], starts=["2024-05-02"], time_zone="UTC")
    with pytest.warns(UserWarning, match=r"dropped the date .* \+02:00, UTC; write all times in UTC"):
        assert Episodes.concatenate([KNOWN, elsewhere]).starts is None


def test_starts_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(DfstransError, match="expected 3 starts, got shape"):
        Episodes.from_arrays(np.ones((3, 1, 2)), starts=["2024-05-01"])
    with pytest.raises(DfstransError, match=r"date and time of each episode's first point.*datetime64"):
        Episodes.from_arrays(np.ones((1, 1, 2)), starts=["noon"])


# ---- zones and summer time --------------------------------------------------------------------------------------


def test_times_with_and_without_a_zone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"zone in each row .* got 2024-05-01T12:00:00Z and .* in UTC"):
        at_times(tmp_path, "2024-05-01T12:00:00Z", "2024-05-01T12:00:05")
    folder = write(tmp_path / "two", a="time,x|2024-05-01T12:00Z,1", b="time,x|2024-05-01T12:00,1")
    with pytest.raises(DfstransError, match=r"in all files or in none, got UTC in .*a.csv and none in .*b.csv"):
        load_episodes(folder)


def test_times_in_several_zones_are_read_in_utc_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"several time zones of column 'time'.*: \+01:00, \+02:00; all are .* UTC"):
        episodes = at_times(tmp_path, "2024-03-31T01:59:00+01:00", "2024-03-31T03:00:00+02:00")
    assert (starts_of(episodes), episodes.time_zone) == (["2024-03-31T00:59:00.000"], "UTC")
    assert episodes.interval == 60
    folder = write(tmp_path / "two", a="time,x|2024-05-01T12:00-01:00,1", b="time,x|2024-05-01T12:00+01:00,1")
    with pytest.warns(UserWarning, match=r"several time zones: -01:00 \(a.csv\), \+01:00 \(b.csv\)"):
        both = load_episodes(folder)
    assert starts_of(both) == ["2024-05-01T13:00:00.000", "2024-05-01T11:00:00.000"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("2024-03-31T01:50", "2024-03-31T01:55"), ("2024-03-31T03:00", "2024-03-31T03:05")),
        (("2024-10-27T02:50", "2024-10-27T02:55"), ("2024-10-27T02:00", "2024-10-27T02:05")),
    ],
    ids=["to summer time", "from summer time"],
)
def test_change_of_the_clock_is_named_with_its_row(
    tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    with pytest.raises(DfstransError, match=rf"x \(row 3: {after[0]}:00 after .*summer time\? write .*in UTC"):
        at_times(tmp_path, *before, *after)
    in_order = at_times(tmp_path, *before, *after, irregular_time="ignore")
    assert (in_order.lengths.tolist(), in_order.interval) == ([4], 300)


def test_hour_missing_on_another_day_is_a_gap(tmp_path: Path) -> None:
    times = ("2024-03-27T01:50", "2024-03-27T01:55", "2024-03-27T03:00")
    assert at_times(tmp_path, *times).lengths.tolist() == [15]


def test_sampling_rate_gives_rows_without_time_their_seconds(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,a,label\nx,1,0\nx,2,0\nx,3,0\nx,4,1\n")
    faults = tmp_path / "faults.csv"
    faults.write_text("id,fault,start,end\nx,wear,0.75,1\n")
    episodes = load_episodes(tmp_path / "runs.csv", sampling_rate=4)
    assert (episodes.interval, episodes.time_unit) == (0.25, "s")
    assert [(fault.start, fault.stop) for fault in (episodes.faults or ())[0]] == [(3, 4)]
    (tmp_path / "timed.csv").write_text("id,time,a\nx,0,1\nx,1,2\n")
    with pytest.raises(DfstransError, match="without a time for sampling_rate, got a time column"):
        load_episodes(tmp_path / "timed.csv", sampling_rate=4)


@pytest.mark.parametrize(("header", "unit"), [("time_ms", "ms"), ("Zeit in min", "min"), ("time [Sekunden]", "s")])
def test_unit_of_the_time_is_found_in_its_header(header: str, unit: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"id,{header},T_min\nx,0,1\nx,2,3\n")
    episodes = load_episodes(tmp_path / "a.csv")
    assert (episodes.sensors, episodes.interval, episodes.time_unit) == (("T_min",), 2, unit)


def test_dates_in_a_column_of_their_own_belong_to_the_times_of_day(tmp_path: Path) -> None:
    text = "Datum;Uhrzeit;a\n31.12.2024;23:59:59;1\n01.01.2025;00:00:00;2\n01.01.2025;00:00:01;3\n"
    episodes = from_text(tmp_path, text, length=3)
    assert (episodes.sensors, episodes.interval, episodes.lengths.tolist()) == (("a",), 1, [3])
    assert episodes.starts is not None
    assert episodes.starts[0] == np.datetime64("2024-12-31T23:59:59")
    with pytest.warns(UserWarning, match=r"skipped columns without numbers: Datum \(soon, later\)"):
        assert from_text(tmp_path, "Datum,Zeit,a\nsoon,10:00:00,1\nlater,10:00:01,2\n", length=2).starts is None
    assert from_text(tmp_path, "data,time,a\n5,10:00:00,1\n6,10:00:01,2\n", length=2).sensors == ("data", "a")
