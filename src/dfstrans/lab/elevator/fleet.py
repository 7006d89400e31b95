"""Random draws: installations, trips with their passengers, and conditions that change from day to day."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.machine import RATED_LOAD, ROPE_MASS
from dfstrans.lab.elevator.motion import ACCELERATIONS, FLOOR_HEIGHT, JERKS, LATEST_START, N_FLOORS
from dfstrans.lab.elevator.rails import FACTOR_BAND, FACTOR_EXPONENT, Rails, draw_rails, random_profile
from dfstrans.lab.elevator.settings import Stream, generator

TURN = 2 * math.pi  # rad


class Installation(NamedTuple):
    """The parameters of one elevator; each is drawn uniformly from the range in its annotation."""

    sling: Annotated[float, (320, 380)]  # kg
    body: Annotated[float, (420, 480)]  # kg
    balance: Annotated[float, (0.45, 0.50)]  # of the rated load
    weight_trim: Annotated[float, (-8, 8)]  # kg, added to the balanced counterweight
    machine: Annotated[float, (350, 450)]  # kg
    pulley_inertia: Annotated[float, (5, 7)]  # kg m²
    run_out: Annotated[float, (0.5e-4, 2.5e-4)]
    bearing: Annotated[float, (2, 4)]  # Nm
    bearing_viscous: Annotated[float, (0.3, 0.8)]  # Nms/rad
    rope_tension: Annotated[float, (11.5e6, 13.5e6)]  # N
    hitch: Annotated[float, (0.8e6, 1.1e6)]  # N/m
    rope_damping: Annotated[float, (3e-3, 5e-3)]  # s
    compensation: Annotated[float, (0.85 * ROPE_MASS, ROPE_MASS)]  # kg/m, in installations that have one
    cable: Annotated[float, (0.8, 1.2)]  # kg/m
    support: Annotated[float, (7e6, 10e6)]  # N/m
    support_damping_ratio: Annotated[float, (0.04, 0.08)]
    isolation: Annotated[float, (1.0e6, 1.4e6)]  # N/m
    isolation_damping_ratio: Annotated[float, (0.05, 0.09)]
    guide_x: Annotated[float, (200e3, 300e3)]  # N/m
    guide_y: Annotated[float, (160e3, 240e3)]  # N/m
    guide_damping_ratio: Annotated[float, (0.10, 0.16)]
    below: Annotated[float, (1.40, 1.55)]  # m
    preload_x: Annotated[float, (260, 340)]  # N
    preload_y: Annotated[float, (260, 340)]  # N
    gauge_cabin: Annotated[float, (200e3, 300e3)]  # N/m
    preload_weight: Annotated[float, (750, 950)]  # N
    gauge_weight: Annotated[float, (300e3, 450e3)]  # N/m
    sliding: Annotated[float, (0.085, 0.10)]
    static_over_sliding: Annotated[float, (1.4, 1.6)]
    stribeck_speed: Annotated[float, (0.12, 0.20)]  # m/s
    viscous: Annotated[float, (20, 35)]  # Ns/m
    flux_20: Annotated[float, (2.25 * 0.98, 2.25 * 1.02)]  # Wb
    inductance_d: Annotated[float, (0.026 * 0.97, 0.026 * 1.03)]  # H
    inductance_q: Annotated[float, (0.038 * 0.97, 0.038 * 1.03)]  # H
    resistance_20: Annotated[float, (1.05 * 0.97, 1.05 * 1.03)]  # Ω
    cogging: Annotated[float, (1.5, 4)]  # Nm
    ripple_6: Annotated[float, (0.002, 0.006)]
    ripple_1: Annotated[float, (0.5, 2)]  # Nm
    phase_cogging: Annotated[float, (0, TURN)]  # rad
    phase_6: Annotated[float, (0, TURN)]  # rad
    phase_1: Annotated[float, (0, TURN)]  # rad
    phase_run_out: Annotated[float, (0, TURN)]  # rad
    speed_bandwidth: Annotated[float, (1.4, 1.9)]  # Hz
    acceleration: Annotated[float, ACCELERATIONS]  # m/s²
    jerk: Annotated[float, JERKS]  # m/s³

    @property
    def weight(self) -> float:
        """Mass of the counterweight."""
        return self.sling + self.body + self.balance * RATED_LOAD + self.weight_trim


RANGES: dict[str, tuple[float, float]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Installation, include_extras=True).items()
}
WITHOUT_COMPENSATION = 0.35  # share of installations

# ---- a trip ---------------------------------------------------------------------------------------------------------
EARLIEST_START = 0.25  # s, earliest power-on
PASSENGERS = (0.16, 0.22, 0.20, 0.14, 0.11, 0.08, 0.05, 0.03, 0.01)  # probability of 0, 1, … 8
PASSENGER_MASS = 75.0  # kg
PASSENGER_SPREAD = 14.0  # kg
PASSENGER_LIMITS = (35.0, 120.0)  # kg
FLOOR_REACH = (0.42, 0.50)  # m, largest distance from the middle of the floor, in x and y
CABIN_OFFSET = (6.0, 8.0)  # kg m, of the empty cabin, in x and y

# ---- a day; spreads are standard deviations, of the logarithm for factors -------------------------------------------
AMBIENT = (5.0, 35.0)  # °C
WINDING_HEATING = (5.0, 60.0)  # K, over ambient
LUBRICATION_SPREAD = 0.10  # common to both guides
LUBRICATION_OWN_SPREAD = 0.03  # of each
STATIC_SPREAD = 0.05
STRIBECK_SPREAD = 0.08
WEAR_SPREAD = 0.03
LOAD_GAIN_SPREAD = 0.03  # of the load cell
LOAD_OFFSET_SPREAD = 8.0  # kg
SUPPLY = 550.0  # V
SUPPLY_RANGE = (0.94, 1.06)
LOCKED_SHARE = 0.5  # at most, of the static bound
RAIL_AMPLITUDE_SPREAD = 0.1
FRESH_RMS = 0.015  # of the daily change of the friction factor along the rail

# ---- movements of passengers ----------------------------------------------------------------------------------------
MOVEMENTS = (0.55, 0.30, 0.15)  # probability of 1, 2, 3 if there are passengers
MOVEMENT_DURATION = (0.12, 0.52)  # s
WEAKEST_PUSH = 20.0  # N, of two passengers
PUSH_DECADES = 0.9  # from the weakest to the strongest push
MAX_VERTICAL_SHARE = 2.0  # of the lateral push


class Trip(NamedTuple):
    """Floors, passengers and start of a journey."""

    installation: int
    start_floor: int
    stop_floor: int
    load: float  # kg
    passengers: int
    offset_x: float  # kg m
    offset_y: float  # kg m
    on: float  # s

    @property
    def direction(self) -> int:
        """+1 up, −1 down."""
        return 1 if self.stop_floor > self.start_floor else -1

    @property
    def start(self) -> float:
        """Height of the start floor in m."""
        return self.start_floor * FLOOR_HEIGHT

    @property
    def distance(self) -> float:
        """Length of the journey in m."""
        return abs(self.stop_floor - self.start_floor) * FLOOR_HEIGHT

    @property
    def lowest(self) -> float:
        """Height of the lower floor in m."""
        return min(self.start_floor, self.stop_floor) * FLOOR_HEIGHT


class Conditions(NamedTuple):
    """What changes from day to day without a fault.

    Shape:
        fresh_* (RAIL_POINTS,); movements (n, 5): start, as a fraction of the journey; duration; amplitudes in x, y, z
    """

    ambient: float  # °C
    winding: float  # °C
    lubrication_cabin: float  # factor on the friction coefficients
    lubrication_weight: float
    static: float  # additional factor on static friction
    stribeck_speed: float
    wear: float  # factor on the preloads
    load_gain: float  # of the load cell
    load_offset: float  # kg
    supply: float  # V
    locked_cabin: float  # friction locked in at the last stop, relative to the static bound
    locked_weight: float
    rail_amplitude: float
    fresh_cabin: npt.NDArray[np.float64]  # added to the friction factor along the rail
    fresh_weight: npt.NDArray[np.float64]
    movements: npt.NDArray[np.float64]


class FleetMember(NamedTuple):
    """An installation with its rails."""

    installation: Installation
    rails: Rails


def draw_installation(seed: int, number: int) -> FleetMember:
    """Draw one elevator of a seed."""
    rng = generator(seed, Stream.INSTALLATION, number)
    drawn = {name: float(rng.uniform(*bounds)) for name, bounds in RANGES.items()}
    if rng.random() < WITHOUT_COMPENSATION:
        drawn["compensation"] = 0.0
    return FleetMember(Installation(**drawn), draw_rails(rng))


def draw_trip(seed: int, journey: tuple[int, ...], n_installations: int, floors: tuple[int, int]) -> Trip:
    """Draw the trip of a journey."""
    rng = generator(seed, Stream.TRIP, *journey)
    installation = int(rng.integers(n_installations))
    up = rng.random() < 0.5
    travelled = int(rng.integers(floors[0], floors[1] + 1))
    low = int(rng.integers(N_FLOORS - travelled))
    start, stop = (low, low + travelled) if up else (low + travelled, low)
    drawn = rng.normal(PASSENGER_MASS, PASSENGER_SPREAD, rng.choice(len(PASSENGERS), p=PASSENGERS))
    masses = np.clip(drawn, *PASSENGER_LIMITS)
    masses = masses[np.cumsum(masses) <= RATED_LOAD]
    positions = rng.uniform(np.negative(FLOOR_REACH), FLOOR_REACH, (len(masses), 2))
    offset_x, offset_y = masses @ positions + CABIN_OFFSET
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
    """Draw the conditions of a journey."""
    rng = generator(seed, Stream.CONDITIONS, *journey)

    def lognormal(spread: float) -> float:
        return math.exp(spread * rng.standard_normal())

    ambient = float(rng.uniform(*AMBIENT))
    common = lognormal(LUBRICATION_SPREAD)
    return Conditions(
        ambient=ambient,
        winding=ambient + float(rng.uniform(*WINDING_HEATING)),
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
    """Draw when and how strongly passengers shift their weight."""
    n = int(rng.choice((1, 2, 3), p=MOVEMENTS)) if passengers else 0
    share, angle = rng.uniform(0, 1, n), rng.uniform(0, TURN, n)
    duration = rng.uniform(*MOVEMENT_DURATION, n)
    force = WEAKEST_PUSH * 10 ** (PUSH_DECADES * rng.uniform(0, 1, n)) * math.sqrt(passengers / 2)
    vertical = rng.uniform(0, MAX_VERTICAL_SHARE, n)
    return np.stack([share, duration, force * np.cos(angle), force * np.sin(angle), force * vertical], axis=1)


def to_json(drawn: Trip | Conditions) -> dict[str, Any]:
    """The scalars of a trip or of conditions; the seed reproduces the arrays."""
    return {name: value for name, value in drawn._asdict().items() if not isinstance(value, np.ndarray)}
