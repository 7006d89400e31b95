"""The paper's figures of diagnoses: which episodes they show, of which model, and what is kept beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Diagnoser, Episodes, save_episodes
from dfstrans.data.episodes import Fault
from dfstrans.detectors.workflow import train_model
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper import reproduce
from dfstrans.lab.paper.diagnoses import drawn
from dfstrans.lab.paper.printed import DIAGNOSES
from dfstrans.lab.paper.request import Request
from dfstrans.lab.paper.subject import SHOWN, exemplars_of, group_name, moments_of_faults, require_shown, subject_of
from dfstrans.lab.paper.subject import trained as trained_model
from dfstrans.report.print_figures import MOST_TRIED

TINY: dict[str, Any] = {"segment_length": 16, "filters": 4, "heads": 2, "feedforward": 16, "head_width": 8, "epochs": 1}
SENSORS = ("Ax", "Ay", "Iq")
SPANS = {"bump": [(8, 12), (40, 44)], "lubrication": [(0, 64)], "unknown": [(0, 60)]}


def nothing(comparison: Comparison) -> dict[str, str]:
    raise AssertionError(f"nothing was to be computed, but {comparison}")


def journeys(kinds: list[str]) -> Episodes:
    """Noise of three sensors; an episode per kind, "" being normal."""
    values = np.random.default_rng(0).normal(size=(len(kinds), len(SENSORS), 64)).astype(np.float32)
    faults = tuple(tuple(Fault(a, b, ("Ax",), kind) for a, b in SPANS.get(kind, [])) for kind in kinds)
    labels = [int(kind != "") for kind in kinds]
    return Episodes.from_arrays(values, labels=labels, sensors=SENSORS, faults=faults)


KINDS = ["", "", "bump", "lubrication"] * 10


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the recordings that it was trained from."""
    folder = tmp_path_factory.mktemp("trained")
    save_episodes(journeys(KINDS), folder / "journeys.h5")
    from dfstrans.data.readers import load_episodes

    train_model(load_episodes(folder / "journeys.h5"), folder / "model", **TINY)
    return folder / "model", folder / "journeys.h5"


# ---- which episodes -------------------------------------------------------------------------------------------------


def test_the_surest_of_each_kind_are_shown_and_only_detected_ones() -> None:
    episodes = journeys(["bump", "lubrication", "", "bump", "lubrication", ""])
    found = exemplars_of(episodes, np.array([0.6, 0.9, 0.1, 0.8, 0.2, 0.7]), threshold=0.5)
    assert found.point.tolist() == [3, 0]
    assert found.lasting.tolist() == [1]  # row 4 was missed
    assert found.normal.tolist() == [2, 5]  # the least suspicious first
    assert found.anomalous.tolist() == [1, 3, 0]


def test_where_nothing_is_detected_all_that_are_anomalous_are_shown() -> None:
    episodes = journeys(["bump", "lubrication", ""])
    assert exemplars_of(episodes, np.array([0.1, 0.2, 0.3]), threshold=0.5).anomalous.tolist() == [1, 0]


def test_a_fault_of_an_unknown_kind_lasts_if_it_covers_most_of_the_time() -> None:
    found = exemplars_of(journeys(["bump", "unknown", ""]), np.array([0.9, 0.8, 0.1]), threshold=0.5)
    assert (found.point.tolist(), found.lasting.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("kinds", "drawable"),
    [(["bump", ""], {"fig:lsa", "fig:at_scores"}), (["lubrication", "lubrication"], {"fig:mix", "fig:at_scores"})],
)
def test_a_figure_needs_only_the_kinds_that_it_shows(kinds: list[str], drawable: set[str]) -> None:
    found = exemplars_of(journeys(kinds), np.array([0.9, 0.1]), threshold=0.5)
    for target in DIAGNOSES:
        if target in drawable:
            require_shown(found, target, 2)
        else:
            with pytest.raises(
                DfstransError, match=f"for {target} among the 2 episodes that can be shown, got no such"
            ):
                require_shown(found, target, 2)
    assert set(SHOWN) == set(DIAGNOSES)


def test_normal_episodes_that_are_not_there_are_called_so() -> None:
    found = exemplars_of(journeys(["bump", "lubrication"]), np.array([0.9, 0.8]), threshold=0.5)
    with pytest.raises(DfstransError, match="expected normal episodes for fig:lta among the 2"):
        require_shown(found, "fig:lta", 2)


def test_of_many_detected_anomalies_some_are_drawn_and_not_the_surest() -> None:
    few, many = np.arange(MOST_TRIED)[::-1], np.arange(10 * MOST_TRIED)[::-1]
    assert drawn(few).tolist() == sorted(few)
    chosen = drawn(many)
    assert len(set(chosen)) == len(chosen) == MOST_TRIED
    assert chosen.tolist() == sorted(chosen) == drawn(many).tolist()
    assert chosen.mean() == pytest.approx(many.mean(), rel=0.2)  # the surest 60 have a mean of 570 instead of 300


def test_the_moments_of_faults_are_the_segments_of_their_middles() -> None:
    (episode,) = journeys(["bump"])
    assert moments_of_faults(episode, segment_length=16) == [0, 2]  # 8 to 12, and 40 to 44
    assert (group_name("bump"), group_name("lubrication"), group_name("leak")) == (
        "bump, PAJ",
        "lubrication, FJ",
        "leak",
    )


# ---- which model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", DIAGNOSES)
def test_a_figure_of_a_given_model_is_written_with_its_numbers(
    target: str, trained: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    model, data = trained
    outcome = reproduce(Request(target, tmp_path, data, model=model, quick=True), nothing)
    name = target.replace(":", "_")
    assert [path.name for path in outcome.written] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png", "json")]
    assert b"QUICK LOOK, NO RESULT" in (tmp_path / "quick" / f"{name}.svg").read_bytes()
    record = json.loads((tmp_path / "quick" / f"{name}.json").read_text())
    assert record["command"] == (f"dfstrans reproduce {target} --out RESULTS --model model --data journeys.h5 --quick")
    assert record["shown"]["part"] == "some of all, also those of training"
    if target == "fig:lsa":
        assert [moment["segment"] for moment in record["numbers"]["moments"]][:2] == [0, 2]
        assert sum(record["numbers"]["global_spatial_relevance"].values()) == pytest.approx(len(SENSORS), abs=1e-3)
    if target == "fig:at_scores":
        assert set(record["numbers"]["fall_of_logit"]) == {"bump, PAJ", "lubrication, FJ"}
        assert {"top", "random", "bottom"} < set(record["numbers"]["fall_of_logit"]["bump, PAJ"])


def test_only_what_the_model_did_not_learn_from_is_shown(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    subject = subject_of(Request("fig:lsa", tmp_path, data, model=model), no_simulation)
    assert subject.part == "validation and test"
    assert len(subject.episodes) == 12  # 30 % of 40


def test_a_model_that_did_not_cut_its_set_itself_tells_what_is_known_of_the_recordings(tmp_path: Path) -> None:
    train, validation, others = (journeys(KINDS[:count]) for count in (24, 12, 16))
    Diagnoser.from_settings(**TINY).fit(train, validation=validation).save(tmp_path / "model")
    parts = {}
    for name, episodes in {"train": train, "validation": validation, "others": others}.items():
        save_episodes(episodes, tmp_path / f"{name}.h5")
        request = Request("fig:lsa", tmp_path, tmp_path / f"{name}.h5", model=tmp_path / "model")
        parts[name] = subject_of(request, no_simulation).part
    assert parts == {
        "train": "all, which the model learned from, so they flatter",
        "validation": "all, which are those of validation",
        "others": "all; whether the model learned from them is not known",
    }


def test_recordings_of_another_set_are_called_so(trained: tuple[Path, Path], tmp_path: Path) -> None:
    save_episodes(journeys(KINDS[:16]), tmp_path / "others.h5")
    request = Request("fig:lsa", tmp_path, tmp_path / "others.h5", model=trained[0])
    assert subject_of(request, no_simulation).part == "all, of another set than that of training"


def test_where_only_what_is_finished_is_shown_nothing_is_simulated_or_trained(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = trained
    request = Request("fig:lsa", tmp_path, tmp_path, finished=True)
    with pytest.raises(DfstransError, match=r"expected a trained model at .*model_elevator_small for finished=True"):
        subject_of(request, no_simulation)
    shutil.copytree(model, tmp_path / "model_elevator_small")
    with pytest.raises(DfstransError, match=r"expected its journeys at .*elevator_small.h5 for finished=True"):
        subject_of(request, no_simulation)
    given = Request("fig:lsa", tmp_path, data, model=model, finished=True)
    assert subject_of(given, no_simulation).name == "model"


def test_an_interrupted_training_of_other_settings_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = tmp_path / "model_elevator_small.partial"
    episodes = journeys(KINDS)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Diagnoser, "save", stopped)
        with pytest.raises(KeyboardInterrupt):
            trained_model(Request("fig:lsa", tmp_path, overrides={"epochs": 1}), episodes)
    kept = (partial / "run.json").read_text()
    with pytest.raises(DfstransError) as refused:
        trained_model(Request("fig:lsa", tmp_path, overrides={"epochs": 2}), episodes)
    assert f"at {partial}, got epochs=2 instead of 1; give the same settings" in str(refused.value)
    assert "move that folder" in str(refused.value)
    assert "resume" not in str(refused.value)
    assert (partial / "run.json").read_text() == kept


def stopped(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_model_without_recordings_is_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected the recordings to diagnose with model, got none.*data=…"):
        subject_of(Request("fig:lsa", tmp_path, model=trained[0]), no_simulation)


def test_recordings_without_a_model_are_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected a folder for simulated journeys, got the file .*model=…"):
        subject_of(Request("fig:lsa", tmp_path, trained[1]), no_simulation)


def no_simulation(path: Path, preset: Preset) -> None:
    raise AssertionError("nothing was to be simulated")


def test_without_a_model_one_is_trained_kept_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[Path] = []

    def simulate(path: Path, preset: Preset) -> None:
        simulated.append(path)
        if not path.exists():
            save_episodes(journeys(KINDS), path)

    request = Request("fig:lsa", tmp_path / "out", tmp_path, overrides={"epochs": 1})
    first = subject_of(request, simulate).detector
    assert simulated == [tmp_path / "elevator_small.h5"]
    assert (tmp_path / "out" / "model_elevator_small" / "model.json").exists()
    monkeypatch.setattr(Diagnoser, "fit", None)  # whoever trains again fails
    again = subject_of(request, simulate).detector
    assert again.data_ == first.data_
    with pytest.raises(DfstransError, match=r"got one with epochs=1 instead of 2; choose another out"):
        subject_of(Request("fig:lsa", tmp_path / "out", tmp_path, overrides={"epochs": 2}), simulate)
