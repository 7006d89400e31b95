"""Settings of a simulation, and the random streams that follow from its seed."""

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
SAMPLING_RATES = tuple(  # divisors of the internal rate that give whole segments
    rate for rate in range(SAMPLING_RATE, 0, -1) if SAMPLING_RATE % rate == 0 and rate * SEGMENT_SECONDS % 1 == 0
)
SEVERITIES: dict[str, tuple[float, float]] = {
    "lubrication": (0.25, 1.5),
    "misalignment": (1.2, 4.0),
    "bump": (0.55, 4.0),  # height in mm
    "demagnetisation": (0.06, 0.20),  # lost share of the flux
    "inductance": (0.15, 0.40),  # lost share of the inductance
    "sensor-stuck": (1.0, 1.0),
    "sensor-drift": (0.5, 5.0),  # at the end of the recording, in normal standard deviations
    "sensor-gain": (0.05, 0.30),  # relative
}
MAX_SEVERITIES = {
    # beyond these the elevator would not arrive
    "lubrication": 5.0,
    "misalignment": 20.0,
    "bump": 20.0,
    "demagnetisation": 0.35,
    "inductance": 0.7,
    # beyond these the truth would overflow; a sensor is stuck or not
    "sensor-stuck": 1.0,
    "sensor-drift": 50.0,
    "sensor-gain": 10.0,
}
MAX_JOURNEYS = 10_000_000
PAPER_FAULTS = ("lubrication", "misalignment", "bump")
FRICTION_SENSORS = ("FrictionCabin", "FrictionCw")  # few real elevators have them

Preset = Literal["paper", "full", "small"]
PRESETS: dict[Preset, dict[str, Any]] = {
    "paper": {"normal": 10_400, "faulty": 387},
    "full": {"normal": 10_400, "faulty": 387, "sampling_rate": 100},
    "small": {"normal": 1_000, "faulty": 120, "sampling_rate": 100},
}


class SimulationSettings(Settings):
    """Settings of a simulation."""

    normal: int = Field(default=400, ge=0, le=MAX_JOURNEYS, description="Number of normal journeys.")
    faulty: int = Field(default=40, ge=0, le=MAX_JOURNEYS, description="Number of faulty journeys.")
    faults: tuple[str, ...] = Field(
        default=PAPER_FAULTS,
        description=f"Kinds of fault, used in turn: {', '.join(SEVERITIES)}. The first three by default.",
    )
    severity: tuple[float, float] | None = Field(
        default=None,
        description="Range of the severity, instead of each kind's own range.",
        json_schema_extra={"metavar": "FROM TO"},
    )
    seed: int = Field(default=0, ge=0, description="Seed of the fleet and all its journeys.")
    installations: int = Field(default=8, ge=1, le=1_000_000, description="Number of different elevators.")
    sensors: Literal["all", "no-friction"] = Field(
        default="all", description="All 20 sensors, or all but the two friction sensors, which few elevators have."
    )
    sampling_rate: int = Field(
        default=SAMPLING_RATE, description=f"Samples per second: {', '.join(map(str, SAMPLING_RATES))}."
    )
    n_timepoints: int = Field(
        default=RECORDING_SECONDS * SAMPLING_RATE,
        ge=1,
        description=f"Samples per recording; {RECORDING_SECONDS} s at the sampling rate by default.",
    )
    shortest: int = Field(default=5, ge=2, description="Fewest floors per journey.")
    longest: int = Field(default=8, le=N_FLOORS - 1, description="Most floors per journey.")

    @classmethod
    def of(cls, preset: Preset | None, given: dict[str, Any]) -> Self:
        """The settings of a preset, overridden by those given."""
        if preset is not None and preset not in PRESETS:
            raise DfstransError(
                f"expected {option_name('preset')} to be {', '.join(PRESETS)}, got {preset!r}; name one"
            )
        return cls(**{**(PRESETS[preset] if preset else {}), **given})

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Accept a single kind or severity; let a recording last 20 s by default."""
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
            remedy = f"did you mean {meant[0]}?" if meant else "name one or more of them, separately"
            raise ValueError(
                f"expected kinds among {', '.join(SEVERITIES)}, got {', '.join(unknown) or 'none'}; {remedy}"
            )
        return kinds

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.normal + self.faulty == 0:
            raise ValueError(
                f"expected at least one journey, got {option_name('normal', 0)} and {option_name('faulty', 0)}; "
                "request at least one"
            )
        for kind in self.faults:
            if self.severity is not None and self.severity[1] > MAX_SEVERITIES[kind]:
                raise ValueError(
                    f"expected a severity of at most {MAX_SEVERITIES[kind]:g} for {kind}, got {self.severity[1]:g}; "
                    "use less, or leave that kind out"
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
                f"lower {option_name('shortest')} or raise {option_name('longest')}"
            )
        needed, duration = longest_duration(self.longest), self.n_timepoints / self.sampling_rate
        if needed > duration:
            raise ValueError(
                f"expected a recording of at least {needed:.1f} s for journeys of {self.longest} floors, got "
                f"{duration:g} s ({self.n_timepoints} samples at {self.sampling_rate} Hz); use more "
                f"{option_name('n_timepoints')}, a lower {option_name('sampling_rate')}, or shorter journeys "
                f"({option_name('longest')})"
            )
        return self

    @property
    def segment_length(self) -> int:
        """Points of a segment of 0.25 s."""
        return round(self.sampling_rate * SEGMENT_SECONDS)

    @property
    def n_segments(self) -> int:
        """Segments of a recording."""
        return self.n_timepoints // self.segment_length

    @property
    def n_samples(self) -> int:
        """Samples of a recording at the internal 400 Hz."""
        return self.n_timepoints * self.samples_per_timepoint

    @property
    def samples_per_timepoint(self) -> int:
        """Internal samples that are averaged into one point of the recording."""
        return round(SAMPLING_RATE / self.sampling_rate)

    @property
    def n_journeys(self) -> int:
        """Number of all journeys."""
        return self.normal + self.faulty


def _severity(given: Any) -> tuple[float, float]:
    """A range; a single number stands for both ends."""
    name, pair = option_name("severity"), (given, given) if isinstance(given, Real) else given
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(one, Real) for one in pair):
        raise ValueError(f"expected {name} as two numbers (from, to), got {given!r}; give two, or one for both")
    low, high = float(pair[0]), float(pair[1])
    if not (math.isfinite(low) and math.isfinite(high) and min(low, high) >= 0):
        raise ValueError(f"expected {name} as finite numbers of 0 or more, got {low:g} to {high:g}; correct them")
    if low > high:
        raise ValueError(f"expected {name} from the smaller to the larger, got {low:g} to {high:g}; swap them")
    return low, high


class Stream(IntEnum):
    """What is drawn; the numbers are part of the random key and never change."""

    INSTALLATION = 0
    TRIP = 1
    CONDITIONS = 2
    NOISE = 3
    FAULT = 4


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """The random generator of one stream of an installation or journey, independent of all others."""
    return np.random.default_rng((seed, int(stream), *key))
