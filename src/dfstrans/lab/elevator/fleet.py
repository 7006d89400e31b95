"""The fleet: installations that differ, journeys with their passengers, and conditions that change from day to day."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.machine import RATED_LOAD, ROPE_MASS
from dfstrans.lab.elevator.motion import (
    ACCELERATIONS,
    FLOOR_HEIGHT,
    JERKS,
    LATEST_START,
    N_FLOORS,
    Acceleration,
    Celsius,
    Damping,
    Henry,
    Hertz,
    Inertia,
    Jerk,
    Kelvin,
    Kilogram,
    KilogramMetre,
    KilogramPerMetre,
    Metre,
    Newton,
    NewtonMetre,
    Ohm,
    Radian,
    Ratio,
    RotaryDamping,
    Second,
    Speed,
    Stiffness,
    Volt,
    Weber,
)
from dfstrans.lab.elevator.rails import FACTOR_BAND, FACTOR_EXPONENT, Rails, draw_rails, random_profile
from dfstrans.lab.elevator.settings import Stream, generator

TURN: Radian = 2 * math.pi


class Installation(NamedTuple):
    """What stays the same in one elevator; RANGES says from where to where its numbers lie."""

    sling: Kilogram
    body: Kilogram
    balance: Ratio  # share of the rated load that the counterweight balances
    weight_trim: Kilogram
    machine: Kilogram
    pulley_inertia: Inertia
    run_out: Ratio
    bearing: NewtonMetre
    bearing_viscous: RotaryDamping
    rope_tension: Newton
    hitch: Stiffness
    rope_damping: Second
    compensation: KilogramPerMetre
    cable: KilogramPerMetre
    support: Stiffness
    support_damping_ratio: Ratio
    isolation: Stiffness
    isolation_damping_ratio: Ratio
    guide_x: Stiffness
    guide_y: Stiffness
    guide_damping_ratio: Ratio
    below: Metre
    preload_x: Newton
    preload_y: Newton
    gauge_cabin: Stiffness
    preload_weight: Newton
    gauge_weight: Stiffness
    sliding: Ratio
    static_over_sliding: Ratio
    stribeck_speed: Speed
    viscous: Damping
    flux_20: Weber
    inductance_d: Henry
    inductance_q: Henry
    resistance_20: Ohm
    cogging: NewtonMetre
    ripple_6: Ratio
    ripple_1: NewtonMetre
    phase_cogging: Radian
    phase_6: Radian
    phase_1: Radian
    phase_run_out: Radian
    speed_bandwidth: Hertz
    acceleration: Acceleration
    jerk: Jerk

    @property
    def weight(self) -> Kilogram:
        """The counterweight."""
        return self.sling + self.body + self.balance * RATED_LOAD + self.weight_trim


RANGES: dict[str, tuple[float, float]] = {
    "sling": (320, 380),
    "body": (420, 480),
    "balance": (0.45, 0.50),
    "weight_trim": (-8, 8),
    "machine": (350, 450),
    "pulley_inertia": (5, 7),
    "run_out": (0.5e-4, 2.5e-4),
    "bearing": (2, 4),
    "bearing_viscous": (0.3, 0.8),
    "rope_tension": (11.5e6, 13.5e6),
    "hitch": (0.8e6, 1.1e6),
    "rope_damping": (3e-3, 5e-3),
    "compensation": (0.85 * ROPE_MASS, ROPE_MASS),  # where there is one at all
    "cable": (0.8, 1.2),
    "support": (7e6, 10e6),
    "support_damping_ratio": (0.04, 0.08),
    "isolation": (1.0e6, 1.4e6),
    "isolation_damping_ratio": (0.05, 0.09),
    "guide_x": (200e3, 300e3),
    "guide_y": (160e3, 240e3),
    "guide_damping_ratio": (0.10, 0.16),
    "below": (1.40, 1.55),
    "preload_x": (260, 340),
    "preload_y": (260, 340),
    "gauge_cabin": (200e3, 300e3),
    "preload_weight": (750, 950),
    "gauge_weight": (300e3, 450e3),
    "sliding": (0.085, 0.10),
    "static_over_sliding": (1.4, 1.6),
    "stribeck_speed": (0.12, 0.20),
    "viscous": (20, 35),
    "flux_20": (2.25 * 0.98, 2.25 * 1.02),
    "inductance_d": (0.026 * 0.97, 0.026 * 1.03),
    "inductance_q": (0.038 * 0.97, 0.038 * 1.03),
    "resistance_20": (1.05 * 0.97, 1.05 * 1.03),
    "cogging": (1.5, 4),
    "ripple_6": (0.002, 0.006),
    "ripple_1": (0.5, 2),
    "phase_cogging": (0, TURN),
    "phase_6": (0, TURN),
    "phase_1": (0, TURN),
    "phase_run_out": (0, TURN),
    "speed_bandwidth": (1.4, 1.9),
    "acceleration": ACCELERATIONS,
    "jerk": JERKS,
}
WITHOUT_COMPENSATION = 0.35  # share of installations

# ---- a trip ---------------------------------------------------------------------------------------------------------
EARLIEST_START: Second = 0.25  # of the drive's switching on
PASSENGERS = (0.16, 0.22, 0.20, 0.14, 0.11, 0.08, 0.05, 0.03, 0.01)  # probability of 0, 1, … 8
PASSENGER_MASS: Kilogram = 75.0
PASSENGER_SPREAD: Kilogram = 14.0
PASSENGER_LIMITS: tuple[Kilogram, Kilogram] = (35.0, 120.0)
FLOOR_REACH: tuple[Metre, Metre] = (0.42, 0.50)  # how far from the middle of the floor they stand, in x and y
CABIN_OFFSET: tuple[KilogramMetre, KilogramMetre] = (6.0, 8.0)  # of the empty cabin, in x and y

# ---- a day; spreads are standard deviations, of the logarithm where it is a factor ----------------------------------
AMBIENT: tuple[Celsius, Celsius] = (5.0, 35.0)
WARMER_WINDING: tuple[Kelvin, Kelvin] = (5.0, 60.0)
LUBRICATION_SPREAD: Ratio = 0.10  # common to both guides
LUBRICATION_OWN_SPREAD: Ratio = 0.03  # of each
STATIC_SPREAD: Ratio = 0.05
STRIBECK_SPREAD: Ratio = 0.08
WEAR_SPREAD: Ratio = 0.03
LOAD_GAIN_SPREAD: Ratio = 0.03  # of the load cell
LOAD_OFFSET_SPREAD: Kilogram = 8.0
SUPPLY: Volt = 550.0
SUPPLY_RANGE: tuple[Ratio, Ratio] = (0.94, 1.06)
LOCKED_SHARE: Ratio = 0.5  # at most, of the static bound
RAIL_AMPLITUDE_SPREAD: Ratio = 0.1
FRESH_RMS: Ratio = 0.015  # of the day's own friction factor along the rail

# ---- passengers' movements ------------------------------------------------------------------------------------------
MOVEMENTS = (0.55, 0.30, 0.15)  # probability of 1, 2, 3 when somebody is in the cabin
MOVEMENT_DURATION: tuple[Second, Second] = (0.12, 0.52)
WEAKEST_PUSH: Newton = 20.0  # of two passengers
PUSH_DECADES = 0.9  # from the weakest to the strongest push
LARGEST_VERTICAL_SHARE: Ratio = 2.0  # of the push sideways


class Trip(NamedTuple):
    """From which floor to which, with whom, when."""

    installation: int
    start_floor: int
    stop_floor: int
    load: Kilogram
    passengers: int
    offset_x: KilogramMetre
    offset_y: KilogramMetre
    on: Second

    @property
    def direction(self) -> int:
        """+1 up, −1 down."""
        return 1 if self.stop_floor > self.start_floor else -1

    @property
    def start(self) -> Metre:
        """Height of the first floor."""
        return self.start_floor * FLOOR_HEIGHT

    @property
    def distance(self) -> Metre:
        """How far the cabin goes."""
        return abs(self.stop_floor - self.start_floor) * FLOOR_HEIGHT

    @property
    def lowest(self) -> Metre:
        """Height of the lower of the two floors."""
        return min(self.start_floor, self.stop_floor) * FLOOR_HEIGHT


class Conditions(NamedTuple):
    """What differs from day to day without being a fault."""

    ambient: Celsius
    winding: Celsius
    lubrication_cabin: Ratio  # factor on the friction coefficients
    lubrication_weight: Ratio
    static: Ratio  # further factor on the static one
    stribeck_speed: Ratio
    wear: Ratio  # factor on the preloads
    load_gain: Ratio  # of the load cell
    load_offset: Kilogram
    supply: Volt
    locked_cabin: Ratio  # friction left from the last stop, as a share of the static bound
    locked_weight: Ratio
    rail_amplitude: Ratio
    fresh_cabin: npt.NDArray[np.float64]  # today's addition to the friction factor along the rail
    fresh_weight: npt.NDArray[np.float64]
    movements: npt.NDArray[np.float64]  # (n, 5): when, as a share of the journey; duration; amplitude x, y, z


class FleetMember(NamedTuple):
    """An installation with its rails."""

    installation: Installation
    rails: Rails


def draw_installation(seed: int, number: int) -> FleetMember:
    """One elevator of the fleet of a seed."""
    rng = generator(seed, Stream.INSTALLATION, number)
    drawn = {name: float(rng.uniform(*bounds)) for name, bounds in RANGES.items()}
    if rng.random() < WITHOUT_COMPENSATION:
        drawn["compensation"] = 0.0
    return FleetMember(Installation(**drawn), draw_rails(rng))


def draw_trip(seed: int, journey: tuple[int, ...], n_installations: int, floors: tuple[int, int]) -> Trip:
    """Where a journey goes and who is in the cabin."""
    rng = generator(seed, Stream.TRIP, *journey)
    installation = int(rng.integers(n_installations))
    up = rng.random() < 0.5
    travelled = int(rng.integers(floors[0], floors[1] + 1))
    low = int(rng.integers(N_FLOORS - travelled))
    start, stop = (low, low + travelled) if up else (low + travelled, low)
    drawn = rng.normal(PASSENGER_MASS, PASSENGER_SPREAD, rng.choice(len(PASSENGERS), p=PASSENGERS))
    masses = np.clip(drawn, *PASSENGER_LIMITS)
    masses = masses[np.cumsum(masses) <= RATED_LOAD]
    places = rng.uniform(np.negative(FLOOR_REACH), FLOOR_REACH, (len(masses), 2))
    offset_x, offset_y = masses @ places + CABIN_OFFSET
    return Trip(
        installation,
        start,
        stop,
        float(masses.sum()),
        len(masses),
        float(offset_x),
        float(offset_y),
        round(float(rng.uniform(EARLIEST_START, LATEST_START)), 3),
    )


def draw_conditions(seed: int, journey: tuple[int, ...], passengers: int) -> Conditions:
    """The day of a journey."""
    rng = generator(seed, Stream.CONDITIONS, *journey)

    def lognormal(spread: float) -> float:
        return math.exp(spread * rng.standard_normal())

    ambient = float(rng.uniform(*AMBIENT))
    common = lognormal(LUBRICATION_SPREAD)
    return Conditions(
        ambient=ambient,
        winding=ambient + float(rng.uniform(*WARMER_WINDING)),
        lubrication_cabin=common * lognormal(LUBRICATION_OWN_SPREAD),
        lubrication_weight=common * lognormal(LUBRICATION_OWN_SPREAD),
        static=lognormal(STATIC_SPREAD),
        stribeck_speed=lognormal(STRIBECK_SPREAD),
        wear=lognormal(WEAR_SPREAD),
        load_gain=1 + LOAD_GAIN_SPREAD * float(rng.standard_normal()),
        load_offset=LOAD_OFFSET_SPREAD * float(rng.standard_normal()),
        supply=SUPPLY * float(rng.uniform(*SUPPLY_RANGE)),
        locked_cabin=float(rng.uniform(-LOCKED_SHARE, LOCKED_SHARE)),
        locked_weight=float(rng.uniform(-LOCKED_SHARE, LOCKED_SHARE)),
        rail_amplitude=1 + RAIL_AMPLITUDE_SPREAD * float(rng.standard_normal()),
        fresh_cabin=random_profile(rng, FRESH_RMS, FACTOR_BAND, FACTOR_EXPONENT),
        fresh_weight=random_profile(rng, FRESH_RMS, FACTOR_BAND, FACTOR_EXPONENT),
        movements=_draw_movements(rng, passengers),
    )


def _draw_movements(rng: np.random.Generator, passengers: int) -> npt.NDArray[np.float64]:
    """When and how strongly passengers shift their weight."""
    n = int(rng.choice((1, 2, 3), p=MOVEMENTS)) if passengers else 0
    share, angle = rng.uniform(0, 1, n), rng.uniform(0, TURN, n)
    duration = rng.uniform(*MOVEMENT_DURATION, n)
    force = WEAKEST_PUSH * 10 ** (PUSH_DECADES * rng.uniform(0, 1, n)) * math.sqrt(passengers / 2)
    vertical = rng.uniform(0, LARGEST_VERTICAL_SHARE, n)
    return np.stack([share, duration, force * np.cos(angle), force * np.sin(angle), force * vertical], axis=1)


def as_plain(thing: NamedTuple) -> dict[str, Any]:
    """The numbers of a trip, conditions or installation, for JSON; arrays, which the seed gives back, are left out."""
    return {name: value for name, value in thing._asdict().items() if not isinstance(value, np.ndarray)}
