"""The elevator in plain NumPy, many journeys at once: a second implementation of docs/reference/elevator.md.

It shares parameters and the rail grid with the compiled kernel, but no code; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.kernel import Setup

TICK = 0.25e-3  # s
TICKS_PER_SAMPLE = 10
TICKS_PER_SPEED_STEP = 4
GRAVITY = 9.81
TRAVEL, ROPE_ABOVE = 25.2, 4.0  # m
SHOE_DISTANCE = 3.2  # m
GRID = 0.004  # m

Array = npt.NDArray[np.float64]  # (n_journeys,)


class _Many:
    """Parameters of several journeys by name: `many.radius` is (n_journeys,)."""

    def __init__(self, things: Sequence[NamedTuple]) -> None:
        for name, first in things[0]._asdict().items():
            values = [getattr(thing, name) for thing in things]
            setattr(self, name, _Many(values) if isinstance(first, tuple) else np.array(values, dtype=np.float64))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def simulate(setups: Sequence[Setup], n_samples: int) -> npt.NDArray[np.float64]:
    """The clean sensor signals at 400 Hz: (n_journeys, n_samples, 20)."""
    machine, control = _Machine(setups), _Control(setups)
    events = _stack([setup.movements for setup in setups])
    out = np.zeros((len(setups), n_samples, 20))
    for tick in range(n_samples * TICKS_PER_SAMPLE):
        t = tick * TICK
        on = (control.times.on <= t) & (t < control.times.off)
        if tick % TICKS_PER_SPEED_STEP == 0:
            control.set_currents(t, on, machine.phi, machine.omega_f)
        vd, vq = control.voltages(on, machine.id, machine.iq, machine.omega)
        values = machine.advance(on, vd, vq, control.brake(t), *_push(events, t))
        out[:, tick // TICKS_PER_SAMPLE] += np.stack(values, axis=1)
    return out / TICKS_PER_SAMPLE


def _stack(tables: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Tables (n_i, k) stacked to (n_journeys, max n_i, k), padded with zeros."""
    longest = max(1, *(len(table) for table in tables))
    stacked = np.zeros((len(tables), longest, tables[0].shape[1]))
    for row, table in zip(stacked, tables, strict=True):
        row[: len(table)] = table
    return stacked


def _push(events: npt.NDArray[np.float64], t: float) -> npt.NDArray[np.float64]:
    """The passengers' forces in x, y, z: full sines; (3, n_journeys)."""
    since, duration = t - events[..., 0], events[..., 1]
    under_way = (since >= 0) & (since < duration)
    if not under_way.any():
        return np.zeros((3, len(events)))
    share = np.divide(since, duration, out=np.zeros_like(since), where=under_way)
    return np.einsum("je,jea->aj", np.sin(2 * math.pi * share), events[..., 2:])


class _Control:
    """Schedule, speed loop and current loop (3.7)."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        self.d: Any = _Many([setup.drive for setup in setups])
        self.times = self.d.schedule
        self.paths = _stack([setup.curve.path for setup in setups])
        self.ends = np.array([len(setup.curve.path) - 1 for setup in setups])
        n = len(setups)
        self.rows = np.arange(n)
        self.torque, self.integral, self.id, self.iq, self.xd, self.xq = (np.zeros(n) for _ in range(6))

    def set_currents(self, t: float, on: npt.NDArray[np.bool_], phi: Array, omega_f: Array) -> None:
        """Every ms: the torque reference, and the smallest currents that produce it."""
        d, times = self.d, self.times
        regulated = on & (t >= times.brake_opens) & (t < times.release)
        if regulated.any():
            ms = np.rint((t - times.go) * 1000).astype(int)
            s, v, a = self.paths[self.rows, np.clip(ms, 0, self.ends)].T * d.direction / d.radius
            error = v + d.position_gain * (s - phi) - omega_f
            self.integral = np.where(regulated, self.integral + d.speed_integral * error * 1e-3, self.integral)
            torque = d.pre_torque + d.feedforward * a + d.speed_gain * error + self.integral
            self.torque = np.where(regulated, np.clip(torque, -d.max_torque, d.max_torque), self.torque)
        rising = d.pre_torque * np.minimum(1, (t - times.on) / 0.25)
        falling = self.torque * (1 - (t - times.release) / 0.25)
        wanted = np.select([t < times.brake_opens, t < times.release], [rising, self.torque], falling)
        saliency = d.inductance_q - d.inductance_d
        i0 = wanted / (1.5 * d.pole_pairs * d.flux)
        direct = (d.flux - np.sqrt(d.flux**2 + 4 * saliency**2 * i0**2)) / (2 * saliency)
        self.id = np.where(on, direct, self.id)
        self.iq = np.where(on, wanted / (1.5 * d.pole_pairs * (d.flux - saliency * direct)), self.iq)

    def voltages(self, on: npt.NDArray[np.bool_], id_: Array, iq: Array, omega: Array) -> tuple[Array, Array]:
        """Every tick: PI control, decoupling, voltage limit."""
        d = self.d
        we = d.pole_pairs * omega
        vd = d.current_gain_d * (self.id - id_) + self.xd - we * d.inductance_q * iq
        vq = d.current_gain_q * (self.iq - iq) + self.xq + we * (d.inductance_d * id_ + d.flux)
        size = np.hypot(vd, vq)
        free = on & (size <= d.max_voltage)
        self.xd = np.where(free, self.xd + d.current_integral * TICK * (self.id - id_), self.xd)
        self.xq = np.where(free, self.xq + d.current_integral * TICK * (self.iq - iq), self.xq)
        kept = np.where(on, np.minimum(1, d.max_voltage / np.maximum(size, 1e-300)), 0.0)
        return vd * kept, vq * kept

    def brake(self, t: float) -> Array:
        """1 closed, 0 open, linear in 0.12 s."""
        opening = np.clip(1 - (t - self.times.brake_opens) / 0.12, 0, 1)
        closing = np.clip((t - self.times.brake_closes) / 0.12, 0, 1)
        return np.maximum(opening, closing)


class _Machine:
    """The machine and its state (2, 3.1 to 3.6)."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        self.p: Any = _Many([setup.plant for setup in setups])
        state: Any = _Many([setup.state for setup in setups])
        self.rails = np.stack([setup.rail for setup in setups])
        self.rows = np.arange(len(setups))
        self.id, self.iq = state.i_d, state.i_q
        self.phi, self.omega, self.omega_f = state.phi, state.omega, state.omega_f
        self.z = np.stack([state.z_s, state.z_b, state.z_w, state.z_p])
        self.v = np.stack([state.v_s, state.v_b, state.v_w, state.v_p])
        self.ec, self.ew = state.e_c, state.e_w
        self.q = np.stack([state.x, state.roll, state.y, state.pitch])
        self.u = np.stack([state.v_x, state.v_roll, state.v_y, state.v_pitch])
        self.xi_c, self.xi_w, self.xi_b = state.xi_c, state.xi_w, state.xi_b

    def advance(
        self, on: npt.NDArray[np.bool_], vd: Array, vq: Array, brake: Array, px: Array, py: Array, pz: Array
    ) -> list[Array]:
        """One step; returns the 20 sensor values in order (3.9)."""
        p, g = self.p, GRAVITY
        zs, zb, zw, zp = self.z
        vs, vb, vw, vp = self.v
        torque, ripple = self._motor(on, vd, vq)

        # 3.2 ropes
        lc, lw = ROPE_ABOVE + TRAVEL - zs, ROPE_ABOVE + TRAVEL - zw
        kc, kw = (1 / (length / p.rope_tension + 1 / p.hitch) for length in (lc, lw))
        r = p.radius * (1 + p.run_out * np.cos(self.phi + p.phase_run_out))
        strain = np.where(self.omega > 0, kc * self.ec, kw * self.ew) / p.rope_tension
        fc = np.maximum(0, kc * (self.ec + p.rope_damping * (vp + r * self.omega * (1 - strain) - vs)))
        fw = np.maximum(0, kw * (self.ew + p.rope_damping * (vp - r * self.omega * (1 - strain) - vw)))

        # 3.5 the cabin body, which the lateral motion needs
        fi = -p.isolation * zb - p.isolation_damping * vb
        a_body = (fi + pz) / p.body - g

        # 3.3 lateral guidance, x then y
        up, low = self._rail(zs + SHOE_DISTANCE), self._rail(zs)
        shoes, accelerations, along = [], [], np.zeros(len(zs))
        for axis, (k, c, inertia, offset, push) in enumerate(
            (
                (p.guide_x, p.guide_damping_x, p.roll_inertia, p.offset_x, px),
                (p.guide_y, p.guide_damping_y, p.pitch_inertia, p.offset_y, py),
            )
        ):
            place, angle = self.q[2 * axis : 2 * axis + 2]
            speed, turning = self.u[2 * axis : 2 * axis + 2]
            forces = []
            for arm, rail in ((p.above, up), (-p.below, low)):
                bend, slope = rail[:, 2 * axis], rail[:, 2 * axis + 1]
                d = place + arm * angle - bend
                rate = speed + arm * turning - slope * vs
                forces.append(-(k * d * (1 + d**2 / p.guide_hardening**2) + c * rate))
                along = along - forces[-1] * slope
            moment = p.above * forces[0] - p.below * forces[1] + offset * (g + a_body) - 0.2 * p.floor * push
            accelerations += [(forces[0] + forces[1] + push) / p.lateral_mass, moment / inertia]
            shoes.append(forces)

        # 3.4 friction
        (xu, xl), (yu, yl) = shoes
        normal = np.hypot(np.maximum(0, p.preload_x + p.gauge_cabin * up[:, 4]), xu) + np.hypot(p.preload_y, yu)
        normal += np.hypot(np.maximum(0, p.preload_x + p.gauge_cabin * low[:, 4]), xl) + np.hypot(p.preload_y, yl)
        beside = self._rail(zw)
        normal_w = np.maximum(0, p.preload_weight + p.gauge_weight * beside[:, 5])
        self.xi_c, f_c = _guide(p.cabin_friction, self.xi_c, vs, normal * self._rail(zs + SHOE_DISTANCE / 2)[:, 6])
        self.xi_w, f_w = _guide(p.weight_friction, self.xi_w, vw, normal_w * beside[:, 7])
        limit = (p.bearing + p.brake * brake) / p.brake_stiffness
        self.xi_b = np.clip(self.xi_b + self.omega * TICK, -limit, limit)
        held = p.brake_stiffness * self.xi_b + (p.bearing_viscous + p.brake_damping * brake) * self.omega

        # 3.5 accelerations
        weight_s = g * (p.sling + p.rope * lc / 2 + p.compensation * zs + p.cable * zs / 2)
        weight_w = g * (p.weight + p.rope * lw / 2 + p.compensation * zw)
        a_s = (fc - weight_s - fi - f_c + along) / p.sling_inertia
        a_w = (fw - weight_w - f_w) / p.weight_inertia
        support = -p.support * zp - p.support_damping * vp
        a_p = (support - fc - fw - p.rope * (TRAVEL + 2 * ROPE_ABOVE) * g / 2) / p.machine - g
        turning_moment = torque + ripple - held - r * (fc - fw) - p.radius * g * p.rope * (lc - lw) / 2
        alpha = turning_moment / p.inertia

        # 3.6 velocities, then positions with the new ones
        self.omega = self.omega + alpha * TICK
        self.v = self.v + np.stack([a_s, a_body - a_s, a_w, a_p]) * TICK
        self.u = self.u + np.stack(accelerations) * TICK
        self.phi = self.phi + self.omega * TICK
        self.z = self.z + self.v * TICK
        self.q = self.q + self.u * TICK
        self.ec = self.ec + (self.v[3] + r * self.omega * (1 - strain) - self.v[0]) * TICK
        self.ew = self.ew + (self.v[3] - r * self.omega * (1 - strain) - self.v[2]) * TICK
        self.omega_f = self.omega_f + p.speed_filter * (self.omega - self.omega_f) * TICK

        a_x, a_roll, a_y, a_pitch = accelerations
        return [
            alpha, a_x - p.floor * a_roll - g * self.q[1], a_y - p.floor * a_pitch - g * self.q[3], a_body,
            fc, fw, f_c, f_w, support, self.id, self.iq, self.omega, self.phi, a_p,
            self.v[0], self.v[2], vd, vq, self.z[0], self.z[2],
        ]  # fmt: skip

    def _motor(self, on: npt.NDArray[np.bool_], vd: Array, vq: Array) -> tuple[Array, Array]:
        """3.1: new currents; the torque at the midpoint, and its ripple."""
        m = self.p.motor
        pp, angle = m.pole_pairs, m.pole_pairs * self.phi
        we = pp * self.omega
        c2, s2 = np.cos(2 * angle), np.sin(2 * angle)

        def rates(id_: Array, iq: Array) -> tuple[Array, Array]:
            drop = m.dead_time / (np.hypot(id_, iq) + 0.3)
            ud = vd - drop * id_ - m.asymmetry * we * m.inductance_d * (id_ * s2 + iq * c2)
            uq = vq - drop * iq - m.asymmetry * we * m.inductance_q * (id_ * c2 - iq * s2)
            return (
                (ud - m.resistance * id_ + we * m.inductance_q * iq) / m.inductance_d,
                (uq - m.resistance * iq - we * (m.inductance_d * id_ + m.flux)) / m.inductance_q,
            )

        rate_d, rate_q = rates(self.id, self.iq)
        mid_d, mid_q = self.id + TICK / 2 * rate_d, self.iq + TICK / 2 * rate_q
        rate_d, rate_q = rates(mid_d, mid_q)
        self.id, self.iq = np.where(on, self.id + TICK * rate_d, 0), np.where(on, self.iq + TICK * rate_q, 0)
        torque = np.where(on, 1.5 * pp * mid_q * (m.flux + (m.inductance_d - m.inductance_q) * mid_d), 0)
        ripple = _wave(m.cogging, 12 * angle) + torque * _wave(m.ripple_6, 6 * angle)
        return torque, ripple + on * _wave(m.ripple_1, angle)

    def _rail(self, height: Array) -> npt.NDArray[np.float64]:
        """All columns of the rail grid between two points: (n_journeys, 8)."""
        place = np.clip(height / GRID, 0, self.rails.shape[1] - 1.001)
        below = np.floor(place).astype(int)
        share = (place - below)[:, None]
        return (1 - share) * self.rails[self.rows, below] + share * self.rails[self.rows, below + 1]


def _guide(friction: Any, bristle: Array, speed: Array, normal: Array) -> tuple[Array, Array]:
    """An elasto-plastic stop element under a Stribeck bound: (bristle, force)."""
    stribeck = (friction.static - friction.sliding) / (1 + (speed / friction.stribeck_speed) ** 2)
    limit = normal * (friction.sliding + stribeck) / friction.bristle
    bent = np.clip(bristle + speed * TICK, -limit, limit)
    return bent, friction.bristle * bent + friction.viscous * speed


def _wave(wave: Any, angle: Array) -> Array:
    """A sin(θ + phase), from amplitude and phase."""
    return np.hypot(wave.sine, wave.cosine) * np.sin(angle + np.arctan2(wave.cosine, wave.sine))
