"""What is known of the machines of the test part: nothing, their first recordings, or all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, Episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.protocols import BASELINES, BaselineName, known_and_evaluated
from dfstrans.lab.compare.runs import Run, read_runs
from tests.cli.command_line import run as run_command

MODELS = ("trees+trees=10+segment_length=16", "boosting+trees=2", "extra-trees-machine+trees=10")


@pytest.fixture(scope="module")
def fleet() -> Episodes:
    """Seven machines of ten episodes, each at a level of its own."""
    base = planted_episodes(40, 30, n_sensors=2, n_timepoints=48)
    groups = np.array([f"m{row % 7}" for row in range(70)])
    levels = (np.arange(70) % 7)[:, None, None]
    return Episodes.from_arrays(np.asarray(base.values) + levels, base.labels, groups=groups)


def comparison(store: Path, baseline: BaselineName = "none") -> Comparison:
    return Comparison(Path("fleet.h5"), store, MODELS, folds=1, split="grouped", baseline=baseline)


@pytest.fixture(scope="module")
def runs(fleet: Episodes, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """All runs of a grouped split, from one training of each model."""
    store, begun = tmp_path_factory.mktemp("results") / "runs.jsonl", []
    for baseline in ("first", "none", "own"):
        compute_runs(Grid(comparison(store, baseline), fleet), begin=begun.append)
    assert [(key.model, key.baseline) for key in begun] == [(model, "first") for model in MODELS]
    return read_runs(store)


def test_first_recordings_of_each_machine_are_known_and_not_judged() -> None:
    values, groups = np.zeros((11, 1, 4)), np.array([*"aaaaaaa", *"bbb", "c"])
    known, evaluated = known_and_evaluated(Episodes.from_arrays(values, groups=groups), "first")
    assert known.tolist() == [0, 1, 7]
    assert evaluated.tolist() == [2, 3, 4, 5, 6, 8, 9, 10]  # a single recording is evaluated
    backwards = np.datetime64("2026-01-12") - np.arange(11)
    known, _ = known_and_evaluated(Episodes.from_arrays(values, groups=groups, starts=backwards), "first")
    assert known.tolist() == [5, 6, 9]


@pytest.mark.parametrize(("baseline", "known", "evaluated"), [("none", 0, 5), ("own", 5, 5)])
def test_recordings_are_known_and_evaluated_as_the_baseline_says(
    baseline: BaselineName, known: int, evaluated: int
) -> None:
    episodes = Episodes.from_arrays(np.zeros((5, 1, 4)), groups=[*"aaabb"])
    assert tuple(map(len, known_and_evaluated(episodes, baseline))) == (known, evaluated)


def test_one_training_is_judged_with_every_baseline(runs: list[Run]) -> None:
    assert [(run.model, run.protocol.baseline) for run in runs] == [
        (model, baseline) for model in sorted(MODELS) for baseline in ("none", "first", "own")
    ]
    boosting, rival, trees = ({run.protocol.baseline: run for run in runs if run.model == m} for m in sorted(MODELS))
    assert all(run.machines is not None and run.machines.compared == 0 for run in boosting.values())
    assert boosting["own"].test == boosting["none"].test
    for model in (rival, trees):
        assert model["own"].test != model["none"].test
        machines = model["own"].machines
        assert machines is not None
        assert machines.compared == machines.evaluated
    assert trees["first"].test["episodes"] == 0.7 * (trees["none"].test["episodes"] or 0)
    assert "--split grouped --baseline own" in trees["own"].command
    assert "--baseline" not in trees["none"].command


def test_table_names_the_baseline_and_who_cannot_use_it(runs: list[Run]) -> None:
    own = ComparisonResult(MODELS, tuple(run for run in runs if run.protocol.baseline == "own"), folds=1)
    table = own.table()
    assert "protocol grouped, baseline own, seed 0" in table.title
    assert table.columns[2:6] == ("PR-AUC", "95 % interval", "chance", "F1")
    assert any("all recordings are known without their labels" in note for note in table.notes)
    assert any(note.startswith(f"{MODELS[0]} compares ") for note in table.notes)
    assert (
        f"{MODELS[1]} compares no test machine with itself, so the baseline makes no difference to it." in table.notes
    )
    assert own.to_dict()["protocol"]["baseline"] == "own"


def test_baseline_of_seen_machines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"baseline='own' only with split='grouped'.*omit it"):
        Comparison(Path("fleet.h5"), tmp_path, MODELS, baseline="own")


def test_published_recordings_are_a_baseline_of_every_model_that_can_use_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("test", "test_label", "train"):
        (tmp_path / "SMD" / part).mkdir(parents=True)
    for level in range(7):
        values, labels = rng.normal(size=(200, 2)) + level, np.repeat(np.arange(10) % 3 == 0, 20)
        values[labels] += rng.choice([-3, 3], size=(labels.sum(), 1))
        for part, numbers in (("test", values), ("test_label", labels), ("train", values[~labels])):
            file = tmp_path / "SMD" / part / f"machine-{level}.txt"
            np.savetxt(file, numbers, fmt="%d" if part == "test_label" else "%.4f", delimiter=",")
    models = ("trees+trees=10+segment_length=5", "boosting+trees=2", "extra-trees-machine+trees=10")
    place, read = (tmp_path / "SMD", tmp_path / "runs.jsonl"), {"length": 20}
    published = Comparison(*place, models, folds=1, split="grouped", baseline="published", read=read)
    assert compute_runs(Grid(published)) == {}
    stored = {(run.model, run.protocol.baseline): run for run in read_runs(tmp_path / "runs.jsonl")}
    assert {baseline for _, baseline in stored} == set(BASELINES)
    for model in models:
        run = stored[model, "published"]
        assert run.test["episodes"] == stored[model, "none"].test["episodes"]
        assert "--split grouped --baseline published" in run.command
        assert run.machines is not None
        assert run.machines.compared == (0 if model.startswith("boosting") else run.machines.evaluated)
        assert (run.test == stored[model, "none"].test) == model.startswith("boosting")


def test_published_baseline_needs_published_recordings(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"published folder train/ .* got none in .*\(none, first, own\)"):
        Comparison(tmp_path, tmp_path / "runs.jsonl", MODELS, split="grouped", baseline="published")


def test_command_writes_each_baseline_beside_the_others(fleet: Episodes, tmp_path: Path) -> None:
    save_episodes(fleet, tmp_path / "fleet.h5")
    command = ("compare", tmp_path / "fleet.h5", "--out", tmp_path, "--models", MODELS[0], "--folds", "1")
    for baseline in ("none", "own"):
        code, out, err = run_command(*command, "--split", "grouped", "--baseline", baseline)
        assert code == 0, err
        assert "chance" in out
    assert "are already finished" in err
    assert {"comparison.md", "comparison_own.md"} <= {path.name for path in tmp_path.iterdir()}
