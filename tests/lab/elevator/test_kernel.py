"""The compiled kernel: equal to the plain reference, of first order, fast, never stale."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dfstrans
from benchmarks import elevator, elevator_reference
from dfstrans.lab.elevator import kernel
from dfstrans.lab.elevator.machine import NOISE, SENSOR_NAMES
from tests.lab.elevator.journeys import MACHINE_FAULTS, N_SAMPLES, Trace, journey
from tests.lab.elevator.measurements import step_errors

SOURCES = Path(kernel.__file__).parent


# ---- the same as the reference --------------------------------------------------------------------------------------


def test_the_kernel_equals_the_plain_reference_while_starting() -> None:
    """One second: pre-torque, brake, start, a passenger's movement; sound and with faults of motor and guides."""
    setups = [journey(0, on=0.0), journey(1, "inductance", on=0.0), journey(2, "lubrication", on=0.0)]
    movement = np.array([[0.35, 0.31, 80.0, -60.0, 90.0]])
    setups = [setup._replace(movements=movement) for setup in setups]
    expected = elevator_reference.simulate(setups, 400)
    for setup, signals in zip(setups, expected, strict=True):
        assert np.ptp(signals[:, SENSOR_NAMES.index("Iq")]) > 1
        np.testing.assert_allclose(setup.run(400) / NOISE, signals / NOISE, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_kernel_equals_the_plain_reference_over_whole_journeys() -> None:
    setups = [journey(number, kind) for number, kind in enumerate((None, *MACHINE_FAULTS, None, None))]
    expected = elevator_reference.simulate(setups, N_SAMPLES)
    for setup, signals in zip(setups, expected, strict=True):
        np.testing.assert_allclose(setup.run(N_SAMPLES) / NOISE, signals / NOISE, rtol=0, atol=1e-6)


# ---- steps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 3])
def test_step_error_is_first_order_and_below_the_noise(number: int) -> None:
    setup = journey(number, calm=True)
    errors = step_errors(setup, (1, 2, 4))
    # against a sixteenth, an error of first order falls by (1 − 1/16) / (1/2 − 1/16), then (1/2 − 1/16) / (1/4 − 1/16)
    np.testing.assert_allclose(errors[1] / errors[2], 15 / 7, rtol=0.12)
    np.testing.assert_allclose(errors[2] / errors[4], 7 / 3, rtol=0.12)
    for name, error in zip(SENSOR_NAMES, errors[1], strict=True):
        assert error < {"Alpha": 1.2, "Phi": 0.4}.get(name, 0.1), name  # the two: the phase of cogging, a shift in time


def test_a_sample_is_the_mean_of_ten_ticks() -> None:
    setup = journey(0)
    signals, trace = setup.run(2000), Trace(setup, 2000)
    for name, column in (("Iq", "i_q"), ("Zc", "z_s"), ("Fc", "reading_rope_cabin"), ("Vq", "v_q")):
        mean = getattr(trace, column).reshape(2000, 10).mean(axis=1)
        np.testing.assert_allclose(signals[:, SENSOR_NAMES.index(name)], mean, rtol=1e-12, atol=1e-12)


def test_currents_and_voltages_are_zero_while_the_drive_is_off() -> None:
    setup = journey(0)
    trace = Trace(setup)
    off = (trace.time < setup.schedule.on - 1e-9) | (trace.time > setup.schedule.off + 1e-9)
    for values in (trace.i_d, trace.i_q, trace.v_d, trace.v_q, trace.reading_torque):
        np.testing.assert_array_equal(values[off], 0)
        assert (values[~off][40:-40] != 0).mean() > 0.99


# ---- fast -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_kernel_is_many_times_faster_than_plain_numpy() -> None:
    """A ratio of processor times that were taken in turns; `make bench` prints it."""
    rates = elevator.measure_rates([64], repeats=3)
    assert rates["kernel"] > 15 * rates["reference, 64 at once"]


# ---- never stale ----------------------------------------------------------------------------------------------------


def test_the_key_of_the_compiled_kernel_covers_every_file_that_is_compiled() -> None:
    """numba itself looks only at the file of the entry point: a change elsewhere would go unseen."""
    covered = {path.name for path in kernel._SOURCES}
    for path in SOURCES.glob("*.py"):
        tree = ast.parse(path.read_text())
        marks = {
            mark.id
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for mark in node.decorator_list
            if isinstance(mark, ast.Name)
        }
        if marks & {"compiled", "inlined", "entry_point", "njit", "jit"}:
            assert path.name in covered, path.name
    for name in covered:  # and what these take their constants from
        for node in ast.walk(ast.parse((SOURCES / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dfstrans.lab.elevator."):
                imported = (node.module or "").rpartition(".")[2] + ".py"
                assert imported in covered, f"{name} imports {imported}"
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in kernel._SOURCES)).hexdigest()
    assert [cell.cell_contents for cell in kernel._ENTRY.py_func.__closure__] == [digest]


@pytest.mark.slow
def test_a_change_in_any_compiled_file_is_seen(tmp_path: Path) -> None:
    """In a copy of the package with a cache of its own, twice the gravity must weigh twice."""
    shutil.copytree(Path(dfstrans.__file__).parent, tmp_path / "dfstrans", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import dfstrans; from tests.lab.elevator.journeys import journey; "
        "print(dfstrans.__file__, journey(0).run(4)[0, 4])"
    )
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"}

    def weight() -> float:
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        where, found = done.stdout.split()
        assert where.startswith(str(tmp_path))
        return float(found)

    normal = weight()
    plant = tmp_path / "dfstrans" / "lab" / "elevator" / "plant.py"
    changed = plant.read_text().replace("GRAVITY = 9.81", "GRAVITY = 19.62")
    assert changed != plant.read_text()
    plant.write_text(changed)
    assert weight() == pytest.approx(2 * normal, rel=0.02)  # the locked-in friction is not twice
