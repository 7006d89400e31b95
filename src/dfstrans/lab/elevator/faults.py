"""The faults: how strong, on which side, where, and what each changes in the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.fleet import Trip
from dfstrans.lab.elevator.motion import CyclesPerMetre, Metre, Ratio
from dfstrans.lab.elevator.plant import SHOE_DISTANCE, Friction, Plant
from dfstrans.lab.elevator.rails import HEIGHTS, MILLIMETRE, Profile, Rails, bracket_profile, random_profile
from dfstrans.lab.elevator.sensors import NAMES
from dfstrans.lab.elevator.settings import SEVERITIES, Stream, generator

SIDES = ("cabin", "counterweight", "both")
SIDE_SHARES = (0.5, 0.2, 0.3)

# ---- lost lubrication, for severity 1 -------------------------------------------------------------------------------
SLIDING_RISES: Ratio = 0.45
STATIC_RISES: Ratio = 1.3
STRIBECK_SPEED_RISES: Ratio = 2.5
VISCOUS_FALLS: Ratio = 0.4
PATCH_RMS: Ratio = 0.15  # of the local friction factor
PATCH_BAND: tuple[CyclesPerMetre, CyclesPerMetre] = (0.3, 5.0)
PATCH_EXPONENT = 1.0

# ---- misalignment, for severity 1 -----------------------------------------------------------------------------------
EVENNESS: tuple[Ratio, Ratio] = (0.4, 1.0)
NARROWER: Metre = 1.6 * MILLIMETRE  # the gauge everywhere, times the evenness
VARYING: Metre = 1.3 * MILLIMETRE  # and from bracket to bracket, times what is missing of the evenness to UNEVEN
UNEVEN: Ratio = 1.2
BENT_SHARE: Ratio = 0.35  # of what varies also bends the cabin's rail

# ---- bumps ----------------------------------------------------------------------------------------------------------
BUMP_COUNTS = (0.5, 0.3, 0.2)  # probability of 1, 2, 3 bumps
SHORTEST_BUMP: Metre = 0.06  # shorter ones a shoe bridges
LONGEST_OVER_SHORTEST: Ratio = 4.0
LOWEST_SHARE: Ratio = 0.6  # of the height that the severity says
BUMP_MARGIN: Metre = 0.8  # from the ends of the trip
UPPER_SHOE_ONLY: Ratio = 0.3  # probability that it is higher up by the distance of the shoes

# ---- inductance, for all of it lost ---------------------------------------------------------------------------------
RESISTANCE_FALLS: Ratio = 0.4
ASYMMETRY: Ratio = 0.08

LATEST_SENSOR_FAULT: Ratio = 0.7  # share of the movement
SENSOR_FAULTS = ("sensor-stuck", "sensor-drift", "sensor-gain")


@dataclass(frozen=True)
class Bump:
    """A raised cosine on the cabin's rails."""

    centre: float  # m
    length: float  # m
    height: float  # m, signed
    angle: float  # rad, in the plane of x and y

    def profile(self) -> Profile:
        """Its height along the rail."""
        away = np.abs(HEIGHTS - self.centre)
        inside = away < self.length / 2
        return np.where(inside, self.height * (1 + np.cos(2 * math.pi * away / self.length)) / 2, 0.0)


@dataclass(frozen=True)
class ElevatorFault:
    """One fault of one journey; everything random about it is drawn from `key` again when it is applied."""

    kind: str
    severity: float
    key: tuple[int, ...]
    side: str = ""
    bumps: tuple[Bump, ...] = ()
    evenness: float = 0.0  # of a misalignment: 1 everywhere the same … 0.4 mostly varying
    sensor: str = ""
    from_share: float = 0.0  # of a stuck or drifting sensor: when it begins, as a share of the movement
    sign: int = 1

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def on_cabin(self) -> bool:
        """Whether the cabin's guides are affected."""
        return self.side in ("cabin", "both")

    @property
    def on_weight(self) -> bool:
        """Whether the counterweight's guides are affected."""
        return self.side in ("counterweight", "both")


def draw_fault(
    seed: int,
    journey: tuple[int, ...],
    kind: str,
    trip: Trip,
    severity: tuple[float, float] | None = None,
    sensors: Sequence[str] = NAMES,
) -> ElevatorFault:
    """The fault of a journey; its severity is log-uniform in its range, or uniform where that begins at 0.

    A sensor that errs is one of `sensors`, those that are recorded.
    """
    rng = generator(seed, Stream.FAULT, *journey)
    low, high = SEVERITIES[kind] if severity is None else severity
    share = float(rng.random())
    strength = low * (high / low) ** share if low > 0 else high * share
    fault = ElevatorFault(kind, strength, (seed, *journey))
    if kind in ("lubrication", "misalignment"):
        side = str(rng.choice(SIDES, p=SIDE_SHARES))
        return replace(fault, side=side, evenness=float(rng.uniform(*EVENNESS)))
    if kind == "bump":
        return replace(fault, side="cabin", bumps=_draw_bumps(rng, strength * MILLIMETRE, trip))
    if kind in SENSOR_FAULTS:
        return replace(
            fault,
            sensor=_draw_sensor(rng, sensors),
            from_share=float(rng.uniform(0, LATEST_SENSOR_FAULT)),
            sign=int(rng.choice((-1, 1))),
        )
    return fault


def _draw_sensor(rng: np.random.Generator, sensors: Sequence[str]) -> str:
    """One of some sensors: as if all were there, and again until it is one of them, so that leaving others out
    changes no more journeys than it must."""
    drawn = str(rng.choice(NAMES))
    while drawn not in sensors:
        drawn = str(rng.choice(NAMES))
    return drawn


def _draw_bumps(rng: np.random.Generator, height: float, trip: Trip) -> tuple[Bump, ...]:
    bumps = []
    for _ in range(int(rng.choice((1, 2, 3), p=BUMP_COUNTS))):
        length = SHORTEST_BUMP * LONGEST_OVER_SHORTEST ** rng.uniform()
        signed = height * rng.uniform(LOWEST_SHARE, 1) * rng.choice((-1, 1))
        angle = rng.uniform(0, 2 * math.pi)
        centre = trip.lowest + BUMP_MARGIN + (trip.distance - 2 * BUMP_MARGIN) * rng.uniform()
        if rng.random() < UPPER_SHOE_ONLY:
            centre += SHOE_DISTANCE
        bumps.append(Bump(float(centre), float(length), float(signed), float(angle)))
    return tuple(bumps)


def on_rails(fault: ElevatorFault, rails: Rails) -> Rails:
    """The rails with the fault."""
    rng = generator(fault.key[0], Stream.FAULT, *fault.key[1:], 1)  # the profiles, apart from the numbers above
    x = fault.severity
    if fault.kind == "lubrication":
        cabin, weight = (x * random_profile(rng, PATCH_RMS, PATCH_BAND, PATCH_EXPONENT) for _ in range(2))
        return rails._replace(
            # a patch may be slippery, but friction never pulls
            factor_cabin=np.maximum(rails.factor_cabin + (cabin if fault.on_cabin else 0), 0),
            factor_weight=np.maximum(rails.factor_weight + (weight if fault.on_weight else 0), 0),
        )
    if fault.kind == "misalignment":
        constant, varying = NARROWER * fault.evenness, VARYING * (UNEVEN - fault.evenness)
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


def on_plant(fault: ElevatorFault, plant: Plant) -> Plant:
    """The machine with the fault."""
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


def on_signals(
    fault: ElevatorFault, signals: npt.NDArray[Any], begin: int, spread: npt.NDArray[np.float64]
) -> npt.NDArray[Any]:
    """Signals (n, 20) as a faulty sensor gives them from a sample on; `spread` is each one's normal deviation."""
    if fault.severity == 0:
        return signals
    column = NAMES.index(fault.sensor)
    changed = signals.copy()
    if fault.kind == "sensor-stuck":
        changed[begin:, column] = signals[begin, column]
    elif fault.kind == "sensor-drift":
        ramp = np.linspace(0, 1, len(signals) - begin)
        changed[begin:, column] += fault.sign * fault.severity * spread[column] * ramp
    else:
        changed[:, column] *= 1 + fault.sign * fault.severity
    return changed
