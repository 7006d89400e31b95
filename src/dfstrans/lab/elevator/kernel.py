"""One journey: the drive and the machine together, tick by tick, compiled."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.motion import (
    CURRENT_TICK,
    PRE_TORQUE_RAMP,
    RELEASE_RAMP,
    TICKS_PER_SAMPLE,
    TICKS_PER_SPEED_TICK,
    Drive,
    brake_closure,
    compiled,
    current_loop,
    entry_point,
    speed_loop,
    torque_per_ampere,
)
from dfstrans.lab.elevator.plant import GRAVITY, Inputs, Plant, Rail, Readings, State, step

N_CHANNELS = 20
EVENT_COLUMNS = 5  # start, duration, and the amplitudes in x, y, z of a passenger's movement
TRACE_COLUMNS = (*State._fields, *Inputs._fields, *(f"reading_{name}" for name in Readings._fields))


@compiled
def _write_sample(sums, s: State, m: Readings, plant: Plant, v_d: float, v_q: float) -> None:  # type: ignore[no-untyped-def]
    """Add a tick to the running sums, in the order of `sensors.NAMES`."""
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
    """Keep everything of a step, in the order of `TRACE_COLUMNS`."""
    for column, value in enumerate(s):
        row[column] = value
    for column, value in enumerate(u):
        row[len(s) + column] = value
    for column, value in enumerate(m):
        row[len(s) + len(u) + column] = value


@compiled
def _integrate(plant: Plant, drive: Drive, s: State, rail: Rail, path, events, substeps: int, out, trace) -> None:  # type: ignore[no-untyped-def]
    times = drive.schedule
    h = CURRENT_TICK / substeps
    torque, integral, x_d, x_q, wanted_d, wanted_q = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    sums = np.zeros(N_CHANNELS)
    for tick in range(out.shape[0] * TICKS_PER_SAMPLE):
        t = tick * CURRENT_TICK
        powered = times.on <= t < times.off
        if powered and tick % TICKS_PER_SPEED_TICK == 0:
            if t < times.brake_opens:
                wanted = drive.pre_torque * min(1.0, (t - times.on) / PRE_TORQUE_RAMP)
            elif t < times.release:
                ms = min(max(round((t - times.go) * 1e3), 0), path.shape[0] - 1)
                torque, integral = speed_loop(drive, path[ms], integral, s.phi, s.omega_f)
                wanted = torque
            else:
                wanted = torque * (1.0 - (t - times.release) / RELEASE_RAMP)
            wanted_d, wanted_q = torque_per_ampere(drive, wanted)
        v_d, v_q = 0.0, 0.0
        if powered:
            v_d, v_q, x_d, x_q = current_loop(drive, wanted_d, wanted_q, s.i_d, s.i_q, s.omega, x_d, x_q)
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
        _write_sample(sums, s, readings, plant, v_d, v_q)
        if (tick + 1) % TICKS_PER_SAMPLE == 0:
            sample = tick // TICKS_PER_SAMPLE
            for channel in range(N_CHANNELS):
                out[sample, channel] = sums[channel] / TICKS_PER_SAMPLE
                sums[channel] = 0.0


def _compiled(sources: str) -> Callable[..., None]:
    """The entry to the kernel; what it closes over is part of the key of numba's cache on disk.

    Without it a change in another file than this one would go unseen.
    """

    @entry_point
    def entry(plant, drive, state, rail, path, events, substeps, out, trace):  # type: ignore[no-untyped-def]
        if len(sources) > 0:
            _integrate(plant, drive, state, rail, path, events, substeps, out, trace)

    return entry  # type: ignore[no-any-return]


_SOURCES = [Path(__file__).with_name(name) for name in ("motion.py", "plant.py", "kernel.py")]
_ENTRY = _compiled(hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest())


def run(
    plant: Plant,
    drive: Drive,
    start: State,
    rail: Rail,
    path: npt.NDArray[np.float64],
    events: npt.NDArray[np.float64],
    *,
    n_samples: int,
    substeps: int = 1,
) -> npt.NDArray[np.float64]:
    """The clean sensor signals of a journey at 400 Hz: (n_samples, 20), in the order of `sensors.NAMES`.

    Shape:
        rail (RAIL_POINTS, 8); path (n_ms, 3), of `s_curve`; events (n_events, 5)
    """
    out = np.empty((n_samples, N_CHANNELS))
    _ENTRY(plant, drive, start, rail, path, events, substeps, out, np.empty((0, 0)))
    return out


def trace(
    plant: Plant, drive: Drive, start: State, rail: Rail, path: Any, events: Any, *, n_samples: int, substeps: int = 1
) -> npt.NDArray[np.float64]:
    """Everything of every step of a journey, for verification: (n_steps, len(TRACE_COLUMNS))."""
    kept = np.empty((n_samples * TICKS_PER_SAMPLE * substeps, len(TRACE_COLUMNS)))
    _ENTRY(plant, drive, start, rail, path, events, substeps, np.empty((n_samples, N_CHANNELS)), kept)
    return kept
