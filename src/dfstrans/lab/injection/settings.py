"""Kinds of fault, and settings of the faults to inject: how strong, how long and how many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from dfstrans.errors import DfstransError, option_name
from dfstrans.settings import Settings

THRESHOLD: dict[str, Any] = {  # unlike F1, does not depend on the number of injected faults
    "threshold_rule": "false-alarm-rate",
    "threshold_value": 0.05,
}

DEVIATIONS, SWINGS = "standard deviations", "added swings"  # of the faulty sensor
OF_EPISODE, POINTS, OF_COUPLING = "% of the episode", "points", "% of the coupling"


class Kind(NamedTuple):
    """A kind of fault: the unit of its strength, the default strengths, and the largest possible one, if any.

    `coupled` faults are visible only relative to another sensor, so they need one that moves with the faulty one.
    """

    unit: str
    strengths: tuple[float, ...]
    largest: float | None = None
    coupled: bool = False

    @property
    def by_movement(self) -> bool:
        """Whether the strength is relative to the usual movement of the sensor."""
        return self.unit in (DEVIATIONS, SWINGS)

    def allows(self, strength: float) -> bool:
        """Whether a strength is possible; points are whole.

        >>> KINDS["lag"].allows(2.0), KINDS["lag"].allows(2.5), KINDS["spike"].allows(2.5), KINDS["stuck"].allows(101)
        (True, False, True, False)
        """
        whole = self.unit != POINTS or float(strength).is_integer()
        return whole and strength > 0 and (self.largest is None or strength <= self.largest)

    def shown(self, strength: float) -> str:
        """A strength with its unit.

        >>> KINDS["spike"].shown(3.0), KINDS["gain"].shown(1.0), KINDS["stuck"].shown(30.0)
        ('3 standard deviations', '1 added swing', '30 % of the episode')
        """
        return f"{strength:g} {self.unit.removesuffix('s') if strength == 1 else self.unit}"


KINDS: dict[str, Kind] = {
    "spike": Kind(DEVIATIONS, (1, 3, 10)),
    "level-shift": Kind(DEVIATIONS, (1, 3, 10)),
    "drift": Kind(DEVIATIONS, (1, 3, 10)),
    "gain": Kind(SWINGS, (1, 3, 10)),
    "noise-burst": Kind(DEVIATIONS, (1, 3, 10)),
    "stuck": Kind(OF_EPISODE, (3, 10, 30), largest=100),
    "dropout": Kind(OF_EPISODE, (3, 10, 30), largest=100),
    "lag": Kind(POINTS, (3, 10, 30), coupled=True),
    "coupling-loss": Kind(OF_COUPLING, (30, 60, 100), largest=100, coupled=True),
}


Condition = tuple[str, float]  # a kind of fault and its strength


class InjectionSettings(Settings):
    """Settings of the faults: kinds, strengths in the unit of each kind, and the seed."""

    kinds: tuple[str, ...] = Field(default=tuple(KINDS), description="Kinds of fault.")
    strengths: dict[str, tuple[float, ...]] = Field(default={}, description="Strengths by kind, in the kind's unit.")
    share: float = Field(default=0.5, gt=0, lt=1, description="Share of faulty episodes in the set.")
    duration: float = Field(default=0.2, gt=0, le=1, description="Length of a fault as a share of its episode.")
    trials: int = Field(default=20, ge=1, description="Maximum test episodes for each kind and strength.")
    seed: int = Field(default=0, ge=0, description="Seed of the faults.")

    @field_validator("kinds")
    @classmethod
    def _known_kinds(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        _require_known(kinds)
        if not kinds:
            raise ValueError(f"expected at least one of {', '.join(KINDS)}, got none; name one")
        return tuple(dict.fromkeys(kinds))

    @model_validator(mode="after")
    def _check_strengths(self) -> Self:
        _require_known(self.strengths)
        for kind, strengths in self.strengths.items():
            largest, unit = KINDS[kind].largest, KINDS[kind].unit
            wrong = [value for value in strengths if not KINDS[kind].allows(value)]
            if wrong or not strengths:
                bounds = "above 0" + (f" and at most {largest:g}" if largest is not None else "")
                raise ValueError(
                    f"expected strengths of {kind} {bounds} ({'whole points' if unit == POINTS else unit}), got "
                    f"{', '.join(f'{value:g}' for value in wrong) or 'none'}; correct "
                    f"them, as in {option_name('strength', example(kind))}"
                )
        return self

    @classmethod
    def of(cls, kinds: str | None = None, strength: Iterable[str] = (), **others: Any) -> Self:
        """Parse command-line texts: kinds separated by commas, and strengths as for `parse_strengths`."""
        chosen = tuple(KINDS) if kinds is None else tuple(part.strip() for part in kinds.split(",") if part.strip())
        _require_known(chosen)
        return cls(kinds=chosen, strengths=parse_strengths(strength, chosen), **others)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Each kind with each of its strengths, weakest first."""
        return tuple(
            (kind, strength)
            for kind in self.kinds
            for strength in sorted(set(self.strengths.get(kind, KINDS[kind].strengths)))
        )


def parse_strengths(texts: Iterable[str], kinds: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Strengths by kind: "1,3" of every chosen kind measured in standard deviations or swings, "lag=5,20" of one kind.

    >>> parse_strengths(["2,4", "lag=5"], ["spike", "drift", "lag"])
    {'spike': (2.0, 4.0), 'drift': (2.0, 4.0), 'lag': (5.0,)}
    """
    plain: dict[str, tuple[float, ...]] = {}
    named: dict[str, tuple[float, ...]] = {}
    kinds = tuple(kinds)
    for text in texts:
        kind, equals, numbers = text.rpartition("=")
        if equals:
            kind = kind.strip()
            _require_known([kind])
            if kind not in kinds:
                raise DfstransError(
                    f"expected strengths of the chosen kinds ({', '.join(kinds)}), got {text!r}; add {kind} "
                    f"to {option_name('kinds')}, or drop its strengths"
                )
            named[kind] = _numbers(numbers, text)
            continue
        by_movement = [kind for kind in kinds if KINDS[kind].by_movement]
        if not by_movement:
            raise DfstransError(
                f"expected the strengths of each kind by its name, since none of {', '.join(kinds)} is measured in "
                f"standard deviations or swings, got {text!r}; write {option_name('strength', example(kinds[0]))}"
            )
        plain |= dict.fromkeys(by_movement, _numbers(text, text))
    return plain | named


def example(kind: str) -> str:
    """The default strengths of a kind as on the command line.

    >>> example("lag")
    'lag=3,10,30'
    """
    return f"{kind}=" + ",".join(f"{value:g}" for value in KINDS[kind].strengths)


def _numbers(text: str, given: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise DfstransError(
            f"expected strengths as numbers separated by commas, such as 1,3,10 or {example('lag')}, got "
            f"{given!r}; correct it"
        )
    return found


def _require_known(kinds: Iterable[str] | Mapping[str, Any]) -> None:
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise DfstransError(
            f"expected kinds of fault among {', '.join(KINDS)}, got {', '.join(map(repr, unknown))}; correct "
            f"{option_name('kinds')}"
        )
