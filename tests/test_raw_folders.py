"""From a raw folder to a page: one data check, one train, and only the options that the check suggests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.command_line import SMALL, output_of, run
from tests.raw_folders import write_class_folders, write_cycles, write_duplicates, write_servers, write_vibrations

NETWORK = [*SMALL, "--epochs", "1"]


@dataclass(frozen=True)
class Habit:
    """A raw folder, the options that its data check suggests, and what is read with them."""

    write: Callable[[Path], None]
    suggested: tuple[str, ...]
    episodes: int
    anomalous: int
    shown: str  # the id of an anomalous episode
    sensor: str  # that is faulty in it
    given: str = ""  # the file in the folder, if the folder itself is not what is given
    findings: tuple[str, ...] = ()  # further words of the data check


HABITS = {
    "class folders": Habit(
        write_class_folders,
        ("--normal-value 0", "--skip-bad-files", "--drop-sensors spare", "--clip-beyond 100"),
        episodes=46,
        anomalous=23,
        shown="3/stroke_05",
        sensor="flow",
        findings=("0/stroke_03.csv, got no current and also Strom", "unsorted times in episode '3/stroke_04'", "1e+30"),
    ),
    "servers with a fault table": Habit(
        write_servers,
        ("--length 100", "--time-column minute", "--drop-sensors host"),
        episodes=80,
        anomalous=16,
        shown="server_0@200",
        sensor="cpu",
    ),
    "unknown HDF5 at 2 kHz": Habit(
        write_vibrations,
        (
            "--dataset acquisition/accelerometers",
            "--axis time,episode,sensor",
            "--label-dataset meta/condition",
            "--normal-value healthy",
            "--sampling-rate 2000",
            "--resample 0.005s",
            "--resample-by mean,rms,peak",
            "--segment-length 100",
        ),
        episodes=48,
        anomalous=24,
        shown="episode_30",
        sensor="sensor_2 rms",
        given="rig.h5",
        findings=("meta/condition (48,)", "too long for effective training"),
    ),
    "cycles with a batch column": Habit(
        write_cycles,
        (
            "--id-column Schuss",
            "--label-column quality",
            "--normal-value fine",
            "--group-column batch",
        ),
        episodes=72,
        anomalous=24,
        shown="0",
        sensor="melt",
        given="cycles.csv",
        findings=("batch (B0, B1, B2, … (12 in all))",),
    ),
    "duplicates": Habit(
        write_duplicates,
        ("--drop-duplicates",),
        episodes=40,
        anomalous=20,
        shown="run_1",
        sensor="power",
        findings=("10 episodes of 50 are copies of others: copy_of_0 = run_0",),
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # what reading says is the subject of other tests
@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS.keys())
def test_raw_folder_becomes_a_page_by_following_the_messages(habit: Habit, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    habit.write(raw)
    raw, model, page = raw / habit.given, tmp_path / "model", tmp_path / "page.html"

    _, said, _ = run("data", "check", raw)
    for words in (*habit.suggested, *habit.findings):
        assert words in said

    options = [word for option in habit.suggested for word in option.split()]
    _, err = output_of("train", raw, *NETWORK, *options, "--out", model)
    assert f"Episodes: {habit.episodes} ({habit.anomalous} anomalous" in err
    output_of("diagnose", model, raw, "--episode", habit.shown, "--html", page)
    text = page.read_text()
    assert f"{habit.shown}</" in text
    assert f"ecision depends most on sensor <b>{habit.sensor}</b>" in text
