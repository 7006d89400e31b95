"""The date and time of episodes: read, cut, selected, stored; zones and summer time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text, write


def starts_of(episodes: Episodes) -> list[str]:
    """The starts to the millisecond."""
    assert episodes.starts is not None
    return episodes.starts.astype("datetime64[ms]").astype(str).tolist()


def recording(*times: object, header: str = "time") -> str:
    """One recording with a row at each of these times."""
    return f"id,{header},a\n" + "".join(f"x,{time},{row}\n" for row, time in enumerate(times))


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
    episodes = from_text(tmp_path, recording(*times, header=header))
    assert (starts_of(episodes), episodes.time_zone) == ([start], zone)


@pytest.mark.parametrize("times", [(0, 1), ("12:00:00", "12:00:01"), (5.5, 6.5)])
def test_plain_numbers_and_times_of_day_have_no_date(tmp_path: Path, times: tuple[object, ...]) -> None:
    assert from_text(tmp_path, recording(*times)).starts is None


def test_piece_starts_later_than_its_recording(tmp_path: Path) -> None:
    times = [f"2024-05-01T12:00:{second:02d}" for second in range(0, 60, 10)]
    pieces = from_text(tmp_path, recording(*times), length=2)
    assert starts_of(pieces) == [f"2024-05-01T12:00:{second}.000" for second in ("00", "20", "40")]
    assert [str(piece.start)[11:19] for piece in pieces] == ["12:00:00", "12:00:20", "12:00:40"]


KNOWN = Episodes.from_arrays(
    np.ones((3, 1, 2)), [0, 1, 0], starts=["2024-05-01T12:00:00.123456789", None, "2024-05-02"], time_zone="+02:00"
)


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".npz"])
def test_files_keep_the_starts(tmp_path: Path, suffix: str) -> None:
    again = load_episodes(save_episodes(KNOWN, tmp_path / f"set{suffix}"))
    assert (str(again.starts), again.time_zone) == (str(KNOWN.starts), "+02:00")
    without = load_episodes(save_episodes(Episodes.from_arrays(np.ones((1, 1, 2))), tmp_path / f"none{suffix}"))
    assert (without.starts, without.time_zone) == (None, "")


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


# ---- zones and summer time ----------------------------------------------------------------------------------------


def test_times_with_and_without_a_zone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"zone in each row .* got 2024-05-01T12:00:00Z and .* in UTC"):
        from_text(tmp_path, recording("2024-05-01T12:00:00Z", "2024-05-01T12:00:05"))
    folder = write(tmp_path / "two", a="time,x|2024-05-01T12:00Z,1", b="time,x|2024-05-01T12:00,1")
    with pytest.raises(DfstransError, match=r"in all files or in none, got UTC in a.csv and none in b.csv"):
        load_episodes(folder)


def test_times_in_several_zones_are_read_in_utc_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"several time zones of column 'time'.*: \+01:00, \+02:00; all are .* UTC"):
        episodes = from_text(tmp_path, recording("2024-03-31T01:59:00+01:00", "2024-03-31T03:00:00+02:00"))
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
        from_text(tmp_path, recording(*before, *after))
    in_order = from_text(tmp_path, recording(*before, *after), irregular_time="ignore")
    assert (in_order.lengths.tolist(), in_order.interval) == ([4], 300)


def test_hour_missing_on_another_day_is_a_gap(tmp_path: Path) -> None:
    times = ("2024-03-27T01:50", "2024-03-27T01:55", "2024-03-27T03:00")
    assert from_text(tmp_path, recording(*times)).lengths.tolist() == [15]


def test_recording_that_goes_backwards_names_the_row(tmp_path: Path) -> None:
    text = "id,time,a\ny,0,1\ny,1,1\nx,0,1\nx,1,2\nx,2,2\nx,1.5,3\n"
    with pytest.raises(DfstransError, match=r"unsorted times in episode 'x': 1\.5 after 2 in its row 4; sort"):
        from_text(tmp_path, text)


# ---- short recordings ---------------------------------------------------------------------------------------------


def test_recordings_shorter_than_the_length_have_a_sentence_of_their_own(tmp_path: Path) -> None:
    rows = [f"{name},{point}" for name, n in (("a", 9), ("b", 3), ("c", 2)) for point in range(n)]
    short = r"left out 2 recordings of 3 that are shorter than length=4: b \(3\), c \(2\) points"
    tail = r"in no episode: 1 point at the end of 1 of 3 recordings: a \(1\);"
    with pytest.warns(UserWarning, match=short), pytest.warns(UserWarning, match=tail):
        episodes = from_text(tmp_path, "id,x\n" + "\n".join(rows), length=4)
    assert episodes.ids.tolist() == ["a@0", "a@4"]
