"""The paper's figures of diagnoses: their episodes, their model, and their records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes, save_episodes
from dfstrans.data.episodes import Fault
from dfstrans.data.readers import load_episodes
from dfstrans.detectors.workflow import train_model
from dfstrans.errors import DfstransError
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.diagnoses import sample
from dfstrans.lab.paper.examples import (
    NEEDED,
    examples_of,
    fault_segments,
    group_name,
    require_examples,
    subject_of,
    trained_model,
)
from dfstrans.lab.paper.request import Request
from dfstrans.lab.paper.targets import reproduce
from dfstrans.report.print_figures import MOST_TRIED

NETWORK = {"width": 8, "heads": 2, "feedforward": 16, "head_width": 8}
TINY: dict[str, Any] = {"members": "network", "segment_length": 16, "network": NETWORK, "epochs": 1}
SENSORS = ("Ax", "Ay", "Iq")
SPANS = {"bump": [(8, 12), (40, 44)], "lubrication": [(0, 64)], "unknown": [(0, 60)]}
KINDS = ["", "", "bump", "lubrication"] * 10


def journeys(kinds: list[str]) -> Episodes:
    """Noise of three sensors; an episode per kind, "" being normal."""
    values = np.random.default_rng(0).normal(size=(len(kinds), len(SENSORS), 64)).astype(np.float32)
    faults = tuple(tuple(Fault(a, b, ("Ax",), kind) for a, b in SPANS.get(kind, [])) for kind in kinds)
    labels = [int(kind != "") for kind in kinds]
    return Episodes.from_arrays(values, labels=labels, sensors=SENSORS, faults=faults)


def no_simulation(path: Path, preset: Preset) -> None:
    raise AssertionError("expected no simulation")


def request(out: Path, data: Path | None = None, **options: Any) -> Request:
    return Request("fig:lsa", out, data, **{"simulate": no_simulation, **options})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the recordings that it was trained from."""
    folder = tmp_path_factory.mktemp("trained")
    save_episodes(journeys(KINDS), folder / "journeys.h5")
    train_model(Diagnoser.from_settings(**TINY), load_episodes(folder / "journeys.h5"), folder / "model")
    return folder / "model", folder / "journeys.h5"


# ---- which episodes -------------------------------------------------------------------------------------------------


def test_detected_episodes_of_each_kind_come_in_order_of_certainty() -> None:
    episodes = journeys(["bump", "lubrication", "", "bump", "lubrication", ""])
    found = examples_of(episodes, np.array([0.6, 0.9, 0.1, 0.8, 0.2, 0.7]), threshold=0.5)
    assert found.point.tolist() == [3, 0]
    assert found.lasting.tolist() == [1]  # row 4 was missed
    assert found.normal.tolist() == [2, 5]  # the least suspicious first
    assert found.anomalous.tolist() == [1, 3, 0]
    none_detected = examples_of(episodes[:3], np.array([0.1, 0.2, 0.3]), threshold=0.5)
    assert none_detected.anomalous.tolist() == [1, 0]


def test_fault_of_an_unknown_kind_lasts_if_it_covers_most_of_the_time() -> None:
    found = examples_of(journeys(["bump", "unknown", ""]), np.array([0.9, 0.8, 0.1]), threshold=0.5)
    assert (found.point.tolist(), found.lasting.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("kinds", "drawable"),
    [(["bump", ""], {"fig:lsa", "fig:at_scores"}), (["lubrication", "lubrication"], {"fig:mix", "fig:at_scores"})],
)
def test_figure_needs_only_the_kinds_that_it_shows(kinds: list[str], drawable: set[str]) -> None:
    found = examples_of(journeys(kinds), np.array([0.9, 0.1]), threshold=0.5)
    for target in NEEDED:
        if target in drawable:
            require_examples(found, target, 2)
        else:
            with pytest.raises(DfstransError, match=f"for {target} among 2 episodes, got none"):
                require_examples(found, target, 2)


def test_sample_of_many_anomalies_is_random_and_repeatable() -> None:
    few, many = np.arange(MOST_TRIED)[::-1], np.arange(10 * MOST_TRIED)[::-1]
    assert sample(few).tolist() == sorted(few)
    chosen = sample(many)
    assert len(set(chosen)) == len(chosen) == MOST_TRIED
    assert chosen.tolist() == sorted(chosen) == sample(many).tolist()
    assert chosen.mean() == pytest.approx(many.mean(), rel=0.2)  # the most certain 60 have a mean of 570, not 300


def test_fault_segments_are_those_of_the_middles_of_faults() -> None:
    (episode,) = journeys(["bump"])
    assert fault_segments(episode, segment_length=16) == [0, 2]  # 8 to 12, and 40 to 44
    assert [group_name(kind) for kind in ("bump", "lubrication", "leak")] == ["bump, PAJ", "lubrication, FJ", "leak"]


# ---- which model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", NEEDED)
def test_figure_of_a_given_model_is_written_with_its_numbers(
    target: str, trained: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    model, data = trained
    outcome = reproduce(Request(target, tmp_path, data, model=model, quick=True))
    name = target.replace(":", "_")
    assert [path.name for path in outcome.written] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png", "json")]
    assert b"QUICK LOOK, NO RESULT" in (tmp_path / "quick" / f"{name}.svg").read_bytes()
    record = json.loads((tmp_path / "quick" / f"{name}.json").read_text())
    assert record["command"] == f"dfstrans reproduce {target} --out RESULTS --model model --data journeys.h5 --quick"
    assert record["shown"]["part"] == "some of all, including training episodes"
    if target == "fig:lsa":
        assert [moment["segment"] for moment in record["numbers"]["moments"]][:2] == [0, 2]
        assert sum(record["numbers"]["global_spatial_relevance"].values()) == pytest.approx(len(SENSORS), abs=1e-3)
    if target == "fig:at_scores":
        assert set(record["numbers"]["fall_of_logit"]) == {"bump, PAJ", "lubrication, FJ"}
        assert {"top", "random", "bottom"} < set(record["numbers"]["fall_of_logit"]["bump, PAJ"])


def test_only_episodes_that_were_not_trained_on_are_shown(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    subject = subject_of(request(tmp_path, data, model=model))
    assert (subject.part, len(subject.episodes)) == ("validation and test", 12)  # 30 % of 40
    save_episodes(journeys(KINDS[:16]), tmp_path / "others.h5")
    others = subject_of(request(tmp_path, tmp_path / "others.h5", model=model))
    assert others.part == "all, from another set than the training part"


def test_parts_given_to_fit_are_recognised(tmp_path: Path) -> None:
    train, validation, others = (journeys(KINDS[:count]) for count in (24, 12, 16))
    Diagnoser.from_settings(**TINY).fit(train, validation=validation).save(tmp_path / "model")
    parts = {}
    for name, episodes in {"train": train, "validation": validation, "others": others}.items():
        save_episodes(episodes, tmp_path / f"{name}.h5")
        parts[name] = subject_of(request(tmp_path, tmp_path / f"{name}.h5", model=tmp_path / "model")).part
    assert "training part" in parts["train"]
    assert "validation part" in parts["validation"]
    assert "not known" in parts["others"]


def test_finished_only_neither_simulates_nor_trains(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    asked = request(tmp_path, tmp_path, finished=True)
    with pytest.raises(DfstransError, match=r"expected a trained model at .*model_elevator_small for finished=True"):
        subject_of(asked)
    shutil.copytree(model, tmp_path / "model_elevator_small")
    with pytest.raises(DfstransError, match=r"expected its journeys at .*elevator_small.h5 for finished=True"):
        subject_of(asked)
    assert subject_of(request(tmp_path, data, model=model, finished=True)).name == "model"


def test_interrupted_training_of_other_settings_is_named_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    partial = tmp_path / "model_elevator_small.partial"
    episodes = journeys(KINDS)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Diagnoser, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            trained_model(request(tmp_path, overrides={"members": "network", "epochs": 1}), episodes)
    kept = (partial / "run.json").read_text()
    with pytest.raises(DfstransError) as refused:
        trained_model(request(tmp_path, overrides={"members": "network", "epochs": 2}), episodes)
    assert f"at {partial}, got epochs=2 instead of 1; give the same settings" in str(refused.value)
    assert (partial / "run.json").read_text() == kept


def test_model_and_recordings_need_each_other(trained: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected the recordings to diagnose with model, got none.*data=…"):
        subject_of(request(tmp_path, model=trained[0]))
    with pytest.raises(DfstransError, match=r"expected a folder for simulated journeys, got the file .*model=…"):
        subject_of(request(tmp_path, trained[1]))


def test_model_is_trained_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[Path] = []

    def simulate(path: Path, preset: Preset) -> None:
        simulated.append(path)
        if not path.exists():
            save_episodes(journeys(KINDS), path)

    asked = request(tmp_path / "out", tmp_path, overrides={"members": "network", "epochs": 1}, simulate=simulate)
    first = subject_of(asked).detector
    assert simulated == [tmp_path / "elevator_small.h5"]
    assert (tmp_path / "out" / "model_elevator_small" / "model.json").exists()
    monkeypatch.setattr(Diagnoser, "fit", None)  # training again would fail
    assert subject_of(asked).detector.data_ == first.data_
    with pytest.raises(DfstransError, match=r"got one with epochs=1 instead of 2; choose another out"):
        subject_of(
            request(tmp_path / "out", tmp_path, overrides={"members": "network", "epochs": 2}, simulate=simulate)
        )
