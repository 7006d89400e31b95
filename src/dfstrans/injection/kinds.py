"""The kinds of fault that can be planted, and what the strength of each is measured in."""

from __future__ import annotations

from typing import NamedTuple

SPREADS, SWINGS = "spreads", "added swings"  # of the sensor that has the fault
OF_EPISODE, POINTS, OF_COUPLING = "% of the episode", "points", "% of the coupling"


class Kind(NamedTuple):
    """A kind of fault: the unit of its strength, the strengths unless others are asked for, and the largest, if any.

    `coupled` faults only show in how a sensor moves beside another one, so they need a sensor that does.
    """

    unit: str
    strengths: tuple[float, ...]
    largest: float | None = None
    coupled: bool = False

    @property
    def by_movement(self) -> bool:
        """Whether the strength goes by how far the sensor usually moves."""
        return self.unit in (SPREADS, SWINGS)

    def allows(self, strength: float) -> bool:
        """Whether there can be such a strength; points are whole.

        >>> KINDS["lag"].allows(2.0), KINDS["lag"].allows(2.5), KINDS["spike"].allows(2.5), KINDS["stuck"].allows(101)
        (True, False, True, False)
        """
        whole = self.unit != POINTS or float(strength).is_integer()
        return whole and strength > 0 and (self.largest is None or strength <= self.largest)

    def shown(self, strength: float) -> str:
        """A strength with its unit.

        >>> KINDS["spike"].shown(3.0), KINDS["gain"].shown(1.0), KINDS["stuck"].shown(30.0)
        ('3 spreads', '1 added swing', '30 % of the episode')
        """
        return f"{strength:g} {self.unit.removesuffix('s') if strength == 1 else self.unit}"


KINDS: dict[str, Kind] = {
    "spike": Kind(SPREADS, (1, 3, 10)),
    "level-shift": Kind(SPREADS, (1, 3, 10)),
    "drift": Kind(SPREADS, (1, 3, 10)),
    "gain": Kind(SWINGS, (1, 3, 10)),
    "noise-burst": Kind(SPREADS, (1, 3, 10)),
    "stuck": Kind(OF_EPISODE, (3, 10, 30), largest=100),
    "dropout": Kind(OF_EPISODE, (3, 10, 30), largest=100),
    "lag": Kind(POINTS, (3, 10, 30), coupled=True),
    "coupling-loss": Kind(OF_COUPLING, (30, 60, 100), largest=100, coupled=True),
}
