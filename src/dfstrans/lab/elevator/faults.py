"""Faults: how they are drawn, and what each changes in the machine, the rails or the signals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.fleet import Trip
from dfstrans.lab.elevator.machine import SENSOR_NAMES
from dfstrans.lab.elevator.plant import SHOE_DISTANCE, Friction, Plant
from dfstrans.lab.elevator.rails import HEIGHTS, MILLIMETRE, Profile, Rails, bracket_profile, random_profile
from dfstrans.lab.elevator.settings import SEVERITIES, Stream, generator

SIDES = ("cabin", "counterweight", "both")
SIDE_SHARES = (0.5, 0.2, 0.3)

# ---- loss of lubrication, for severity 1 ----------------------------------------------------------------------------
SLIDING_RISES = 0.45
STATIC_RISES = 1.3
STRIBECK_SPEED_RISES = 2.5
VISCOUS_FALLS = 0.4
PATCH_RMS = 0.15  # of the local friction factor
PATCH_BAND = (0.3, 5.0)  # 1/m
PATCH_EXPONENT = 1.0

# ---- misalignment, for severity 1 -----------------------------------------------------------------------------------
EVENNESS = (0.4, 1.0)
NARROWING = 1.6 * MILLIMETRE  # m, everywhere, times the evenness
VARYING = 1.3 * MILLIMETRE  # m, from bracket to bracket, times (UNEVEN − evenness)
UNEVEN = 1.2
BENT_SHARE = 0.35  # of the varying part, which also bends the cabin rail

# ---- bumps ----------------------------------------------------------------------------------------------------------
BUMP_COUNTS = (0.5, 0.3, 0.2)  # probability of 1, 2, 3 bumps
SHORTEST_BUMP = 0.06  # m, a shoe bridges shorter ones
LONGEST_OVER_SHORTEST = 4.0
MIN_HEIGHT = 0.6  # of the severity
BUMP_MARGIN = 0.8  # m, from the ends of the trip
UPPER_SHOE_ONLY = 0.3  # probability that a bump is higher by the distance between the shoes

# ---- loss of inductance, for severity 1 -----------------------------------------------------------------------------
RESISTANCE_FALLS = 0.4
ASYMMETRY = 0.08

LATEST_SENSOR_FAULT = 0.7  # fraction of the motion
SENSOR_FAULTS = ("sensor-stuck", "sensor-drift", "sensor-gain")


@dataclass(frozen=True)
class Bump:
    """A raised cosine on the cabin rails."""

    centre: float  # m
    length: float  # m
    height: float  # m, signed
    angle: float  # rad, in the plane of x and y

    def profile(self) -> Profile:
        """Height along the rail: (RAIL_POINTS,)."""
        away = np.abs(HEIGHTS - self.centre)
        inside = away < self.length / 2
        return np.where(inside, self.height * (1 + np.cos(2 * math.pi * away / self.length)) / 2, 0.0)


@dataclass(frozen=True)
class ElevatorFault:
    """The fault of a journey; `key` reproduces its random profiles."""

    kind: str
    severity: float
    key: tuple[int, ...]
    side: str = ""
    bumps: tuple[Bump, ...] = ()
    evenness: float = 0.0  # of a misalignment: from 0.4, mostly varying, to 1, the same everywhere
    sensor: str = ""
    from_share: float = 0.0  # when a sensor fault starts, as a fraction of the motion
    sign: int = 1

    @property
    def on_cabin(self) -> bool:
        """Whether the cabin guides are affected."""
        return self.side in ("cabin", "both")

    @property
    def on_weight(self) -> bool:
        """Whether the counterweight guides are affected."""
        return self.side in ("counterweight", "both")


def draw_fault(
    seed: int,
    journey: tuple[int, ...],
    kind: str,
    trip: Trip,
    severity: tuple[float, float] | None = None,
    sensors: Sequence[str] = SENSOR_NAMES,
) -> ElevatorFault:
    """Draw the fault of a journey; its severity is log-uniform in its range, or uniform if the range starts at 0.

    A sensor fault affects one of `sensors`, those that are recorded.
    """
    rng = generator(seed, Stream.FAULT, *journey)
    low, high = SEVERITIES[kind] if severity is None else severity
    share = float(rng.random())
    drawn = low * (high / low) ** share if low > 0 else high * share
    fault = ElevatorFault(kind, drawn, (seed, *journey))
    if kind in ("lubrication", "misalignment"):
        side = str(rng.choice(SIDES, p=SIDE_SHARES))
        return replace(fault, side=side, evenness=float(rng.uniform(*EVENNESS)))
    if kind == "bump":
        return replace(fault, side="cabin", bumps=_draw_bumps(rng, drawn * MILLIMETRE, trip))
    if kind in SENSOR_FAULTS:
        return replace(
            fault,
            sensor=_draw_sensor(rng, sensors),
            from_share=float(rng.uniform(0, LATEST_SENSOR_FAULT)),
            sign=int(rng.choice((-1, 1))),
        )
    return fault


def _draw_sensor(rng: np.random.Generator, sensors: Sequence[str]) -> str:
    """Draw among all sensors until one of `sensors` comes up, so that recording fewer changes few journeys."""
    drawn = str(rng.choice(SENSOR_NAMES))
    while drawn not in sensors:
        drawn = str(rng.choice(SENSOR_NAMES))
    return drawn


def _draw_bumps(rng: np.random.Generator, height: float, trip: Trip) -> tuple[Bump, ...]:
    bumps = []
    for _ in range(int(rng.choice((1, 2, 3), p=BUMP_COUNTS))):
        length = SHORTEST_BUMP * LONGEST_OVER_SHORTEST ** rng.uniform()
        signed = height * rng.uniform(MIN_HEIGHT, 1) * rng.choice((-1, 1))
        angle = rng.uniform(0, 2 * math.pi)
        centre = trip.lowest + BUMP_MARGIN + (trip.distance - 2 * BUMP_MARGIN) * rng.uniform()
        if rng.random() < UPPER_SHOE_ONLY:
            centre += SHOE_DISTANCE
        bumps.append(Bump(float(centre), float(length), float(signed), float(angle)))
    return tuple(bumps)


def apply_to_rails(fault: ElevatorFault, rails: Rails) -> Rails:
    """The rails with a fault."""
    rng = generator(fault.key[0], Stream.FAULT, *fault.key[1:], 1)  # a stream of its own for the profiles
    x = fault.severity
    if fault.kind == "lubrication":
        cabin, weight = (x * random_profile(rng, PATCH_RMS, PATCH_BAND, PATCH_EXPONENT) for _ in range(2))
        return rails._replace(
            # a patch may be slippery, but friction is never negative
            factor_cabin=np.maximum(rails.factor_cabin + (cabin if fault.on_cabin else 0), 0),
            factor_weight=np.maximum(rails.factor_weight + (weight if fault.on_weight else 0), 0),
        )
    if fault.kind == "misalignment":
        constant, varying = NARROWING * fault.evenness, VARYING * (UNEVEN - fault.evenness)
        cabin, weight = (bracket_profile(rng, 1.0) for _ in range(2))
        return rails._replace(
            gauge_cabin=rails.gauge_cabin + (x * (constant + varying * cabin) if fault.on_cabin else 0),
            x=rails.x + (BENT_SHARE * x * varying * cabin if fault.on_cabin else 0),
            gauge_weight=rails.gauge_weight + (x * (constant + varying * weight) if fault.on_weight else 0),
        )
    for bump in fault.bumps:
        profile = bump.profile()
        rails = rails._replace(
            x=rails.x + profile * math.cos(bump.angle),
            y=rails.y + profile * math.sin(bump.angle),
            gauge_cabin=rails.gauge_cabin + profile * abs(math.cos(bump.angle)),
        )
    return rails


def apply_to_plant(fault: ElevatorFault, plant: Plant) -> Plant:
    """The machine with a fault."""
    x, motor = fault.severity, plant.motor
    if fault.kind == "lubrication":
        cabin, weight = plant.cabin_friction, plant.weight_friction
        return plant._replace(
            cabin_friction=_dry(cabin, x) if fault.on_cabin else cabin,
            weight_friction=_dry(weight, x) if fault.on_weight else weight,
        )
    if fault.kind == "demagnetisation":
        return plant._replace(motor=motor._replace(flux=motor.flux * (1 - x)))
    if fault.kind == "inductance":
        return plant._replace(
            motor=motor._replace(
                inductance_d=motor.inductance_d * (1 - x),
                inductance_q=motor.inductance_q * (1 - x),
                resistance=motor.resistance * (1 - RESISTANCE_FALLS * x),
                asymmetry=ASYMMETRY * x,
            )
        )
    return plant


def _dry(friction: Friction, x: float) -> Friction:
    return friction._replace(
        sliding=friction.sliding * (1 + SLIDING_RISES * x),
        static=friction.static * (1 + STATIC_RISES * x),
        stribeck_speed=friction.stribeck_speed * (1 + STRIBECK_SPEED_RISES * x),
        viscous=friction.viscous * max(0.0, 1 - VISCOUS_FALLS * x),
    )


def apply_to_signals(
    fault: ElevatorFault, signals: npt.NDArray[Any], begin: int, spread: npt.NDArray[np.float64]
) -> npt.NDArray[Any]:
    """Signals with a sensor fault from sample `begin` on.

    Shape:
        signals (n, 20); spread (20,), the normal standard deviation of each sensor
    """
    if fault.severity == 0:
        return signals
    column = SENSOR_NAMES.index(fault.sensor)
    changed = signals.copy()
    if fault.kind == "sensor-stuck":
        changed[begin:, column] = signals[begin, column]
    elif fault.kind == "sensor-drift":
        ramp = np.linspace(0, 1, len(signals) - begin)
        changed[begin:, column] += fault.sign * fault.severity * spread[column] * ramp
    else:
        changed[:, column] *= 1 + fault.sign * fault.severity
    return changed
