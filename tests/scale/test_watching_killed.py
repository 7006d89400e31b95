"""The proof of `dfstrans watch`: it is killed at random moments, and its receiver fails half of the time."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from dfstrans import Diagnoser
from tests.scale.receiver import receiver
from tests.tiny import tiny_episodes

KILLS, FILES, EACH = 10, 250, 4
PROGRAM = """
import sys
from dfstrans.cli.app import main
from dfstrans.scale import webhook
webhook.FIRST_WAIT, webhook.LONGEST_WAIT = 0.05, 1.0
sys.argv = ["dfstrans", *sys.argv[1:]]
main()
"""


def deliver(folder: Path, numbers: range) -> None:
    """Write files as machines do: in one go, in pieces, or under another name until they are complete."""
    values = tiny_episodes(7, FILES, FILES * (EACH - 1)).values
    for number in numbers:
        table = pd.concat(
            pd.DataFrame(values[EACH * number + n].T, columns=["S1", "S2", "S3"]).assign(episode_id=f"{number}-{n}")
            for n in range(EACH)
        ).to_csv(index=False)
        place = folder / f"{number}.csv"
        match number % 3:
            case 0:
                place.write_text(table)
            case 1:
                with place.open("w") as file:
                    for start in range(0, len(table), 1000):
                        file.write(table[start : start + 1000])
                        file.flush()
                        time.sleep(0.01)
            case _:
                (folder / f"{number}.csv.tmp").write_text(table)
                (folder / f"{number}.csv.tmp").rename(place)
        time.sleep(0.02)


@pytest.mark.slow
def test_each_recording_is_scored_and_each_alarm_accepted_once_whatever_is_killed(
    tiny_model: Path, tmp_path: Path
) -> None:
    detector, chance = Diagnoser.load(tiny_model), random.Random(0)
    value = float(np.median(detector.predict_proba(tiny_episodes(7))[:, 1]))
    detector.threshold_ = detector.threshold_.model_copy(update={"value": value})
    detector.save(tmp_path / "model")
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    words = ["watch", folder, "--model", tmp_path / "model", "--out", out, "--settle", "0.5"]
    with receiver(lambda _: chance.choice((200, 503))) as there:
        command = [sys.executable, "-c", PROGRAM, *map(str, words), "--webhook", there.url]
        scored = []
        for part in range(KILLS + 1):
            writer = Thread(target=deliver, args=(folder, range(part, FILES, KILLS + 1)))
            writer.start()
            if part == KILLS:
                break
            with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as watcher:
                assert watcher.stderr is not None
                assert any(b"watching" in line for line in watcher.stderr)
                time.sleep(chance.uniform(0.3, 1.8))
                watcher.kill()
                watcher.stderr.read()
            assert watcher.returncode == -signal.SIGKILL
            scored.append(_lines(out / "results.jsonl"))
        writer.join()
        assert len({*scored}) > KILLS / 2  # killed at work
        last = subprocess.run([*command, "--once"], capture_output=True, text=True)
        deadline = time.monotonic() + 120
        while last.returncode == 1 and time.monotonic() < deadline:  # the receiver failed too often
            last = subprocess.run([*command, "--once"], capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    expected = {f"{number}-{n}" for number in range(FILES) for n in range(EACH)}
    assert Counter(row["episode_id"] for row in rows) == dict.fromkeys(expected, 1)
    assert not (out / "rejects.jsonl").exists()
    alarms = {row["event"]: row for row in rows if row["anomalous"]}
    assert len(expected) / 5 < len(alarms) < len(expected)
    assert there.bodies == alarms
    repeated = there.accepted.total() - len(alarms)  # killed between the answer and its record
    assert repeated <= KILLS
    assert there.requests > 1.5 * len(alarms)
    print(f"{len(rows)} recordings, {len(alarms)} alarms, {there.requests} requests, {repeated} repeated; {scored}")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
