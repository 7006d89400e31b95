"""The store of runs: added one at a time, read back, never overwritten."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from dfstrans.errors import DfstransError
from dfstrans.lab.compare.runs import RunKey, add_run, claimed, is_claimed, read_runs, training_folder
from tests.lab.compare.made_up import made_up_run


def key_of(fold: int = 0) -> RunKey:
    run = made_up_run(fold=fold)
    return RunKey(
        model="boosting",
        fold=fold,
        split="random",
        seed=0,
        fingerprint="f",
        parts=run.parts,
        settings=run.settings,
        baseline="none",
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "results" / "runs.jsonl"


def test_runs_are_read_back_sorted_one_per_line(store: Path) -> None:
    runs = [made_up_run(model, fold) for model, fold in (("tapnet", 0), ("boosting", 1), ("boosting", 0))]
    for run in runs:
        add_run(store, run)
    assert read_runs(store) == sorted(runs, key=lambda run: (run.model, run.fold))
    assert len(store.read_text().splitlines()) == 3
    assert [path.name for path in store.parent.iterdir()] == ["runs.jsonl"]  # no lock is left
    assert read_runs(store.with_name("absent.jsonl")) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # what is forked here holds no locks
def test_processes_that_add_runs_at_once_lose_none(store: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.starmap(add_run, [(store, made_up_run(fold=fold)) for fold in range(12)], chunksize=1)
    assert [run.fold for run in read_runs(store)] == list(range(12))


def test_claimed_run_is_free_again_when_the_claim_ends(store: Path) -> None:
    assert not is_claimed(store, key_of())
    with claimed(store, key_of()) as free, claimed(store, key_of()) as again, claimed(store, key_of(1)) as other:
        assert (free, again, other) == (True, False, True)
        assert is_claimed(store, key_of())
    assert not is_claimed(store, key_of())


def test_progress_is_kept_until_the_run_is_finished(store: Path) -> None:
    folder = training_folder(store, key_of())
    with claimed(store, key_of()):
        folder.mkdir()
    assert folder.exists()
    with claimed(store, key_of()):
        add_run(store, made_up_run())
    assert [path.name for path in store.parent.iterdir()] == ["runs.jsonl"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "cannot be read"),
        ("[]", "something else"),
        ('{"version": 99, "versions": {"dfstrans": "7.0"}}', r"version 99.*\(7.0\)"),
        ('{"version": 4}', "damaged"),
    ],
)
def test_damaged_or_foreign_lines_are_refused_and_kept(store: Path, content: str, what: str) -> None:
    add_run(store, made_up_run())
    text = store.read_text() + content + "\n"
    store.write_text(text)
    with pytest.raises(DfstransError, match=rf"runs.jsonl, line 2.*{what}"):
        read_runs(store)
    with pytest.raises(DfstransError, match=what):
        add_run(store, made_up_run(fold=1))
    assert store.read_text() == text


@pytest.mark.parametrize(
    ("part", "metrics", "what"),
    [
        ("test", {"anomalous": ..., "roc_auc": ...}, "got none for anomalous, roc_auc"),
        ("test", {"pr_auc": -0.1}, "expected pr_auc between 0 and 1, got -0.1"),
        ("test_at_half", {"f1": ...}, "got none for f1"),
        ("validation", {"f1": 1.5}, "expected f1 between 0 and 1, got 1.5"),
    ],
)
def test_missing_or_impossible_metrics_count_as_damage(
    store: Path, part: str, metrics: dict[str, Any], what: str
) -> None:
    add_run(store, made_up_run())
    content = json.loads(store.read_text())
    changed = {**content[part], **metrics}
    content[part] = {name: value for name, value in changed.items() if value is not ...}
    store.write_text(json.dumps(content))
    with pytest.raises(DfstransError, match=f"damaged one .{part}: .*{what}.*restore"):
        read_runs(store)
