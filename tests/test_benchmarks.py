"""What the benchmarks compute from what they measure, and that they measure it, at tiny sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import diagnosis_cost, epoch, matrix_rate, network, quick, reading, scaling, streaming, time_to_model
from benchmarks.log_plot import Panel, svg
from benchmarks.turns import Case, Measured, measure_in_turns
from benchmarks.workload import Shape, auto_precision, count_flops, measured_models, prepare
from dfstrans.model.arithmetic import bf16_is_fast
from dfstrans.training.run_folder import write_log

TINY = Shape(3, 4, 16)
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # what is forked here holds no locks


def test_the_memory_of_a_run_is_its_own() -> None:
    def allocate(megabytes: int) -> Case:
        return Case(lambda: None, lambda: lambda: np.ones(megabytes * 2**17))

    measured = measure_in_turns({"small": allocate(1), "large": allocate(60)}, rounds=1)
    assert measured["small"].megabytes < 10
    assert 55 < measured["large"].megabytes < 75


def test_a_run_that_takes_long_is_measured_in_its_first_call(tmp_path: Path) -> None:
    def count_calls() -> None:
        with (tmp_path / "calls").open("a") as file:
            file.write("x")

    for long, calls in ((0.0, 1), (60.0, 4)):
        (tmp_path / "calls").write_text("")
        measure_in_turns({"": Case(lambda: None, lambda: count_calls)}, rounds=3, long=long)
        assert (tmp_path / "calls").read_text() == "x" * calls


def test_a_process_that_dies_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="ended early"):
        measure_in_turns({"": Case(lambda: None, lambda: lambda: exit(3))}, rounds=1)


@pytest.mark.parametrize("task", ["train", "predict"])
def test_every_model_does_every_task(task: str) -> None:
    assert set(measured_models()) >= {"loop", "plain", "fp32"}
    assert ("bf16" in measured_models()) == bf16_is_fast()
    for model in measured_models():
        prepare(model, TINY, task, 2)()


def test_ratios_are_those_of_the_measured_seconds() -> None:
    measured = {"loop": Measured(6.0, 300), "plain": Measured(3.0, 200), "fp32": Measured(2.0, 100)}
    measured |= {"bf16": measured["fp32"]}
    gflops = count_flops(network.SHAPES["SMAP"], "train", 16) / 1e9
    row = network.as_row("SMAP", "train", 16, measured, gflops)
    assert (row["ratio_vs_loop"], row["ratio_vs_plain"]) == (3.0, 1.5)
    assert row["limit_seconds"] == pytest.approx(1.0)
    assert row["over_limit"] == pytest.approx(2.0)


def test_the_quick_benchmark_prints_every_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(quick.SHAPES, quick.SHAPE, TINY)
    monkeypatch.setattr(matrix_rate, "SIZES", (64,))
    quick.main()
    printed = json.loads(capsys.readouterr().out)
    for key in ("train", "predict", "predict_fp32"):
        assert all(printed[f"{key}_{what}"] > 0 for what in ("ratio_vs_loop", "over_limit", "seconds"))
    assert printed["precision"] == auto_precision()


def test_the_work_of_one_elevator_episode_is_about_five_gflop() -> None:
    elevator = network.SHAPES["elevator"]
    assert count_flops(elevator, "predict", 1) == pytest.approx(4.9e9, rel=0.05)
    assert count_flops(elevator, "train", 16) == pytest.approx(3 * 16 * count_flops(elevator, "predict", 1))


def test_what_is_measured_is_the_precision_that_training_takes_by_itself() -> None:
    assert auto_precision() == ("bf16" if bf16_is_fast() else "fp32")


def test_the_exponent_is_that_of_the_upper_half() -> None:
    sizes = [10, 20, 40, 80, 160, 320]
    assert scaling.exponent(sizes, [7, 7, 7, 80**2, 160**2, 320**2]) == pytest.approx(2)
    assert math.isnan(scaling.exponent([10], [1]))


def test_scaling_prints_every_size_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "scaling.svg"
    scaling.main(
        ["--sweeps", "sensors", "segments", "--largest", "20", "--rounds", "1", "--json", "--plot", str(picture)]
    )
    result = json.loads(capsys.readouterr().out)
    assert [sweep["sizes"] for sweep in result.values()] == [[10, 20], [10, 20]]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_a_picture_has_a_line_per_curve() -> None:
    curves = {"a < b": [(1, 2.0), (10, 30.0)], "c": [(1, 1.0), (10, 1.5)]}
    root = ElementTree.fromstring(svg([Panel("time", "n", curves), Panel("memory", "n", curves)]))
    assert len([element for element in root if element.tag.endswith("polyline")]) == 4


def test_reading_is_compared_for_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    reading.main(["--megabytes", "0.4", "--rounds", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["file"] for row in rows] == ["table.parquet", "episodes.parquet", "table.csv", "episodes.h5"]
    assert all(row["share"] > 0 for row in rows)


def test_a_diagnosis_is_compared_with_a_prediction() -> None:
    found = diagnosis_cost.measure(TINY, "tuned", repeats=2)
    low, high = found["ratio_quartiles"]
    assert 0 < low <= found["ratio"] <= high
    assert found["milliseconds"].keys() == {"prediction", "diagnosis"}


def test_epochs_from_a_file_are_compared_with_epochs_from_memory() -> None:
    found = streaming.measure(TINY, n_episodes=8, rounds=1)
    assert found["hdf5_epoch"] > found["hdf5_reading"] > 0
    assert found["speed_share"] == pytest.approx(found["memory_epoch"] / found["hdf5_epoch"])


def test_an_epoch_is_its_steps_and_the_rest() -> None:
    found = epoch.measure(TINY, n_episodes=20, n_epochs=1)
    assert found["epoch"] > found["steps"] > 0
    assert found["rest_share"] == pytest.approx(1 - found["steps"] / found["epoch"])


def test_less_than_one_round_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        epoch.main(["--epochs", "0"])
    assert "expected --epochs to be at least 1, got 0; correct it" in capsys.readouterr().err


def test_a_model_is_good_when_it_is_near_its_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, figures in (("slow", (0.2, 0.3, 0.8)), ("quick", (0.795, 0.8, 0.1))):
        (tmp_path / name).mkdir()
        rows = [{"epoch": n, "validation_pr_auc": value, "seconds": 5.0} for n, value in enumerate(figures)]
        write_log(rows, tmp_path / name / "training_log.csv")
    picture = tmp_path / "curve.svg"
    time_to_model.main([str(tmp_path / "slow"), str(tmp_path / "quick"), "--json", "--plot", str(picture)])
    slow, quick = json.loads(capsys.readouterr().out)
    assert (slow["epoch"], slow["seconds"], slow["all_seconds"]) == (3, 15, 15)
    assert (quick["epoch"], quick["seconds"], quick["best_pr_auc"]) == (1, 5, 0.8)
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
