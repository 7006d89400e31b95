from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, load_episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from tests.cli.command_line import SMALL as NETWORK
from tests.cli.command_line import output_of, refused, result_of, run

SMALL = [*NETWORK, "--epochs", "3", "--set", "members=network"]
FEW = ["--kinds", "level-shift,stuck", "--strength", "1,20", "--strength", "stuck=50", "--trials", "3"]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty normal episodes and five anomalous ones."""
    path = tmp_path_factory.mktemp("inject") / "recordings.h5"
    return save_episodes(planted_episodes(40, 5, n_sensors=3, n_timepoints=48, seed=1), path)


@pytest.fixture(scope="module")
def study(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a report, and what the command printed."""
    folder = tmp_path_factory.mktemp("study") / "report"
    return folder, result_of("inject", recordings, "--report", folder, *FEW, *SMALL)


def test_an_injected_set_is_written_with_its_truth(recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / "injected.h5"
    printed, said = output_of("inject", recordings, "--out", path, "--share", "0.25", "--seed", "3", "--json")
    found = json.loads(printed)
    assert "5 episodes labelled anomalous are skipped" in said
    assert f"train on {path} with --split grouped" in said
    assert (found["episodes"], found["injected"], found["seed"]) == (53, 13, 3)
    injected, source = load_episodes(path), load_episodes(recordings)
    assert injected.n_anomalous == 13
    assert injected.faults is not None
    assert sum(map(len, injected.faults)) == 13
    assert {str(name).split("+")[0] for name in injected.ids} <= set(source.ids.tolist())
    checked = result_of("data", "check", path)
    assert sum(checked["fault_kinds"].values()) == 13


def test_the_recordings_themselves_are_never_overwritten(recordings: Path, tmp_path: Path) -> None:
    before = recordings.read_bytes()
    assert "choose another name" in refused("inject", recordings, "--out", recordings)
    assert recordings.read_bytes() == before
    for seed in ("1", "2"):  # earlier injected faults may go
        printed, _ = output_of("inject", recordings, "--out", tmp_path / "a.h5", *FEW, "--seed", seed)
    assert "level-shift   13 at 1, 13 at 20 (standard deviations)" in printed
    assert "stuck         14 at 50 (% of the episode)" in printed


@pytest.mark.parametrize("name", ["injected.h5", "trials.h5"])
def test_recordings_in_the_folder_of_the_report_are_never_overwritten(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(recordings.read_bytes())
    monkeypatch.setattr("dfstrans.lab.injection.study.train_model", never_train)
    assert "or another folder" in refused("inject", path, "--report", tmp_path, *FEW, *SMALL)
    assert path.read_bytes() == recordings.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_injecting_into_injected_faults_does_not_overwrite_them(recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / "injected.h5"
    output_of("inject", recordings, "--out", path, *FEW)
    before = path.read_bytes()
    assert "other than that of the recordings" in refused("inject", path, "--report", tmp_path, *FEW, *SMALL)
    assert path.read_bytes() == before


def test_report_covers_every_kind_and_strength(study: tuple[Path, dict[str, Any]]) -> None:
    folder, found = study
    conditions = found["conditions"]
    assert [(condition["kind"], condition["strength"]) for condition in conditions] == [
        ("level-shift", 1.0),
        ("level-shift", 20.0),
        ("stuck", 50.0),
    ]
    for condition in conditions:
        assert condition["episodes"] == 3
        assert condition["recall"] == pytest.approx(condition["detected"] / 3)
        assert 0 <= condition["roc_auc"] <= 1
        for metric in condition["diagnosis"].values():
            assert 0 <= metric["chance"] <= 1  # AC@3 of three sensors is always 1
    assert found["false_alarms_per_100_normal"] >= 0
    assert json.loads((folder / "report.json").read_text())["conditions"] == conditions
    assert "level-shift" in (folder / "report.html").read_text()
    assert found["recordings"] == "recordings.h5"
    assert found["command"].startswith(
        "dfstrans inject recordings.h5 --report STUDY --kinds level-shift,stuck --strength 1,20"
    )
    assert found["epochs"] == len(Diagnoser.load(folder / "model").log_)


def test_trials_use_normal_episodes_outside_training(study: tuple[Path, dict[str, Any]]) -> None:
    folder, found = study
    injected, trials = load_episodes(folder / "injected.h5"), load_episodes(folder / "trials.h5")
    train, validation, test = injected.split(0, by_group=True)
    sources = {str(name).split("+")[0] for name in trials.ids}
    assert len(sources) == 3
    assert sources <= {str(name).split("+")[0] for name in test.ids}
    assert not sources & {str(name).split("+")[0] for part in (train, validation) for name in part.ids}
    assert found["normal_tested"] == len(test) - test.n_anomalous


def test_detection_is_that_of_the_saved_model(study: tuple[Path, dict[str, Any]]) -> None:
    folder, found = study
    model, trials = Diagnoser.load(folder / "model"), load_episodes(folder / "trials.h5")
    assert model.threshold_.rule == "false-alarm-rate"
    assert model.training_settings_.sensor_dropout == model.training_settings_.mixup == 0
    called = model.predict(trials)
    for condition in found["conditions"]:
        rows = [f"+{condition['kind']}@{condition['strength']:g}" in str(name) for name in trials.ids]
        assert condition["detected"] == int(called[np.array(rows)].sum())


def never_train(*_: Any, **__: Any) -> None:
    raise AssertionError("trained")


@pytest.mark.filterwarnings("always:.*is the result of this run")
def test_a_finished_run_is_printed_without_training_again(
    recordings: Path, study: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, found = study
    model = Diagnoser.load(folder / "model")
    command = ["inject", recordings, "--report", folder, *FEW, *SMALL, "--resume"]
    monkeypatch.setattr(Diagnoser, "fit", never_train)
    again, said = output_of(*command, "--json")
    assert json.loads(again) == found
    assert "already holds these faults" in said
    assert "is the result of this run" in said
    assert "replaced" not in said
    printed, remarks = output_of(*command)
    for words in ("20 standard deviations", "50 % of the episode", "false alarms per 100 normal episodes"):
        assert words in printed
    assert f"threshold {model.threshold_.value:.4g}: {model.threshold_.note}" in printed
    assert ("(0.33)" in printed) == any(condition["detected"] for condition in found["conditions"])  # one of three
    assert printed.splitlines()[-2:] == [
        f"written   {folder / 'injected.h5'}",
        f"report    {folder / 'report.html'}",
    ]
    assert found["threshold_note"] == model.threshold_.note
    assert found["chance_check"] == model.chance_check._asdict()
    assert not model.chance_check.better_than_guessing
    assert f"warning: {model.chance_check.sentence}" in remarks


@pytest.mark.filterwarnings("always:.*is the result of this run")
def test_finished_run_with_automatic_batch_size_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_episodes(planted_episodes(130, 0, n_sensors=2, n_timepoints=48), tmp_path / "normal.h5")
    chosen = [*SMALL[: SMALL.index("--batch-size")], *SMALL[SMALL.index("--batch-size") + 2 :], "--epochs", "1"]
    command = ["inject", str(path), "--report", str(tmp_path / "r"), "--kinds", "spike", "--trials", "1", *chosen]
    output_of(*command)
    used = Diagnoser.load(tmp_path / "r" / "model").training_settings_.batch_size
    assert used == 18  # a tenth of the training part, which a tenth of the whole set (26) is not
    monkeypatch.setattr(Diagnoser, "fit", never_train)
    assert "is the result of this run" in output_of(*command, "--resume")[1]


def test_interrupted_training_resumes(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfstrans.training.lightning_module import EpochLog

    command = ["inject", str(recordings), "--report", str(tmp_path / "r"), *FEW, *SMALL]
    whole = EpochLog.on_train_epoch_end

    def interrupted(self: EpochLog, trainer: Any, *rest: Any) -> None:
        if trainer.current_epoch == 1:
            raise KeyboardInterrupt
        whole(self, trainer, *rest)

    monkeypatch.setattr(EpochLog, "on_train_epoch_end", interrupted)
    code, _, said = run(*command)
    assert code == 130
    assert "interrupted; the finished epochs are kept in" in said
    assert (tmp_path / "r" / "model.partial").is_dir()
    monkeypatch.undo()
    _, said = output_of(*command, "--resume")
    assert "epoch 1/3" not in said
    assert "epoch 3/3" in said
    assert not (tmp_path / "r" / "model.partial").exists()


def test_trials_that_would_not_be_visible_are_skipped_with_a_remark(tmp_path: Path) -> None:
    moving = planted_episodes(40, 0, n_sensors=3, n_timepoints=48)
    values = np.asarray(moving.values).copy()
    values[::2] *= 1e-3  # at rest
    path = save_episodes(replace(moving, values=values), tmp_path / "normal.h5")
    dropout = ["--kinds", "dropout", "--strength", "dropout=30"]
    printed, said = output_of("inject", path, "--report", tmp_path / "r", *dropout, *SMALL, "--json")
    found = json.loads(printed)
    (condition,) = found["conditions"]
    skipped = found["normal_tested"] - condition["episodes"]
    assert skipped > 0
    told = f"{skipped} of {found['normal_tested']} trials are skipped: they would change almost nothing"
    assert any(statement.startswith(told) for statement in found["statements"])
    assert told in said


def test_default_report_is_next_to_the_recordings(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, said = output_of("inject", recordings, *FEW, *SMALL)
    assert "replaced" not in said
    assert [path.name for path in tmp_path.iterdir()] == [f"{recordings.stem}_study"]
    assert (tmp_path / f"{recordings.stem}_study" / "report.html").exists()
    _, said = output_of("inject", recordings, *FEW, *SMALL)
    assert f"the earlier study in {recordings.stem}_study was replaced" in said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--out", "a.csv"], "--out to end in .h5"),
        (["--out", "a.h5", "--kinds", "rust"], "got 'rust'; correct --kinds"),
        (["--out", "a.h5", "--strength", "0"], "above 0"),
        (["--out", "a.h5", "--strength", "lag=45"], "shortest episode, of 48 points"),
        (["--out", "a.h5", "--share", "2"], "share"),
        (["--report", "r", "--set", "dropout=7"], "dropout"),
    ],
)
def test_an_impossible_request_is_refused_before_anything_is_written(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused("inject", recordings, *wrong)
    assert list(tmp_path.iterdir()) == []


def test_too_few_normal_episodes_to_train_on_are_refused(tmp_path: Path) -> None:
    path = save_episodes(planted_episodes(3, 0, n_sensors=3, n_timepoints=48), tmp_path / "few.h5")
    assert "at least two normal" in refused("inject", path, "--report", tmp_path / "r", *FEW, *SMALL)
