"""What is measured of the simulated machine: for the tests, and for the figures of docs/reference/elevator.md."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dfstrans.lab.elevator.fleet import draw_conditions, draw_installation, draw_trip
from dfstrans.lab.elevator.journey import phases, set_up
from dfstrans.lab.elevator.kernel import Setup
from dfstrans.lab.elevator.machine import NOISE, add_calibration_errors
from dfstrans.lab.elevator.motion import current_loop, mtpa_currents, speed_loop
from dfstrans.lab.elevator.plant import Inputs, State, step
from dfstrans.lab.elevator.settings import Stream, generator
from dfstrans.lab.elevator.truth import NormalVariation, segment_centres, segment_rms
from tests.lab.elevator.journeys import (
    FLOORS,
    N_INSTALLATIONS,
    N_SAMPLES,
    SEED,
    Signals,
    Trace,
    column,
    journey,
    trip,
)

G = 9.81
TICK = 0.25e-3  # s
N_SEGMENTS = 80

# ---- steps ----------------------------------------------------------------------------------------------------------


def step_errors(setup: Setup, substeps: tuple[int, ...]) -> dict[int, Signals]:
    """The rms of each sensor's error for numbers of steps per tick, against sixteen, in units of its noise."""
    exact = setup.run(N_SAMPLES, substeps=16)
    return {n: np.sqrt(np.mean((setup.run(N_SAMPLES, n) - exact) ** 2, axis=0)) / NOISE for n in substeps}


# ---- steady state ---------------------------------------------------------------------------------------------------


def whole_turns(setup: Setup, trace: Trace) -> slice:
    """Steps at constant speed, over whole turns of the pulley, so that ripple and run-out cancel."""
    first = round((setup.schedule.go + setup.curve.ramp_time + 1.0) / trace.step)
    last = round((setup.schedule.end - setup.curve.ramp_time - 0.05) / trace.step)
    turned = np.abs(trace.phi - trace.phi[first])
    turns = int(turned[last] / (2 * math.pi))
    assert turns >= 4
    return slice(first, int(np.searchsorted(turned[first:last], turns * 2 * math.pi)) + first)


def torque_error(setup: Setup) -> float:
    """The motor's mean torque at constant speed − load and friction, in Nm."""
    plant, trace = setup.plant, Trace(setup)
    steps = whole_turns(setup, trace)
    z_s, z_w, omega = (trace.before(name) for name in ("z_s", "z_w", "omega"))
    cabin = plant.sling + plant.body + plant.rope * (29.2 - z_s) / 2 + plant.compensation * z_s + plant.cable * z_s / 2
    counterweight = plant.weight + plant.rope * (29.2 - z_w) / 2 + plant.compensation * z_w
    load = G * plant.radius * (cabin - counterweight + plant.rope * (z_w - z_s) / 2)
    friction = plant.radius * (trace.reading_friction_cabin - trace.reading_friction_weight)
    friction = friction + setup.drive.direction * plant.bearing + plant.bearing_viscous * omega
    inertia = plant.inertia + plant.radius**2 * (plant.sling_inertia + plant.body + plant.weight_inertia)
    gained = inertia * (omega[steps.stop] - omega[steps.start]) / (trace.time[steps.stop] - trace.time[steps.start])
    assert abs(gained) < 0.2  # the speed is constant but for 1 part in 10 000
    return float(trace.reading_torque[steps].mean() - (load + friction)[steps].mean() - gained)


def voltage_errors(setup: Setup) -> tuple[float, float]:
    """The mean Vd and Vq at constant speed − those of the steady equations, in V."""
    motor, trace = setup.plant.motor, Trace(setup)
    steps = whole_turns(setup, trace)
    i_d, i_q = trace.i_d[steps].mean(), trace.i_q[steps].mean()
    w_e = 10 * trace.omega[steps].mean()
    lost = motor.dead_time / (math.hypot(i_d, i_q) + 0.3)
    v_d = (motor.resistance + lost) * i_d - w_e * motor.inductance_q * i_q
    v_q = (motor.resistance + lost) * i_q + w_e * (motor.inductance_d * i_d + motor.flux)
    return float(trace.v_d[steps].mean() - v_d), float(trace.v_q[steps].mean() - v_q)


# ---- small movements ------------------------------------------------------------------------------------------------

VERTICAL = ("phi", "omega", "z_s", "v_s", "z_b", "v_b", "z_w", "v_w", "z_p", "v_p", "e_c", "e_w")
LATERAL = ("x", "v_x", "roll", "v_roll", "y", "v_y", "pitch", "v_pitch")


class Cruise(NamedTuple):
    """A moment of a journey at full speed, on a straight rail."""

    setup: Setup
    rail: Signals
    state: Signals
    torque: float
    reference: Signals  # position, speed, acceleration


def cruise(number: int, share: float) -> Cruise:
    """Of test journey `number`, nobody moving, from the beginning of its cruise (0) to its end (1)."""
    setup = journey(number, calm=True)
    trace = Trace(setup)
    begin, end = setup.schedule.go + setup.curve.ramp_time + 0.5, setup.schedule.end - setup.curve.ramp_time - 0.2
    row = round((begin + share * (end - begin)) / TICK)
    straight = np.tile(setup.rail.mean(axis=0), (len(setup.rail), 1))
    straight[:, [1, 3]] = 0  # no slope
    state = np.array([getattr(trace, name)[row] for name in State._fields])
    reference = setup.curve.path[round((row * TICK - setup.schedule.go) * 1e3)]
    return Cruise(setup, straight, state, float(trace.reading_torque[row]), reference)


def modes(number: int, share: float, names: tuple[str, ...]) -> Signals:
    """Frequencies (Hz) and damping of small movements at cruise, the guides sliding, no torque changing: (n, 2)."""
    at = cruise(number, share)
    nothing = Inputs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def after(state: Signals) -> Signals:
        return np.array(step.py_func(at.setup.plant, State(*state), at.rail, nothing, TICK)[0])

    chosen = [State._fields.index(name) for name in names]
    nudges = 1e-6 * np.eye(len(at.state))[chosen]
    jacobian = np.stack([(after(at.state + n) - after(at.state - n)) / 2e-6 for n in nudges], axis=1)[chosen]
    fast = _rates(jacobian, TICK)
    fast = fast[fast.imag > 2 * math.pi]  # slower is only the whole machine on its changing weights
    return np.array(sorted((abs(value) / (2 * math.pi), -value.real / abs(value)) for value in fast))


def closed_loop(number: int, share: float) -> Signals:
    """The rates (1/s, complex) of small movements at cruise with the drive in charge, over one tick of its speed loop.

    The state is that of the machine, and of the drive the integrals of speed and currents.
    """
    at = cruise(number, share)
    plant, drive = at.setup.plant, at.setup.drive
    here = dict(zip(State._fields, at.state, strict=True))
    without = speed_loop.py_func(drive, at.reference, 0.0, here["phi"], here["omega_f"])[0]

    def after(state: Signals) -> Signals:
        machine, (integral, x_d, x_q) = State(*state[:-3]), state[-3:]
        torque, integral = speed_loop.py_func(drive, at.reference, integral, machine.phi, machine.omega_f)
        wanted = mtpa_currents.py_func(drive, torque)
        for _ in range(4):
            v_d, v_q, x_d, x_q = current_loop.py_func(drive, *wanted, machine.i_d, machine.i_q, machine.omega, x_d, x_q)
            inputs = Inputs(1.0, v_d, v_q, 0.0, 0.0, 0.0, 0.0)
            machine = step.py_func(plant, machine, at.rail, inputs, TICK)[0]
        return np.array([*machine, integral, x_d, x_q])

    around = np.array([*at.state, at.torque - without, 0.0, 0.0])
    nudges = 1e-6 * np.eye(len(around))
    jacobian = np.stack([(after(around + n) - after(around - n)) / 2e-6 for n in nudges], axis=1)
    return _rates(jacobian, 4 * TICK)


def _rates(jacobian: Signals, seconds: float) -> Signals:
    """The continuous rates whose movement over some seconds the Jacobian is; what is gone after them is left out."""
    values = np.linalg.eigvals(jacobian).astype(complex)
    return np.log(values[np.abs(values) > 1e-6]) / seconds


# ---- whole journeys -------------------------------------------------------------------------------------------------


def levelling(number: int) -> tuple[float, float]:
    """How far from its floor the cabin stops (m), and how much of that is the elastic creep of the rope."""
    setup = journey(number)
    signals = setup.run(N_SAMPLES)
    where = trip((9, number))
    times, curve = setup.schedule, setup.curve
    cruising = slice(round((times.go + curve.ramp_time) * 400), round((times.end - curve.ramp_time) * 400))
    pull = (column(signals, "Fc") - column(signals, "Fcw"))[cruising].mean()
    # rope enters the pulley with the strain of its side; going down that is the counterweight's, not the cabin's
    creep = -pull * where.distance / setup.plant.rope_tension if where.direction < 0 else 0.0
    return column(signals, "Zc")[-1] - 2.8 * where.stop_floor, creep


def rollback(number: int) -> float:
    """How far the cabin moves the wrong way when the brake opens, in m."""
    setup = journey(number)
    height = column(setup.run(1000), "Zc")
    opens, moving = round(setup.schedule.brake_opens * 400), round((setup.schedule.go + 0.6) * 400)
    return -float((setup.drive.direction * (height[opens:moving] - height[0])).min())


class Limits(NamedTuple):
    """How near a journey comes to what a real drive can do, and how it rides."""

    voltage: float  # share of the limit
    current: float  # A
    ropes: float  # ratio of their forces
    ride: Signals  # peak-to-peak Ax, Ay, Az at cruise, means over 50 ms, in m/s²


def limits(number: int) -> Limits:
    """Of a journey in which nobody moves."""
    setup = journey(number, calm=True)
    signals = setup.run(N_SAMPLES)
    voltage = np.hypot(column(signals, "Vd"), column(signals, "Vq")).max() / setup.drive.max_voltage
    ropes = column(signals, "Fc") / column(signals, "Fcw")
    times, curve = setup.schedule, setup.curve
    cruising = slice(round((times.go + curve.ramp_time + 0.3) * 400), round((times.end - curve.ramp_time) * 400))
    filtered = np.stack(
        [np.convolve(column(signals, name), np.ones(20) / 20, "same")[cruising] for name in ("Ax", "Ay", "Az")]
    )
    current = np.abs(column(signals, "Iq")).max()
    return Limits(voltage, current, max(ropes.max(), 1 / ropes.min()), np.ptp(filtered, axis=1))


# ---- truth ----------------------------------------------------------------------------------------------------------


def relevance(
    scale: NormalVariation, number: int, kind: str, substeps: int = 1, **options: str
) -> tuple[Signals, np.ndarray]:
    """(n_segments, n_sensors) of a test journey, and the phase of each segment."""
    faulty, twin = journey(number, kind, **options), journey(number)  # type: ignore[arg-type]
    during = phases(twin, segment_centres(N_SEGMENTS))
    change = faulty.run(N_SAMPLES, substeps) - twin.run(N_SAMPLES, substeps)
    return scale.relevance(segment_rms(change), during).astype(float), during


def pairs(scale: NormalVariation, groups: tuple[int, int], n_pairs: int, seed: int = SEED) -> Signals:
    """Relevance of normal pairs: the same trip on two days, (n_pairs, n_segments, n_sensors)."""
    found = []
    for pair in range(n_pairs):
        where, days = draw_trip(seed, (groups[0], pair), N_INSTALLATIONS, FLOORS), []
        for group in groups:
            conditions = draw_conditions(seed, (group, pair), passengers=0)
            setup = set_up(draw_installation(seed, where.installation), where, conditions)
            days.append(add_calibration_errors(setup.run(N_SAMPLES), generator(seed, Stream.NOISE, group, pair)))
        found.append(scale.relevance(segment_rms(days[1] - days[0]), phases(setup, segment_centres(N_SEGMENTS))))
    return np.array(found, dtype=float)


def labels_that_depend_on_the_step(scale: NormalVariation, n_journeys: int) -> tuple[int, int]:
    """Of how many cells `affected` differs between steps of 0.25 ms and of 0.031 ms, and of how many in all."""
    kinds = ("lubrication", "misalignment", "bump")
    differing = 0
    for number in range(n_journeys):
        coarse, fine = (relevance(scale, number, kinds[number % 3], substeps)[0] >= 1 for substeps in (1, 8))
        differing += int((coarse != fine).sum())
    return differing, n_journeys * coarse.size
