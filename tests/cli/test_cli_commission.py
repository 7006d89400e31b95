"""A machine that was never seen is commissioned from its recordings, without labels or training."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans import Episodes, save_episodes
from dfstrans.cli.commission import COLUMNS
from dfstrans.cli.machines import compared_with_machines
from dfstrans.data.synthetic import planted_episodes
from dfstrans.detectors.registry import load_detector
from dfstrans.detectors.saved_model import TENSORBOARD, load_model
from dfstrans.detectors.trees import TreesClassifier
from tests.cli.command_line import output_of, refused, result_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:values outside the range"),  # machines differ in level
    pytest.mark.filterwarnings("ignore:the groups do not allow"),
    pytest.mark.filterwarnings("ignore:these are the episodes the model was trained from"),
]


def fleet(levels: dict[str, float], seed: int = 1, n_normal: int = 8, n_anomalous: int = 4) -> Episodes:
    """Machines whose sensors rest at levels of their own; every recording begins on another day of March 2026."""
    parts = []
    for number, (name, level) in enumerate(levels.items()):
        base = planted_episodes(n_normal, n_anomalous, n_sensors=3, n_timepoints=48, seed=seed + number, strength=0.7)
        order = np.random.default_rng(number).permutation(len(base))
        days = np.datetime64("2026-03-01", "ns") + np.arange(len(base)) * np.timedelta64(1, "D")
        one = Episodes.from_arrays(
            np.asarray(base.values)[order] + level,
            base.require_labels()[order],
            ids=[f"{name}-{day}" for day in range(len(base))],
            groups=[name] * len(base),
            sensors=["a", "b", "c"],
            interval=1.0,
            time_unit="s",
            starts=days,
        )
        parts.append(one)
    return Episodes.concatenate(parts)


def unlabelled(episodes: Episodes) -> Episodes:
    return replace(episodes, labels=None, faults=None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees trained on nine machines; the test part is one of them."""
    place = tmp_path_factory.mktemp("commission")
    save_episodes(fleet({f"m{i}": i for i in range(9)}), place / "fleet.npz")
    options = ("--model", "trees", "--set", "trees=20", "--segment-length", "16", "--split", "grouped")
    output_of("train", place / "fleet.npz", "--out", place / "model", *options)
    return place / "model"


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "model"))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of two machines that were never seen, beyond the levels of the others."""
    path = tmp_path_factory.mktemp("new") / "new.npz"
    save_episodes(fleet({"x0": 30, "x1": -20}, seed=40, n_normal=20, n_anomalous=8), path)
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_commissioned_machine_is_judged_better(model: Path, new: Path) -> None:
    before = result_of("evaluate", model, new)
    assert before["without_baseline"] == ["x0", "x1"]
    out, err = output_of("commission", model, new)
    title, *lines = out.splitlines()
    assert re.split(r"  +", title.strip()) == list(COLUMNS)
    assert [re.split(r"  +", line.strip())[:2] for line in lines] == [["x0", "28"], ["x1", "28"]]
    assert "28 recordings are enough" in lines[0]
    assert f"{model} now has the baselines of" in err
    after = result_of("evaluate", model, new)
    assert after["without_baseline"] == []
    assert after["pr_auc"] > before["pr_auc"] + 0.1
    assert "without a baseline" not in output_of("predict", model, new)[1]
    assert max(before["out_of_range"].values()) > 0.9 > 0.1 > max([*after["out_of_range"].values(), 0])


def test_false_alarms_of_a_machine_are_limited(trained: Path, model: Path, new: Path) -> None:
    detector = load_detector(trained)
    common = detector.threshold_.value
    detector.threshold_ = detector.threshold_.model_copy(update={"value": 0.01})  # does not fit any machine
    detector.save(model)
    _, err = output_of("commission", model, new)
    assert re.search(r"warning: \d+ of 28 recordings of x0 are called anomalous, but in validation only", err)
    assert "limit the false alarms of this machine (--false-alarms 1/week --replace)" in err
    wrong = refused("commission", model, new, "--replace", "--false-alarms", "few")
    assert "write for example --false-alarms 1/week" in wrong
    options = ("--replace", "--false-alarms", "10/hour")  # 28 recordings of 48 s: 3.7 alarms
    machines = result_of("commission", model, new, *options)["machines"]
    assert all(0 < one["alarms_left"] <= 3 < len(one["alarms"]) and one["threshold"] > 0.01 for one in machines)
    out, err = output_of("commission", model, new, *options)
    assert "are called anomalous" not in err
    first = machines[0]
    assert f"{len(first['alarms'])}, {first['alarms_left']} at its threshold" in out
    assert f"  {first['threshold']:.4g}  " in out
    found = load_detector(model)
    assert isinstance(found, TreesClassifier)
    episodes = found.load_episodes(new)
    assert (found.thresholds(episodes) > 0.01).all()
    assert "machines with their own threshold: x0 " in output_of("predict", model, new)[1]
    table = result_of("predict", model, new)["predictions"]
    assert [row["anomalous"] for row in table] == found.predict(episodes).tolist()
    left = sum(one["alarms_left"] for one in machines)
    assert sum(row["anomalous"] for row in table) == left
    evaluated = result_of("evaluate", model, new)
    assert evaluated["true_positives"] + evaluated["false_positives"] == left
    weeks = 56 * 48 / 604_800
    assert evaluated["false_alarms_per_week"] == pytest.approx(evaluated["false_positives"] / weeks)
    assert common != 0.01


def test_the_threshold_of_a_model_follows_from_wanted_false_alarms(trained: Path, tmp_path: Path) -> None:
    data, options = trained.parent / "fleet.npz", ("--model", "trees", "--set", "trees=5", "--false-alarms")
    threshold = result_of("train", data, "--out", tmp_path / "model", *options, "20 per hour")["threshold"]
    assert threshold["note"].startswith("false-alarm rate of at most 0.266667")
    both = refused("train", data, "--out", tmp_path / "other", *options, "1/day", "--threshold-rule", "f1")
    assert "got --false-alarms and --threshold-rule; drop one" in both
    save_episodes(replace(load_detector(trained).load_episodes(data), interval=None), tmp_path / "timeless.npz")
    timeless = refused("train", tmp_path / "timeless.npz", "--out", tmp_path / "other", *options, "1/day")
    assert "expected recordings of known duration for --false-alarms" in timeless


def test_labels_do_not_matter_and_the_result_is_json(trained: Path, new: Path, tmp_path: Path) -> None:
    recordings = load_detector(trained).load_episodes(new)
    flipped = recordings.with_labels(1 - recordings.require_labels())
    found = []
    for name, one in {"labelled": recordings, "flipped": flipped, "unlabelled": unlabelled(recordings)}.items():
        save_episodes(one, tmp_path / f"{name}.npz")
        place = Path(shutil.copytree(trained, tmp_path / name))
        result = result_of("commission", place, tmp_path / f"{name}.npz")
        assert result.pop("model") == str(place)
        found.append((result, result_of("predict", place, new)["predictions"]))
    assert found[0] == found[1] == found[2]
    first = found[0][0]["machines"][0]
    suitability = {"machine", "recordings", "change", "drifting", "sufficient", "note"}
    assert first.keys() == suitability | {"alarms_before", "alarms", "threshold", "alarms_left"}
    assert (first["machine"], first["recordings"], first["sufficient"]) == ("x0", 28, True)


def test_everything_else_in_the_model_stays(model: Path, new: Path) -> None:
    (model / TENSORBOARD).mkdir()
    (model / TENSORBOARD / "events").write_text("log")
    before = load_model(model)
    result_of("commission", model, new)
    after = load_model(model)
    assert (model / TENSORBOARD / "events").read_text() == "log"
    assert "test" in after.record.metrics
    assert after.parts == before.parts
    assert after.log == before.log
    same = ("metrics", "reading", "data", "threshold", "calibration", "network", "training", "sensors")
    assert all(getattr(after.record, name) == getattr(before.record, name) for name in same)
    assert set(dict(after.record.machines)) == {*dict(before.record.machines), "x0", "x1"}
    unchanged = {name for name in before.weights if not name.startswith("baselines.")}
    assert unchanged
    assert all((after.weights[name] == before.weights[name]).all() for name in unchanged)


def test_a_name_makes_all_recordings_those_of_one_machine(model: Path, new: Path, tmp_path: Path) -> None:
    one = load_detector(model).load_episodes(new)[:28]
    save_episodes(replace(unlabelled(one), groups=None), tmp_path / "nameless.npz")
    said = "expected the machine of the recordings, got neither a name nor groups; name it (--machine …)"
    assert said in refused("commission", model, tmp_path / "nameless.npz")
    assert "the recordings name no machine" in output_of("predict", model, tmp_path / "nameless.npz")[1]
    result_of("commission", model, tmp_path / "nameless.npz", "--machine", "lift 7")
    fleetwide = result_of("predict", model, tmp_path / "nameless.npz")
    own = result_of("predict", model, tmp_path / "nameless.npz", "--machine", "lift 7")
    assert (fleetwide["without_baseline"], own["without_baseline"]) == (None, [])
    assert fleetwide["predictions"] != own["predictions"]


@pytest.mark.filterwarnings("always:the recordings name 2 groups")
def test_several_groups_are_one_machine_if_it_is_named(model: Path, new: Path) -> None:
    for command in ("commission", "predict"):
        _, err = output_of(command, model, new, "--machine", "both")
        assert err.count("the recordings name 2 groups (x0, x1); all of them are taken as the machine both") == 1
    assert dict(load_model(model).record.machines)["both"] == 56


def test_a_machine_that_has_a_baseline_is_replaced_on_request_only(model: Path, new: Path) -> None:
    result_of("commission", model, new)
    before = content(model)
    err = refused("commission", model, new)
    assert "expected a machine without a baseline" in err
    assert "got x0 (known already: --replace), x1 (known already" in err
    assert content(model) == before
    result_of("commission", model, new, "--replace", "--before", "2026-03-11")
    assert dict(load_model(model).record.machines)["x0"] == 10


def test_machines_that_cannot_be_commissioned_do_not_stop_the_others(model: Path, tmp_path: Path) -> None:
    mixed = fleet({"x0": 30, "x1": -20, "m0": 0}, seed=40)[[*range(14), *range(24, 36)]]  # two recordings of x1
    save_episodes(unlabelled(mixed), tmp_path / "mixed.npz")
    before = dict(load_model(model).record.machines)
    found = result_of("commission", model, tmp_path / "mixed.npz")
    assert [one["machine"] for one in found["machines"]] == ["x0"]
    assert found["skipped"] == [
        {"machine": "m0", "reason": "known already: --replace"},
        {"machine": "x1", "reason": "2 recordings, expected ≥ 3"},
    ]
    assert dict(load_model(model).record.machines) == {**before, "x0": 12}
    out, _ = output_of("commission", model, tmp_path / "mixed.npz", "--replace")
    rows = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    assert [row[0] for row in rows] == ["machine", "m0", "x0", "x1"]
    assert rows[3][1:] == ["–", "–", "–", "–", "skipped: 2 recordings, expected ≥ 3"]
    none_left = refused("commission", model, tmp_path / "mixed.npz")
    assert "m0 (known already" in none_left
    assert "x1 (2 recordings, expected ≥ 3)" in none_left


def test_only_recordings_before_a_date_are_used(model: Path, new: Path, tmp_path: Path) -> None:
    out, err = output_of("commission", model, new, "--before", "2026-03-05T00:00:30")
    assert "used 8 of 56 recordings, those that end before 2026-03-05T00:00:30" in err  # the fifth ends at 00:00:47
    assert "4 recordings are too few to tell how stable the baseline is; add 10 or more" in out
    for wrong in ("01.03.2026", "soon", "2026-03-01T12:00+02:00"):
        assert "write for example --before 2026-03-01" in refused("commission", model, new, "--before", wrong)
    err = refused("commission", model, new, "--before", "2026-02-01")
    assert "expected recordings that end before 2026-02-01, got none: the first one ends at 2026-03-01T00:00:47" in err
    undated = replace(load_detector(model).load_episodes(new), starts=None)
    save_episodes(undated, tmp_path / "undated.npz")
    err = refused("commission", model, tmp_path / "undated.npz", "--before", "2026-03-05")
    assert "expected recordings with a date for --before, got 56 without one" in err
    assert "(--time-column …)" in err


def test_what_cannot_be_commissioned_changes_nothing(model: Path, new: Path, tmp_path: Path) -> None:
    recordings = load_detector(model).load_episodes(new)
    cases = {
        "with at least 3 recordings, got x0 (2 recordings, expected ≥ 3)": recordings[:2],
        "missing: b": recordings.select_sensors(["a", "c"]),
        "expected a sampling interval of 1 s, as in training, got 5 s": replace(recordings, interval=5.0),
        "at least 16 points": replace(recordings, lengths=np.full(len(recordings), 5)),
    }
    before = content(model)
    for number, (said, wrong) in enumerate(cases.items()):
        save_episodes(wrong, tmp_path / f"{number}.npz")
        assert said in refused("commission", model, tmp_path / f"{number}.npz")
    assert content(model) == before
    (model / "notes.txt").write_text("mine")
    assert "other files (notes.txt)" in refused("commission", model, new)
    (model / "notes.txt").unlink()
    assert content(model) == before


@pytest.mark.filterwarnings("ignore:the recordings name 2 groups")
def test_models_that_know_no_machines_are_refused(new: Path, tmp_path: Path) -> None:
    alone = replace(fleet({"m0": 0, "m1": 1}), groups=None)
    save_episodes(alone, tmp_path / "alone.npz")
    for kind in ("trees", "boosting"):
        output_of("train", tmp_path / "alone.npz", "--out", tmp_path / kind, "--model", kind)
    err = refused("commission", tmp_path / "trees", new)
    assert "expected a model that learned what is normal for each machine" in err
    assert "(--group-column …)" in err
    said = "expected a model that compares each machine with itself, got one of the kind 'boosting'"
    assert said in refused("commission", tmp_path / "boosting", new)
    for kind in ("trees", "boosting"):
        out, err = output_of("predict", tmp_path / kind, new, "--json")
        assert '"without_baseline": null' in out
        assert "baseline" not in err
        _, err = output_of("predict", tmp_path / kind, new, "--machine", "x")
        assert "does not depend on the machine x, because the model compares no machine with itself" in err
        assert "compares each machine with itself for --own-baseline" in refused(
            "predict", tmp_path / kind, new, "--own-baseline"
        )


def predicted(*arguments: Any) -> list[float]:
    return [row["probability"] for row in result_of("predict", *arguments)["predictions"]]


def test_recordings_serve_as_their_own_baseline_on_request(model: Path, new: Path) -> None:
    before = content(model)
    _, err = output_of("predict", model, new)
    assert "machines without a baseline are compared with the fleet: x0, x1; commission them" in err
    assert "--own-baseline" in err
    assert result_of("predict", model, new)["without_baseline"] == ["x0", "x1"]
    own = result_of("predict", model, new, "--own-baseline")
    assert own["without_baseline"] == []
    assert "without a baseline" not in output_of("predict", model, new, "--own-baseline")[1]
    assert content(model) == before
    result_of("commission", model, new)
    assert predicted(model, new) == [row["probability"] for row in own["predictions"]]


def test_machines_with_too_few_recordings_stay_without_a_baseline(model: Path, new: Path, tmp_path: Path) -> None:
    some = load_detector(model).load_episodes(new)[[*range(28), 28, 29]]
    save_episodes(some, tmp_path / "some.npz")
    _, err = output_of("predict", model, tmp_path / "some.npz", "--own-baseline")
    assert "compared with the fleet: x1; they have fewer than 3 recordings here" in err


def test_the_test_part_of_a_grouped_split_is_evaluated_with_its_own_baseline(trained: Path) -> None:
    data, part = trained.parent / "fleet.npz", ("--part", "test")
    plain, own = (
        result_of("evaluate", trained, data, *part),
        result_of("evaluate", trained, data, *part, "--own-baseline"),
    )
    assert len(plain["without_baseline"]) == 1
    assert own["without_baseline"] == []
    assert plain["episodes"] == own["episodes"] == 12
    assert plain["pr_auc"] == load_detector(trained).metrics_["test"]["pr_auc"]
    assert own["brier"] != plain["brier"]


def test_a_single_recording_is_compared_with_all_those_beside_it(model: Path, new: Path) -> None:
    detector = load_detector(model)
    recordings = detector.load_episodes(new)
    alone = compared_with_machines(detector, recordings[[3]], None, own_baseline=True)
    assert alone.without_baseline == ["x0"]
    found = compared_with_machines(detector, recordings[[3]], None, own_baseline=True, beside=recordings)
    assert found.without_baseline == []
    whole = compared_with_machines(detector, recordings, None, own_baseline=True)
    expected = whole.detector.predict_proba(recordings)[3]
    np.testing.assert_array_equal(found.detector.predict_proba(found.episodes)[0], expected)
    assert (alone.detector.predict_proba(alone.episodes)[0] != expected).any()


@pytest.mark.filterwarnings("ignore:read as the model")
def test_normal_recordings_that_a_data_set_publishes_can_be_the_commissioning_period(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("test", "test_label", "train"):
        for place in ("known", "new"):
            (tmp_path / place / part).mkdir(parents=True)
    for level in range(8):
        place = tmp_path / ("new" if level == 7 else "known")
        values, labels = rng.normal(size=(200, 2)) + level, np.repeat(np.arange(10) % 3 == 0, 20)
        values[labels, 0] += 4
        for part, numbers in (("test", values), ("test_label", labels), ("train", values[~labels])):
            file = place / part / f"machine-{level}.txt"
            np.savetxt(file, numbers, fmt="%d" if part == "test_label" else "%.4f", delimiter=",")
    options = ("--model", "trees", "--set", "trees=10", "--segment-length", "5", "--length", "20")
    output_of("train", tmp_path / "known", "--out", tmp_path / "model", *options)
    [found] = result_of("commission", tmp_path / "model", tmp_path / "new" / "train")["machines"]
    assert (found["machine"], found["recordings"]) == ("machine-7", 6)
    assert "machine-7" in load_detector(tmp_path / "model").machines_
    known = refused("commission", tmp_path / "model", tmp_path / "known" / "train")
    assert "expected a machine without a baseline" in known
    assert "got machine-0 (known already" in known
