"""What the benchmarks compute from what they measure, and that they measure it, at tiny sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import measure, network, precision, prediction, scaling
from benchmarks.measure import Case, Measured, measure_in_turns
from benchmarks.network import Shape, auto_precision, count_flops, measured_models, prepare
from dfstrans import save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.model.detector import bf16_is_fast

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


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(RuntimeError, match="ended early"):
        measure_in_turns({"": Case(lambda: None, lambda: lambda: exit(3))}, rounds=1)


@pytest.mark.parametrize("task", ["train", "predict"])
def test_every_model_does_every_task(task: str) -> None:
    assert measured_models() == [*network.MODELS][: 4 if bf16_is_fast() else 3]
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
    monkeypatch.setitem(network.SHAPES, network.QUICK_SHAPE, TINY)
    monkeypatch.setattr(measure, "MATRIX_SIZES", (64,))
    network.main(["--quick"])
    printed = json.loads(capsys.readouterr().out)
    for key in ("train", "predict", "predict_fp32"):
        assert all(printed[f"{key}_{what}"] > 0 for what in ("ratio_vs_loop", "over_limit", "seconds"))
    assert printed["precision"] == auto_precision() == ("bf16" if bf16_is_fast() else "fp32")


def test_the_work_of_one_elevator_episode_is_about_five_gflop() -> None:
    elevator = network.SHAPES["elevator"]
    assert count_flops(elevator, "predict", 1) == pytest.approx(4.9e9, rel=0.05)
    assert count_flops(elevator, "train", 16) == pytest.approx(3 * 16 * count_flops(elevator, "predict", 1))


def test_scaling_fits_the_exponent_of_the_upper_half(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.exponent([10, 20, 40, 80, 160, 320], [7, 7, 7, 80**2, 160**2, 320**2]) == pytest.approx(2)
    assert math.isnan(scaling.exponent([10], [1]))
    scaling.main(["--sweeps", "sensors", "segments", "--largest", "20", "--rounds", "1", "--json"])
    assert [sweep["sizes"] for sweep in json.loads(capsys.readouterr().out).values()] == [[10, 20], [10, 20]]


@pytest.mark.slow
def test_an_export_and_a_diagnosis_are_compared_with_a_prediction() -> None:
    found = prediction.measure(TINY, "tuned", rounds=2)
    for name in ("onnxruntime", "diagnosis"):
        low, high = found[name]["ratio_quartiles"]
        assert 0 < low <= found[name]["ratio"] <= high
        assert found[name]["milliseconds"].keys() == {"torch", name}
    assert found["logit_difference"] < 1e-5


def test_less_than_one_round_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prediction.main(["--rounds", "0"])
    assert "expected at least 1, got 0" in capsys.readouterr().err


@pytest.mark.skipif(not bf16_is_fast(), reason="needs a processor with bf16")
def test_both_precisions_are_trained_on_the_same_splits_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_episodes(planted_episodes(24, 12, n_sensors=2, n_timepoints=40), tmp_path / "data.h5")
    command = [str(data), "--splits", "2", "--epochs", "1", "--results", str(tmp_path / "results"), "--json"]
    precision.main(command)
    runs = json.loads(capsys.readouterr().out)
    assert [(run["split"], run["precision"]) for run in runs] == [(0, "32"), (0, "bf16"), (1, "32"), (1, "bf16")]
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").iterdir()}
    precision.main(command[:-1])
    assert "(2 splits)" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in written} == written
    with pytest.raises(DfstransError, match="choose another folder"):
        precision.main([*command[:4], "2", *command[5:]])
