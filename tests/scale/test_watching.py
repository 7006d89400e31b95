"""`dfstrans watch`: each recording once, each alarm once."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from dfstrans import Diagnoser
from dfstrans.cli.app import main
from dfstrans.cli.watch import ATTEMPTS
from dfstrans.data.episodes import Episodes
from dfstrans.detectors.early import EarlyWarning, Step
from dfstrans.errors import DfstransError
from dfstrans.scale import arrivals, webhook
from dfstrans.scale.arrivals import Arrivals
from dfstrans.scale.journal import Journal, only_watcher
from dfstrans.scale.scoring import Scorer
from dfstrans.scale.watching import MOST_DEATHS, Watcher
from tests.cli.command_line import output_of, refused, result_of, run
from tests.scale.fleet_files import part
from tests.scale.receiver import receiver

SETTLE = 0.1
pytestmark = pytest.mark.filterwarnings("ignore:values outside the range")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of six recordings each."""
    made = tmp_path / "in"
    made.mkdir()
    for number in range(2):
        part(number).to_csv(made / f"{number}.csv", index=False)
    return made


def watched(folder: Path, model: Path, *options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Score what is there, and return all results and rejects."""
    output_of("watch", folder, "--model", model, "--once", "--settle", SETTLE, *options)
    return rows(folder, "results"), rows(folder, "rejects")


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found = folder.with_name("in-results") / f"{name}.jsonl"
    return [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(row["episode_id"] for row in found)


# ---- each recording once --------------------------------------------------------------------------------------------


def test_rows_are_those_of_predict_and_each_recording_has_one(folder: Path, tiny_model: Path) -> None:
    found, rejects = watched(folder, tiny_model)
    assert not rejects
    assert len(found) == 12 == len({row["event"] for row in found})
    expected = result_of("predict", tiny_model, folder / "1.csv")["predictions"]
    mine = {row["episode_id"]: row for row in found if row["file"] == "1.csv"}
    assert {name: row["probability"] for name, row in mine.items()} == {
        one["episode_id"]: pytest.approx(one["probability"], abs=1e-6) for one in expected
    }
    assert {name: row["anomalous"] for name, row in mine.items()} == {
        one["episode_id"]: one["anomalous"] for one in expected
    }


def test_only_new_and_changed_recordings_are_scored_again(folder: Path, tiny_model: Path) -> None:
    first, _ = watched(folder, tiny_model)
    (folder / "0.csv").touch()
    changed = part(1)
    changed.loc[changed["episode_id"] == "1-run_0003", "S1"] += 1
    pd.concat([changed, part(2)]).to_csv(folder / "1.csv", index=False)
    (folder / "_labels.csv").write_text("not a recording")
    (folder / "2.csv.partial").write_text("not yet a recording")
    found, rejects = watched(folder, tiny_model)
    assert found[:12] == first
    assert names(found[12:]) == ["1-run_0003", *(f"2-run_000{n}" for n in range(6))]
    assert not rejects
    assert watched(folder, tiny_model)[0] == found


@pytest.mark.parametrize("kept", [0, 1, 700, 2000])
def test_a_journal_cut_off_anywhere_is_completed(folder: Path, tiny_model: Path, kept: int) -> None:
    """As after a crash between any two bytes."""
    expected, _ = watched(folder, tiny_model)
    results = folder.with_name("in-results")
    (results / "results.jsonl").write_bytes((results / "results.jsonl").read_bytes()[:kept])
    (results / "_files.jsonl").unlink()
    found, _ = watched(folder, tiny_model)
    assert sorted(row["event"] for row in found) == sorted(row["event"] for row in expected)


def test_a_damaged_journal_is_not_continued(folder: Path, tiny_model: Path) -> None:
    watched(folder, tiny_model)
    results = folder.with_name("in-results") / "results.jsonl"
    results.write_text("not JSON\n" + results.read_text())
    assert "line 1 of" in refused("watch", folder, "--model", tiny_model, "--once", "--settle", SETTLE)


def test_a_file_that_changes_while_it_is_scored_is_read_again(
    folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored, before = Scorer.scored, []

    def changing(self: Scorer, episodes: Episodes) -> Iterator[dict[str, Any]]:
        found = list(scored(self, episodes))
        if not before:
            before.extend(episodes.ids)
            part(3).to_csv(folder / "0.csv", index=False)
        return iter(found)

    monkeypatch.setattr(Scorer, "scored", changing)
    found, _ = watched(folder, tiny_model)
    assert before
    assert names(found) == [f"{number}-run_000{n}" for number in (1, 3) for n in range(6)]


def test_a_file_is_read_once_it_has_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(arrivals.time, "monotonic", lambda: now)
    look = Arrivals(tmp_path, tmp_path / "out", 2.0, {})

    def after(seconds: float) -> list[tuple[str, bool]]:
        nonlocal now
        now += seconds
        return [(one.name, one.growing) for one in look]

    (tmp_path / "empty.csv").touch()
    for suffix in ("csv.tmp", "csv.partial", "log"):
        (tmp_path / f"a.{suffix}").write_text("1\n")
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "b.npz").write_text("1")
    assert after(0) == []
    assert after(1.9) == []
    (tmp_path / "a.csv").write_text("1\n2\n3")
    (tmp_path / "b.npz").write_text("12")
    assert after(0.2) == [("a.csv", True)]
    assert after(1.9) == []
    assert after(0.2) == [("b.npz", False)]
    assert after(17) == [("b.npz", False)]
    assert after(1) == [("a.csv", False), ("b.npz", False)]
    for one in look:
        look.finish(one)
    assert after(99) == []
    assert look.waiting == 0
    (tmp_path / "a.csv").rename(tmp_path / "c.csv")
    assert after(1) == []
    assert after(99) == [("c.csv", False)]


def test_files_may_have_any_name(folder: Path, tiny_model: Path) -> None:
    (folder / "0.csv").rename(folder / "a::b [1]*.csv")
    (folder / "1.csv").rename(folder / "лифт.csv")
    with patch.object(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii")) as printed:
        argv = ["dfstrans", "watch", str(folder), "--model", str(tiny_model), "--once", "--settle", str(SETTLE)]
        with patch.object(sys, "argv", argv), pytest.raises(SystemExit):
            main()
        printed.seek(0)
        lines = printed.readlines()
    assert {row["file"] for row in rows(folder, "results")} == {"a::b [1]*.csv", "лифт.csv"}
    assert not rows(folder, "rejects")
    assert any("\\u043b" in line for line in lines)


# ---- poison ---------------------------------------------------------------------------------------------------------


def test_a_poison_file_is_set_aside_until_it_changes(folder: Path, tiny_model: Path) -> None:
    (folder / "bad.csv").write_text("x,y\n1,2\n")
    (folder / "bad.h5").write_bytes(b"damaged")
    for _ in range(2):
        found, rejects = watched(folder, tiny_model)
        assert len(found) == 12
        assert [row["file"] for row in rejects] == ["bad.csv", "bad.h5"]
        assert "missing: S1" in rejects[0]["reason"]
    part(2).to_csv(folder / "bad.csv", index=False)
    found, rejects = watched(folder, tiny_model)
    assert (len(found), len(rejects)) == (18, 2)
    assert (folder / "bad.h5").exists()


def test_a_recording_that_cannot_be_scored_is_rejected_alone(folder: Path, tiny_model: Path) -> None:
    table = part(2)
    table.loc[table["episode_id"] == "2-run_0001", ["S1", "S2", "S3"]] = np.nan
    table.to_csv(folder / "0.csv", index=False)
    found, rejects = watched(folder, tiny_model)
    assert len(found) == 11
    assert [(row["file"], row["episode_id"]) for row in rejects] == [("0.csv", "2-run_0001")]


def test_a_file_on_which_watchers_die_is_rejected(
    folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Scorer.opened

    def deadly(self: Scorer, source: Any) -> Any:
        if source.address.endswith("0.csv"):
            raise KeyboardInterrupt  # like a kill: nothing in the watcher may catch it
        return opened(self, source)

    monkeypatch.setattr(Scorer, "opened", deadly)
    for _ in range(3):
        assert run("watch", folder, "--model", tiny_model, "--once", "--settle", SETTLE)[0] == 130
    found, rejects = watched(folder, tiny_model)
    assert {row["file"] for row in found} == {"1.csv"}
    assert [row["file"] for row in rejects] == ["0.csv"]
    assert "3 watchers died" in rejects[0]["reason"]


@pytest.mark.parametrize("early", [False, True])
def test_a_closed_output_ends_the_watcher_and_rejects_nothing(folder: Path, tiny_model: Path, early: bool) -> None:
    def closed(_: dict[str, Any]) -> None:
        raise BrokenPipeError

    out = folder.with_name("in-results")
    out.mkdir()
    scorer = Scorer.load(tiny_model, read={"length": 48} if early else None)
    watcher = Watcher(scorer, folder, out, settle=SETTLE, on_row=closed)
    if early:
        watcher.look()
        with (folder / "0.csv").open("a") as file:
            file.write(part(0).to_csv(index=False, header=False).replace("0-run", "9-run"))
    with pytest.raises(BrokenPipeError):
        watcher.run(once=True)
    assert rows(folder, "results")
    assert not rows(folder, "rejects")


# ---- growing files --------------------------------------------------------------------------------------------------


def test_a_watcher_that_died_while_it_noted_its_file_starts_again(folder: Path, tiny_model: Path) -> None:
    folder.with_name("in-results").mkdir()
    (folder.with_name("in-results") / "_current.json").write_text('["0.csv", 1')
    assert len(watched(folder, tiny_model)[0]) == 12


def growing(tmp_path: Path, n_points: int, *, rate: int = 100) -> list[str]:
    """The lines of a recording without an id."""
    values = np.random.default_rng(0).normal(size=(n_points, 3))
    table = pd.DataFrame(values, columns=["S1", "S2", "S3"])
    table.insert(0, "time [s]", np.arange(n_points) / rate)
    table.to_csv(tmp_path / "whole.csv", index=False)
    return (tmp_path / "whole.csv").read_text().splitlines(keepends=True)


def test_pieces_of_a_growing_file_are_scored_as_they_complete(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "REST", 0)
    lines, folder, out = growing(tmp_path, 192), tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    scorer = Scorer.load(tiny_model, read={"length": 48})
    watcher = Watcher(scorer, folder, out, settle=SETTLE)
    seen = []
    for end in (10, 48, 49, 100, 151):  # a header and then points; the last line is cut in the middle of a number
        (folder / "live.csv").write_text("".join(lines[:end]) + lines[end][:-3])
        watcher.look()
        seen.append(watcher.counts["recordings"])
    assert seen == [0, 0, 1, 2, 3]
    (folder / "live.csv").write_text("".join(lines))
    time.sleep(SETTLE)
    watcher = Watcher(scorer, folder, out, settle=SETTLE)  # as after a restart
    watcher.run(once=True)
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [row["episode_id"].rpartition("@")[2] for row in found] == ["0", "48", "96", "144"]
    assert {row["file"] for row in found} == {"live.csv"}
    whole = result_of("predict", tiny_model, tmp_path / "whole.csv", "--length", 48)["predictions"]
    assert [row["probability"] for row in found] == pytest.approx([one["probability"] for one in whole], abs=1e-6)
    assert not (out / "rejects.jsonl").exists()


def test_a_growing_file_that_no_reader_understands_waits_until_it_settles(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, folder, out = growing(tmp_path, 96), tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    watcher = Watcher(Scorer.load(tiny_model, read={"length": 48}), folder, out, settle=SETTLE)
    opened = Scorer.opened

    def confused(self: Scorer, source: Any) -> Any:
        if "dfstrans-" in source.address:
            raise KeyError("a column that is not complete")
        return opened(self, source)

    monkeypatch.setattr(Scorer, "opened", confused)
    for end in (60, len(lines)):
        (folder / "live.csv").write_text("".join(lines[:end]))
        watcher.look()
    assert not watcher.counts
    watcher.run(once=True)
    assert watcher.counts["recordings"] == 2


def early_warning(model: str, thresholds: dict[int, float]) -> EarlyWarning:
    steps = [
        Step(points=n, share=n / 96, threshold=t, pr_auc=1, f1=1, recall=1, false_alarms_per_100_normal=0)
        for n, t in (thresholds | {96: 1.0}).items()
    ]
    return EarlyWarning(model=model, episodes=1, anomalous=1, typical=96, steps=steps)


def test_a_growing_recording_gives_one_early_alarm(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "REST", 0)
    lines, folder, out = growing(tmp_path, 96), tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    scorer = Scorer.load(tiny_model)
    scorer.detector.threshold_ = scorer.detector.threshold_.model_copy(update={"value": 0.0})
    early = early_warning(scorer.version, {16: 1.0, 48: 0.0, 64: 0.0})
    for end in (9, 12, 34, 60, 61, 81):
        watcher = Watcher(scorer, folder, out, settle=SETTLE, early=early)  # as after a restart
        (folder / "live.csv").write_text("".join(lines[:5]))
        watcher.look()
        (folder / "live.csv").write_text("".join(lines[: end + 1]))
        watcher.look()
    found = list(Journal(out / "early.jsonl"))
    assert [row["points"] for row in found] == [16, 32, 48, 64, 80]
    assert [row["anomalous"] for row in found] == [0, 0, 1, 0, 0]
    assert [row["threshold"] for row in found] == [1.0, None, 0.0, 0.0, None]
    assert [row["share"] for row in found] == pytest.approx([n / 96 for n in (16, 32, 48, 64, 80)])
    whole = pd.read_csv(tmp_path / "whole.csv")[["S1", "S2", "S3"]].to_numpy(np.float32).T
    expected = Diagnoser.load(tiny_model).predict_prefixes(whole[np.newaxis])[0]
    assert [row["probability"] for row in found] == pytest.approx(expected[:5], abs=1e-6)
    assert not (out / "results.jsonl").exists()
    watcher = Watcher(scorer, folder, out, settle=SETTLE, early=early)
    watcher.run(once=True)
    assert len(list(Journal(out / "results.jsonl"))) == 1
    assert len(list(Journal(out / "early.jsonl"))) == 5


def test_a_resampled_recording_gives_one_early_alarm(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "REST", 0)
    lines, folder, out = growing(tmp_path, 96, rate=200), tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    scorer = Scorer.load(tiny_model, read={"resample": "10ms"})
    scorer.detector.threshold_ = scorer.detector.threshold_.model_copy(update={"value": 0.0})
    watcher = Watcher(scorer, folder, out, settle=SETTLE, early=early_warning(scorer.version, {16: 0.0, 48: 0.0}))
    for end in range(30, 70):
        (folder / "live.csv").write_text("".join(lines[:end]))
        watcher.look()
    assert watcher.counts["early"] == 1
    assert [row["points"] for row in Journal(out / "early.jsonl")] == [16, 32]


def test_early_alarms_of_recordings_that_are_cut_are_refused(folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    early_warning(Scorer.load(tiny_model).version, {16: 0.5}).save(tmp_path)
    words = ("watch", folder, "--model", tiny_model, "--once", "--settle", SETTLE)
    for option in ("--length", "--clip-beyond"):
        assert f"got {option} 48" in refused(*words, "--early", tmp_path, option, 48)


# ---- one watcher, one model -----------------------------------------------------------------------------------------


def test_a_second_watcher_is_refused_with_the_name_of_the_first(folder: Path, tiny_model: Path) -> None:
    with only_watcher(folder.with_name("in-results")):
        assert f"process {os.getpid()} on" in refused("watch", folder, "--model", tiny_model, "--once")
    assert len(watched(folder, tiny_model)[0]) == 12


def test_results_of_another_model_are_continued_only_on_request(folder: Path, tiny_model: Path, exported: Path) -> None:
    first, _ = watched(folder, tiny_model)
    told = refused("watch", folder, "--model", exported, "--once")
    assert "of the model" in told
    assert "--new-model" in told
    part(2).to_csv(folder / "2.csv", index=False)
    found, _ = watched(folder, exported, "--new-model")
    assert found[:12] == first
    assert names(found[12:]) == [f"2-run_000{n}" for n in range(6)]
    assert len({row["model"] for row in found}) == 2


def test_other_folders_are_not_used_for_results(folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    assert "something else" in refused("watch", folder, "--model", tiny_model, "--out", tmp_path / "other")
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["letter.txt"]
    assert "folder to watch" in refused("watch", folder / "0.csv", "--model", tiny_model)
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path):
        words = ("watch", tmp_path / "empty", "--model", tiny_model, "--once")
        assert "choose another --out" in refused(*words, "--out", out)


def test_results_inside_the_folder_are_not_recordings(folder: Path, tiny_model: Path) -> None:
    for _ in range(2):
        output_of("watch", folder, "--model", tiny_model, "--once", "--settle", SETTLE, "--out", folder / "out")
    assert len(list(Journal(folder / "out" / "results.jsonl"))) == 12
    assert not (folder / "out" / "rejects.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_watcher_cleanly(folder: Path, tiny_model: Path, number: int) -> None:
    results = folder.with_name("in-results")

    def stop() -> None:
        while not (results / "_files.jsonl").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = Thread(target=stop)
    thread.start()
    before = signal.getsignal(number)
    out, err = output_of("watch", folder, "--model", tiny_model, "--settle", SETTLE, "--json")
    thread.join()
    assert signal.getsignal(number) is before
    assert "scored" in err
    assert [json.loads(line) for line in out.splitlines()] == rows(folder, "results")
    assert len(watched(folder, tiny_model)[0]) == 12


# ---- webhooks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "FIRST_WAIT", 0.02)


@pytest.fixture
def calm_model(tiny_model: Path, tmp_path: Path, folder: Path) -> Path:
    """A model that calls about half of the recordings anomalous."""
    detector = Diagnoser.load(tiny_model)
    found = [detector.predict_proba(detector.load_episodes(file, need_labels=False)) for file in folder.iterdir()]
    value = float(np.median(np.concatenate(found)[:, 1]))
    detector.threshold_ = detector.threshold_.model_copy(update={"value": value})
    detector.save(tmp_path / "calm")
    return tmp_path / "calm"


@pytest.mark.usefixtures("impatient")
def test_alarms_are_sent_signed_and_again_until_they_are_accepted(
    folder: Path, calm_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("top secret\n")
    with receiver(lambda request: (503, 302, 200)[request % 3]) as there:
        found, _ = watched(folder, calm_model, "--webhook", there.url, "--webhook-secret-file", tmp_path / "secret")
        alarms = {row["event"]: row for row in found if row["anomalous"]}
        assert 0 < len(alarms) < 12
        assert there.accepted == dict.fromkeys(alarms, 1)
        assert there.bodies == alarms
        requests = there.requests
        watched(folder, calm_model, "--webhook", there.url, "--webhook-secret-file", tmp_path / "secret")
        assert there.requests == requests
    for headers, body in there.headers:
        signed = headers["Dfstrans-Timestamp"].encode() + b"." + body
        expected = hmac.new(b"top secret", signed, hashlib.sha256).hexdigest()
        assert headers["Dfstrans-Signature"] == f"sha256={expected}"
        assert abs(int(headers["Dfstrans-Timestamp"]) - time.time()) < 60


@pytest.mark.usefixtures("impatient")
def test_what_a_receiver_refused_is_sent_by_the_next_run(folder: Path, calm_model: Path) -> None:
    words = ("watch", folder, "--model", calm_model, "--once", "--settle", SETTLE, "--webhook")
    with receiver(lambda _: 500) as there:
        code, _, err = run(*words, there.url)
    assert code == 1
    assert "HTTP 500" in err
    alarms = {row["event"] for row in rows(folder, "results") if row["anomalous"]}
    assert f"{len(alarms)} not delivered" in err
    with receiver() as there:
        output_of(*words, there.url)
    assert there.accepted == dict.fromkeys(alarms, 1)


@pytest.mark.usefixtures("impatient")
def test_a_receiver_that_hangs_is_asked_six_times_however_many_events_wait(
    folder: Path, calm_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def hang(request: Any, **_: Any) -> None:
        asked.append(request)
        raise TimeoutError

    monkeypatch.setattr(webhook._OPENER, "open", hang)
    code, _, err = run(
        "watch", folder, "--model", calm_model, "--once", "--settle", SETTLE, "--webhook", "http://localhost"
    )
    assert code == 1
    assert "not delivered" in err
    assert len(asked) < 2 * ATTEMPTS  # events may come after the first attempts


def test_the_wait_for_a_receiver_is_limited_however_often_it_fails() -> None:
    waits = [webhook.seconds_to_wait(failures, 1.0) for failures in range(2000)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[9:] == [webhook.LONGEST_WAIT] * 1991


def test_all_results_are_sent_on_request(folder: Path, tiny_model: Path) -> None:
    with receiver() as there:
        found, _ = watched(folder, tiny_model, "--webhook", there.url, "--webhook-events", "all")
    assert there.accepted == dict.fromkeys((row["event"] for row in found), 1)


def test_wrong_webhooks_are_refused(folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    words = ("watch", folder, "--model", tiny_model, "--once")
    for address in ("example.com", "http://:80", "http://example.com:port", "http://лифт.example", "http://a b"):
        assert "https://" in refused(*words, "--webhook", address)
    assert "expected --webhook" in refused(*words, "--webhook-secret-file", tmp_path / "secret")
    (tmp_path / "secret").write_text("\n")
    for file in ("secret", "absent"):
        assert file in refused(*words, "--webhook", "http://localhost", "--webhook-secret-file", tmp_path / file)


def test_a_full_disk_ends_the_watcher(folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("dfstrans.scale.journal.os", SimpleNamespace(**vars(os) | {"fsync": full}))
        for _ in range(MOST_DEATHS + 1):  # none of them counts as a death
            assert "free some space" in refused("watch", folder, "--model", tiny_model, "--once", "--settle", SETTLE)
            assert len(rows(folder, "results")) == 6  # nothing is written after the first failure
            (folder.with_name("in-results") / "results.jsonl").unlink()
    found, rejects = watched(folder, tiny_model)
    assert (len(found), rejects) == (12, [])


def test_journals_are_cut_at_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text('{"a": 1}\n' + '"' + "x" * 200_000)
    assert list(Journal(path)) == [{"a": 1}]
    path.write_text("x" * 200_000)
    assert list(islice(Journal(path), 1)) == []
    path.write_text("x\n")
    with pytest.raises(DfstransError, match="line 1"):
        list(Journal(path))
