"""A queue of experiments is computed once, resumes where it was killed, and refuses what it cannot trust."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from dfstrans import save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.files import explain_disk_errors
from dfstrans.lab.compare.grid import Grid
from dfstrans.lab.compare.runs import Run, RunKey, add_run, read_runs
from dfstrans.lab.paper.queue import compute_queue, finished, progress_of, read_queue
from tests.cli.command_line import run
from tests.lab.compare.made_up import made_up_run
from tests.tiny import interrupt_after

QUICK = "extra-trees+trees=2"
NETWORK = "mh1dcnn-lstm+epochs=3"
STORED = Path(__file__).parents[3] / "results" / "queue.toml"


@pytest.fixture(autouse=True)
def planted_journeys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted episodes instead of simulated journeys."""

    def simulate(path: Path, _: str) -> None:
        if not path.exists():
            save_episodes(planted_episodes(40, 20, n_sensors=2, n_timepoints=48), path)

    monkeypatch.setattr("dfstrans.lab.paper.queue.simulate_elevator", simulate)


def entry(models: str = QUICK, splits: str = "0, 1", more: str = "", data: str = "elevator") -> str:
    names = ", ".join(f'"{name}"' for name in models.split(","))
    return f'[[runs]]\ndata = ["{data}"]\nprotocols = ["no-overlap"]\nmodels = [{names}]\nsplits = [{splits}]\n{more}\n'


def queue_file(folder: Path, *entries: str) -> Path:
    path = folder / "queue.toml"
    path.write_text("".join(entries))
    return path


def store_in(folder: Path) -> Path:
    return folder / "elevator_small_no-overlap.jsonl"


def computed(queue: Path) -> tuple[list[str], dict[str, str]]:
    begun: list[str] = []
    folder = queue.parent
    failed = compute_queue(read_queue(queue), folder, folder, lambda wanted: begun.append(wanted.label))
    return [label.removeprefix("elevator_small_no-overlap: ") for label in begun], failed


# ---- what is wanted -------------------------------------------------------------------------------------------------


def test_stored_queue_is_valid_and_begins_with_the_default_detector() -> None:
    queue = read_queue(STORED)
    assert queue[0].label == "msl_no-overlap: committee, split 0"
    assert {run.data for run in queue} == {"msl", "smap", "smd", "elevator"}
    assert [(run.model, run.split) for run in queue[:9]] == [*8 * [("committee", 0)], ("committee", 1)]


def test_queue_is_read_split_by_split_with_settings_in_the_names_of_models(tmp_path: Path) -> None:
    queue = read_queue(queue_file(tmp_path, entry("extra-trees,trees", more="settings = { trees = 2 }")))
    assert [(wanted.model, wanted.split) for wanted in queue] == [
        ("extra-trees+trees=2", 0),
        ("trees+trees=2", 0),
        ("extra-trees+trees=2", 1),
        ("trees+trees=2", 1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry("leakag"), "entry 1 of .*got leakag; did you mean leakage?"),
        (entry(data="smdd"), "entry 1 of .*expected data among .*got smdd; did you mean smd?"),
        (entry() + entry("trees", more="settings = { tree = 1 }"), "entry 2 of .*got 'tree=1'.*did you mean trees?"),
        (entry().replace("no-overlap", "overlap"), "entry 1 of .*protocols.*no-overlap"),
        (entry(splits="-1"), "entry 1 of .*splits.*-1"),
        (entry(more='preset = "big"'), "entry 1 of .*preset.*small"),
        (entry(more="folds = 2"), "entry 1 of .*unknown setting 'folds'; expected one of: data, protocols"),
        (entry() + entry(splits="1"), "entry 2 of .*each run once, got .*trees=2, split 1 twice; keep one"),
        ("", "expected a queue of .*got nothing; correct the file"),
        ("runs = 1", "expected a queue of .*got runs; correct the file"),
        ("[[runs", "expected a queue of experiments at .*correct the file"),
    ],
)
def test_impossible_queue_is_refused_with_its_entry(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=message.replace("?", r"\?")):
        read_queue(queue_file(tmp_path, text))


def test_missing_queue_and_missing_data_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    code, _, err = run("experiments", "status", tmp_path / "queue.toml")
    assert code == 2
    assert "expected a queue of experiments at" in err
    queue = queue_file(tmp_path, entry(), entry(data="msl"))
    code, _, err = run("experiments", "run", queue, "--data", tmp_path)
    assert code == 2
    assert "expected telemanom/ in" in err
    assert not store_in(tmp_path).exists()


# ---- what is computed -----------------------------------------------------------------------------------------------


def test_runs_are_computed_once_and_appear_in_the_tables(tmp_path: Path) -> None:
    queue = queue_file(tmp_path, entry(f"{QUICK},leakage"))
    code, _, err = run("experiments", "run", queue, "--data", tmp_path)
    assert code == 0, err
    assert "0 of 4 runs finished, 4 left: duration unknown\n" in err
    assert f"elevator_small_no-overlap: {QUICK}, split 1: F1 " in err
    assert err.endswith("4 of 4 runs finished\n")
    before = store_in(tmp_path).read_bytes()
    assert computed(queue) == ([], {})
    assert store_in(tmp_path).read_bytes() == before
    queue_file(tmp_path, entry(f"{QUICK},leakage", splits="0, 2"))  # another queue, which has split 0 as well
    assert computed(queue) == ([f"{QUICK}, split 2", "leakage, split 2"], {})
    command = ["reproduce", "tab:qresults", "--finished", "--out", tmp_path, "--data-sets", "elevator"]
    code, out, err = run(*command, "--protocol", "no-overlap", "--models", "leakage", "--json")
    assert code == 0, err
    table = json.loads(out)["protocols"]["no-overlap"]["elevator"]
    assert table["models"]["leakage"]["splits"] == [0, 1, 2]


def test_killed_run_resumes_at_its_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_file(tmp_path, entry(NETWORK, splits="0"))
    epochs = interrupt_after(2, monkeypatch)
    code, _, err = run("experiments", "run", queue, "--data", tmp_path)
    assert code == 130
    assert "interrupted; finished runs and epochs are kept" in err
    code, out, _ = run("experiments", "status", queue)
    assert code == 0
    assert f"unfinished: elevator_small_no-overlap: {NETWORK}, split 0, 2 of 3 epochs" in out
    assert out.endswith("0 of 1 run finished, 1 left: about 0.0 hours\n")
    assert computed(queue) == ([f"{NETWORK}, split 0"], {})
    assert epochs == [0, 1, 2, 2]
    assert [made.training.epochs for made in read_runs(store_in(tmp_path))] == [3]


def test_failed_model_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Grid.compute

    def fail(self: Grid, key: RunKey) -> list[Run]:
        if key.model == "leakage":
            raise RuntimeError("no convergence")
        return compute(self, key)

    monkeypatch.setattr(Grid, "compute", fail)
    queue = queue_file(tmp_path, entry(f"leakage,{QUICK}", splits="0"))
    code, _, err = run("experiments", "run", queue, "--data", tmp_path)
    assert code == 1
    assert "leakage, split 0 failed: internal error (RuntimeError: no convergence)" in err
    assert [made.model for made in read_runs(store_in(tmp_path))] == [QUICK]


def test_full_disk_stops_the_queue_and_loses_no_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_file(tmp_path, entry(splits="0, 1, 2"))

    def disk_with_room_for_one(store: Path, made: Run) -> None:
        with explain_disk_errors(store):
            if made.fold == 1:
                raise OSError(errno.ENOSPC, "No space left on device")
        add_run(store, made)

    with monkeypatch.context() as patch:
        patch.setattr("dfstrans.lab.compare.grid.add_run", disk_with_room_for_one)
        code, _, err = run("experiments", "run", queue, "--data", tmp_path)
    assert code == 2
    assert "No space left on device; free some space" in err
    assert "split 2" not in err
    assert [made.fold for made in read_runs(store_in(tmp_path))] == [0]
    assert computed(queue) == ([f"{QUICK}, split 1", f"{QUICK}, split 2"], {})


def test_second_queue_on_the_same_results_is_refused(tmp_path: Path) -> None:
    queue = queue_file(tmp_path, entry(splits="0"))
    said: list[tuple[int, str]] = []

    def start_another(_: object) -> None:
        code, _, err = run("experiments", "run", queue, "--data", tmp_path)
        said.append((code, err))

    assert compute_queue(read_queue(queue), tmp_path, tmp_path, start_another) == {}
    ((code, err),) = said
    assert code == 2
    assert f"expected no other queue at work on {tmp_path}, got one; let it finish, stop it" in err
    assert len(read_runs(store_in(tmp_path))) == 1


# ---- results that cannot be trusted ---------------------------------------------------------------------------------


def test_nothing_is_added_to_results_on_other_recordings_or_other_parts(tmp_path: Path) -> None:
    queue = queue_file(tmp_path, entry(splits="0"))
    assert computed(queue)[1] == {}
    (made,) = read_runs(store_in(tmp_path))
    for other in (
        made.model_copy(update={"data": made.data.model_copy(update={"fingerprint": "f"})}),
        made.model_copy(update={"parts": "other"}),  # of a version that split in another way
    ):
        store_in(tmp_path).unlink()
        add_run(store_in(tmp_path), other)
        before = store_in(tmp_path).read_bytes()
        queue_file(tmp_path, entry("leakage", splits="0"), entry(splits="1"))
        labels, failed = computed(queue)
        assert len(labels) == len(failed) == 2
        assert f"{QUICK}, split 0" in failed["elevator_small_no-overlap: leakage, split 0"]
        assert all("nothing was overwritten" in message for message in failed.values())
        assert store_in(tmp_path).read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version":4', '"version":3', "got one of version 3, expected 4"),
        ('"trees":2', '"trees":3', "trees=3 instead of 2"),
        ('"fold":0', '"fold":', "text that cannot be read"),
    ],
)
def test_results_of_another_version_or_other_settings_are_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    queue = queue_file(tmp_path, entry())
    add_run(store_in(tmp_path), made_up_run(QUICK))
    text = store_in(tmp_path).read_text()
    assert old in text
    store_in(tmp_path).write_text(text.replace(old, new))
    for command in (["run", queue, "--data", tmp_path], ["status", queue]):
        code, _, err = run("experiments", *command)
        assert code == 2
        assert message in err
    assert store_in(tmp_path).read_text() == text.replace(old, new)


# ---- what is left ---------------------------------------------------------------------------------------------------


def test_hours_left_follow_from_finished_runs_of_the_same_model_and_recordings(tmp_path: Path) -> None:
    grouped = entry(splits="0").replace("no-overlap", "grouped")
    queue = queue_file(tmp_path, entry(splits="0, 1, 2"), grouped, entry("leakage", splits="0"))
    add_run(store_in(tmp_path), made_up_run(QUICK))  # 20 seconds
    progress = progress_of(read_queue(queue), tmp_path)
    assert [*finished(read_queue(queue), tmp_path)] == read_queue(queue)[:1]
    assert [*progress.left.values()] == [20.0, 20.0, 20.0, None]
    assert (progress.seconds, progress.unknown) == (60.0, 1)
    code, out, err = run("experiments", "status", queue, "--json")
    assert code == 0, err
    status = json.loads(out)
    assert (status["runs"], status["finished"], status["hours_left"], status["of_unknown_duration"]) == (5, 1, 0.02, 1)
    assert [row["hours_left"] for row in status["models"]] == [0.01, 0.01, None]
    _, out, _ = run("experiments", "status", queue)
    assert out.endswith("1 of 5 runs finished, 4 left: about 0.0 hours for 3, unknown for 1\n")
