"""What to simulate."""

from __future__ import annotations

import math
from difflib import get_close_matches
from enum import IntEnum
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.elevator.motion import N_FLOORS, SAMPLING_RATE, longest_duration
from dfstrans.settings import Settings

SEGMENT_SECONDS = 0.25
RECORDING_SECONDS = 20
SAMPLING_RATES = tuple(  # that cut the simulator's own and a segment into whole parts
    rate for rate in range(SAMPLING_RATE, 0, -1) if SAMPLING_RATE % rate == 0 and rate * SEGMENT_SECONDS % 1 == 0
)
SEVERITIES: dict[str, tuple[float, float]] = {
    "lubrication": (0.25, 1.5),  # loss of lubrication, x
    "misalignment": (1.2, 4.0),  # of the guides, x
    "bump": (0.55, 4.0),  # height of bumps on the cabin's guides, mm
    "demagnetisation": (0.06, 0.20),  # share of the flux that is lost
    "inductance": (0.15, 0.40),  # share of the inductance that is lost
    "sensor-stuck": (1.0, 1.0),
    "sensor-drift": (0.5, 5.0),  # at the end of the recording, in normal standard deviations
    "sensor-gain": (0.05, 0.30),  # relative
}
LIMITS = {
    # beyond these the elevator would not arrive
    "lubrication": 5.0,
    "misalignment": 20.0,
    "bump": 20.0,
    "demagnetisation": 0.35,
    "inductance": 0.7,
    # and beyond these truth would no longer be finite; a sensor is stuck or not
    "sensor-stuck": 1.0,
    "sensor-drift": 50.0,
    "sensor-gain": 10.0,
}
MOST_INSTALLATIONS = 1_000_000
MOST_JOURNEYS = 10_000_000
PAPER_FAULTS = ("lubrication", "misalignment", "bump")
FRICTION_SENSORS = ("FrictionCabin", "FrictionCw")  # which few real elevators have

Preset = Literal["paper", "small"]
PRESETS: dict[Preset, dict[str, Any]] = {
    "paper": {"normal": 10_400, "faulty": 387},
    "small": {"normal": 1_000, "faulty": 120, "sampling_rate": 100},
}


class SimulationSettings(Settings):
    """What to simulate."""

    normal: int = Field(default=400, ge=0, le=MOST_JOURNEYS, description="Normal journeys.")
    faulty: int = Field(default=40, ge=0, le=MOST_JOURNEYS, description="Journeys with a fault.")
    faults: tuple[str, ...] = Field(
        default=PAPER_FAULTS,
        description=f"Kinds of fault, in turn: {', '.join(SEVERITIES)}. The first three by default.",
    )
    severity: tuple[float, float] | None = Field(
        default=None,
        description="From which severity to which, instead of each kind's own range.",
        json_schema_extra={"metavar": "FROM TO"},
    )
    seed: int = Field(default=0, ge=0, description="Seed of the fleet and of all its journeys.")
    installations: int = Field(default=8, ge=1, le=MOST_INSTALLATIONS, description="Different elevators.")
    sensors: Literal["all", "no-friction"] = Field(
        default="all", description="All 20 sensors, or without the two of friction, which few elevators have."
    )
    sampling_rate: int = Field(
        default=SAMPLING_RATE, description=f"Samples per second: {', '.join(map(str, SAMPLING_RATES))}."
    )
    n_timepoints: int = Field(
        default=RECORDING_SECONDS * SAMPLING_RATE,
        ge=1,
        description=f"Samples of a recording; {RECORDING_SECONDS} s of the sampling rate unless it is given.",
    )
    shortest: int = Field(default=5, ge=2, description="Fewest floors of a journey.")
    longest: int = Field(default=8, le=N_FLOORS - 1, description="Most floors of a journey.")

    @classmethod
    def of(cls, preset: Preset | None, given: dict[str, Any]) -> Self:
        """The settings of a preset, but for those that are given."""
        if preset is not None and preset not in PRESETS:
            raise DfstransError(
                f"expected {option_name('preset')} to be {' or '.join(PRESETS)}, got {preset!r}; name one"
            )
        return cls(**{**(PRESETS[preset] if preset else {}), **given})

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """A single kind or severity stands for itself; a recording lasts 20 s unless it is said otherwise."""
        given = dict(given)
        if isinstance(given.get("faults"), str):
            given["faults"] = (given["faults"],)
        if given.get("severity") is not None:
            given["severity"] = _severity(given["severity"])
        if given.get("sampling_rate") in SAMPLING_RATES:
            given.setdefault("n_timepoints", RECORDING_SECONDS * given["sampling_rate"])
        return given

    @field_validator("faults")
    @classmethod
    def _check_faults(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [kind for kind in kinds if kind not in SEVERITIES]
        if unknown or not kinds:
            several = any("," in kind or " " in kind for kind in unknown)
            meant = [] if several else [like for kind in unknown for like in get_close_matches(kind, SEVERITIES, n=1)]
            remedy = f"did you mean {meant[0]}?" if meant else "name some of them, each by itself"
            raise ValueError(
                f"expected kinds among {', '.join(SEVERITIES)}, got {', '.join(unknown) or 'none'}; {remedy}"
            )
        return kinds

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.normal + self.faulty == 0:
            raise ValueError(
                f"expected at least one journey, got {option_name('normal', 0)} and {option_name('faulty', 0)}; "
                "ask for some"
            )
        for kind in self.faults:
            if self.severity is not None and self.severity[1] > LIMITS[kind]:
                raise ValueError(
                    f"expected a severity of at most {LIMITS[kind]:g} for {kind}, got {self.severity[1]:g}; use less, "
                    "or leave that kind out"
                )
        if self.sampling_rate not in SAMPLING_RATES:
            raise ValueError(
                f"expected a {option_name('sampling_rate')} that divides {SAMPLING_RATE} Hz and gives whole segments "
                f"of {SEGMENT_SECONDS} s ({', '.join(map(str, SAMPLING_RATES))}), got {self.sampling_rate}"
            )
        if self.n_timepoints % self.segment_length:
            raise ValueError(
                f"expected {option_name('n_timepoints')} to be a multiple of {self.segment_length}, the samples of a "
                f"segment of {SEGMENT_SECONDS} s, got {self.n_timepoints}"
            )
        if self.shortest > self.longest:
            raise ValueError(
                f"expected journeys of at most {self.longest} floors, got {option_name('shortest', self.shortest)}; "
                f"lower {option_name('shortest')}, too, or raise {option_name('longest')}"
            )
        needed, there = longest_duration(self.longest), self.duration
        if needed > there:
            raise ValueError(
                f"expected a recording of at least {needed:.1f} s for journeys of {self.longest} floors, got "
                f"{there:g} s ({self.n_timepoints} samples at {self.sampling_rate} Hz); use more "
                f"{option_name('n_timepoints')}, a lower {option_name('sampling_rate')}, or shorter journeys "
                f"({option_name('longest')})"
            )
        return self

    @property
    def segment_length(self) -> int:
        """Samples of a segment of 0.25 s."""
        return round(self.sampling_rate * SEGMENT_SECONDS)

    @property
    def duration(self) -> float:
        """Of a recording, in s."""
        return self.n_timepoints / self.sampling_rate

    @property
    def n_samples(self) -> int:
        """Samples at the simulator's own 400 Hz."""
        return self.n_timepoints * self.samples_per_timepoint

    @property
    def samples_per_timepoint(self) -> int:
        """How many of the simulator's samples make one of the recording."""
        return round(SAMPLING_RATE / self.sampling_rate)

    @property
    def n_journeys(self) -> int:
        """Normal and faulty ones."""
        return self.normal + self.faulty


def _severity(given: Any) -> tuple[float, float]:
    """From … to; a single number is both."""
    name, pair = option_name("severity"), (given, given) if isinstance(given, Real) else given
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(one, Real) for one in pair):
        raise ValueError(f"expected {name} as two numbers (from, to), got {given!r}; give both, or one for all")
    low, high = float(pair[0]), float(pair[1])
    if not (math.isfinite(low) and math.isfinite(high) and min(low, high) >= 0):
        raise ValueError(f"expected {name} as finite numbers of 0 or more, got {low:g} to {high:g}; correct them")
    if low > high:
        raise ValueError(f"expected {name} from the smaller to the larger, got {low:g} to {high:g}; exchange them")
    return low, high


class Stream(IntEnum):
    """What is drawn; the number is part of the key and never changes."""

    INSTALLATION = 0
    TRIP = 1
    CONDITIONS = 2
    NOISE = 3
    FAULT = 4


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """The random numbers of one thing of one installation or journey, whatever else was drawn."""
    return np.random.default_rng((seed, int(stream), *key))
