"""The compiled simulation loop: drive and machine together, tick by tick."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.motion import (
    CURRENT_TICK,
    PRE_TORQUE_RAMP,
    RELEASE_RAMP,
    TICKS_PER_SAMPLE,
    TICKS_PER_SPEED_TICK,
    Drive,
    Schedule,
    SCurve,
    brake_closure,
    compiled,
    current_loop,
    entry_point,
    mtpa_currents,
    speed_loop,
)
from dfstrans.lab.elevator.plant import GRAVITY, Inputs, Plant, Rail, Readings, State, step

N_CHANNELS = 20
TRACE_COLUMNS = (*State._fields, *Inputs._fields, *(f"reading_{name}" for name in Readings._fields))


@compiled
def _add_to_sample(sums, s: State, m: Readings, plant: Plant, v_d: float, v_q: float) -> None:  # type: ignore[no-untyped-def]
    """Add a tick to the running sums, in the order of `machine.SENSORS`."""
    sums[0] += m.alpha
    sums[1] += m.a_x - plant.floor * m.a_roll - GRAVITY * s.roll
    sums[2] += m.a_y - plant.floor * m.a_pitch - GRAVITY * s.pitch
    sums[3] += m.a_body
    sums[4] += m.rope_cabin
    sums[5] += m.rope_weight
    sums[6] += m.friction_cabin
    sums[7] += m.friction_weight
    sums[8] += m.support
    sums[9] += s.i_d
    sums[10] += s.i_q
    sums[11] += s.omega
    sums[12] += s.phi
    sums[13] += m.a_p
    sums[14] += s.v_s
    sums[15] += s.v_w
    sums[16] += v_d
    sums[17] += v_q
    sums[18] += s.z_s
    sums[19] += s.z_w


@compiled
def _write_trace(row, s: State, u: Inputs, m: Readings) -> None:  # type: ignore[no-untyped-def]
    """Keep all variables of a step, in the order of `TRACE_COLUMNS`."""
    for column, value in enumerate(s):
        row[column] = value
    for column, value in enumerate(u):
        row[len(s) + column] = value
    for column, value in enumerate(m):
        row[len(s) + len(u) + column] = value


@compiled
def _integrate(plant: Plant, drive: Drive, s: State, rail: Rail, path, events, substeps: int, out, trace) -> None:  # type: ignore[no-untyped-def]
    """Simulate `out.shape[0]` samples into `out`; also into `trace` if it has rows."""
    times = drive.schedule
    h = CURRENT_TICK / substeps
    torque, integral, x_d, x_q, target_d, target_q = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    sums = np.zeros(N_CHANNELS)
    for tick in range(out.shape[0] * TICKS_PER_SAMPLE):
        t = tick * CURRENT_TICK
        powered = times.on <= t < times.off
        if powered and tick % TICKS_PER_SPEED_TICK == 0:
            if t < times.brake_opens:
                target = drive.pre_torque * min(1.0, (t - times.on) / PRE_TORQUE_RAMP)
            elif t < times.release:
                ms = min(max(round((t - times.go) * 1e3), 0), path.shape[0] - 1)
                torque, integral = speed_loop(drive, path[ms], integral, s.phi, s.omega_f)
                target = torque
            else:
                target = torque * (1.0 - (t - times.release) / RELEASE_RAMP)
            target_d, target_q = mtpa_currents(drive, target)
        v_d, v_q = 0.0, 0.0
        if powered:
            v_d, v_q, x_d, x_q = current_loop(drive, target_d, target_q, s.i_d, s.i_q, s.omega, x_d, x_q)
        push_x, push_y, push_z = 0.0, 0.0, 0.0
        for event in range(events.shape[0]):
            since = t - events[event, 0]
            if 0.0 <= since < events[event, 1]:
                wave = math.sin(2 * math.pi * since / events[event, 1])
                push_x += events[event, 2] * wave
                push_y += events[event, 3] * wave
                push_z += events[event, 4] * wave
        inputs = Inputs(1.0 if powered else 0.0, v_d, v_q, brake_closure(times, t), push_x, push_y, push_z)
        for substep in range(substeps):
            s, readings = step(plant, s, rail, inputs, h)
            if trace.shape[0] > 0:
                _write_trace(trace[tick * substeps + substep], s, inputs, readings)
        _add_to_sample(sums, s, readings, plant, v_d, v_q)
        if (tick + 1) % TICKS_PER_SAMPLE == 0:
            sample = tick // TICKS_PER_SAMPLE
            for channel in range(N_CHANNELS):
                out[sample, channel] = sums[channel] / TICKS_PER_SAMPLE
                sums[channel] = 0.0


def _compile(sources: str) -> Callable[..., None]:
    """Compile the loop; numba puts `sources`, which it closes over, into the key of its cache on disk.

    By itself numba notices changes of this file only.
    """

    @entry_point
    def entry(plant, drive, state, rail, path, events, substeps, out, trace):  # type: ignore[no-untyped-def]
        if len(sources) > 0:
            _integrate(plant, drive, state, rail, path, events, substeps, out, trace)

    return entry  # type: ignore[no-any-return]


_SOURCES = [Path(__file__).with_name(name) for name in ("motion.py", "plant.py", "kernel.py")]
_ENTRY = _compile(hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest())


class Setup(NamedTuple):
    """All that a simulation needs.

    Shape:
        rail (RAIL_POINTS, 8); movements (n, 5): start and duration in s, amplitudes in x, y and z in N
    """

    plant: Plant
    drive: Drive
    state: State
    rail: Rail
    curve: SCurve
    movements: npt.NDArray[np.float64]

    @property
    def schedule(self) -> Schedule:
        """The events of the journey."""
        return self.drive.schedule

    def run(self, n_samples: int, substeps: int = 1) -> npt.NDArray[np.float64]:
        """The clean signals at 400 Hz, in the order of `machine.SENSORS`: (n_samples, 20)."""
        return self._run(n_samples, substeps, np.empty((0, 0)))

    def trace(self, n_samples: int, substeps: int = 1) -> npt.NDArray[np.float64]:
        """All variables of every step, for verification: (n_steps, len(TRACE_COLUMNS))."""
        trace = np.empty((n_samples * TICKS_PER_SAMPLE * substeps, len(TRACE_COLUMNS)))
        self._run(n_samples, substeps, trace)
        return trace

    def _run(self, n_samples: int, substeps: int, trace: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        signals = np.empty((n_samples, N_CHANNELS))
        path, events = self.curve.path, self.movements
        _ENTRY(self.plant, self.drive, self.state, self.rail, path, events, substeps, signals, trace)
        return signals
