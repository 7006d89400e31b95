"""One fault in one episode: drawn at random, and planted. Missing values stay missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.injection.normal import NormalSensors
from dfstrans.lab.injection.settings import KINDS, OF_EPISODE

Values = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]
ATTEMPTS = 100  # to find a sensor and time where the fault is visible
MIN_CHANGE = 0.05  # visible change, in spreads of the sensor, or of the strength if that is smaller
TWINS, TRIALS = 0, 1  # random streams: trials must not repeat the positions seen in training


class PlantedFault(NamedTuple):
    """All that determines a fault in a given episode.

    `sensor` is an index; `donor` the row of the episode whose movement a decoupled sensor shows; `seed` that of noise.
    """

    kind: str
    strength: float
    sensor: int
    start: int
    stop: int
    sign: int
    donor: int
    seed: tuple[int, ...]

    def truth(self, sensors: tuple[str, ...]) -> Fault:
        """The fault as episodes store it; its severity is the strength."""
        return Fault(self.start, self.stop, (sensors[self.sensor],), self.kind, self.strength)

    def recipe(self, normal: NormalSensors) -> dict[str, Any]:
        """How the episode was made, for JSON."""
        partner = {"partner": normal.sensors[normal.partner[self.sensor]]} if KINDS[self.kind].coupled else {}
        return {
            **self._asdict(),
            "sensor": normal.sensors[self.sensor],
            "unit": KINDS[self.kind].unit,
            "spread": float(normal.spread[self.sensor]),
            **partner,
        }


def with_fault(values: Values, fault: PlantedFault, normal: NormalSensors, donors: Episodes) -> Values:
    """A copy of an episode with the fault; only its sensor changes, and only in its window.

    Shape:
        values (n_sensors, length)
    """
    changed = values.copy()
    window, sensor = slice(fault.start, fault.stop), fault.sensor
    series = values[sensor].astype(np.float64)
    faulty = _faulty(series, fault, normal, donors)
    if normal.whole[sensor]:
        faulty = np.rint(faulty)
    changed[sensor, window] = faulty
    return changed


def _faulty(series: Array, fault: PlantedFault, normal: NormalSensors, donors: Episodes) -> Array:
    """What the sensor reads during the fault."""
    stretch, sensor = series[fault.start : fault.stop], fault.sensor
    amount = fault.strength * float(normal.spread[sensor])
    rng = np.random.default_rng(fault.seed)
    match fault.kind:
        case "spike" | "level-shift":
            return stretch + fault.sign * amount
        case "drift":
            return _drift(stretch, fault.sign * amount)
        case "gain":
            centre = float(normal.centre[sensor])
            return centre + (stretch - centre) * (1 + fault.strength)
        case "noise-burst":
            return stretch + amount * rng.standard_normal(len(stretch))
        case "stuck":
            return _stuck(stretch)
        case "dropout":
            return np.where(np.isnan(stretch), np.nan, 0.0)  # a dead line reads 0
        case "lag":
            points = int(fault.strength)
            return series[fault.start - points : fault.stop - points].copy()
        case "coupling-loss":
            other = donors.values[fault.donor][sensor, fault.start : fault.stop].astype(np.float64)
            if normal.whole[sensor] or normal.switches[sensor]:
                return _swap_points(stretch, other, fault.strength / 100, rng)
            return _decouple(stretch, other, fault.strength / 100)
    raise AssertionError(fault.kind)  # the settings know the kinds


def _drift(stretch: Array, amount: float) -> Array:
    """A ramp that ends at the amount.

    >>> _drift(np.zeros(4), 2.0)
    array([0.5, 1. , 1.5, 2. ])
    """
    return stretch + amount * np.arange(1, len(stretch) + 1) / len(stretch)


def _stuck(stretch: Array) -> Array:
    """The first value present, held.

    >>> _stuck(np.array([np.nan, 2.0, 3.0]))
    array([nan,  2.,  2.])
    """
    missing = np.isnan(stretch)
    held = stretch[int(np.argmin(missing))]
    return np.where(missing, np.nan, held)


def _decouple(stretch: Array, other: Array, share: float) -> Array:
    """Replace a share of the movement by that of another episode at the same time, around the own mean.

    x + share · ((other − mean of other) − (x − mean of x)): the level stays, only the coupling is lost.

    >>> _decouple(np.array([1.0, 3.0]), np.array([8.0, 4.0]), 1.0), _decouple(np.array([1.0, 3.0]), np.zeros(2), 0.5)
    (array([4., 0.]), array([1.5, 2.5]))
    """
    both = ~np.isnan(stretch) & ~np.isnan(other)
    if not both.any():
        return stretch.copy()
    movement, replacement = stretch - stretch[both].mean(), other - other[both].mean()
    return np.where(both, stretch + share * (replacement - movement), stretch)


def _swap_points(stretch: Array, other: Array, share: float, rng: np.random.Generator) -> Array:
    """As `_decouple` for a sensor that counts or switches: take a share of the points from the other episode."""
    taken = (rng.random(len(stretch)) < share) & ~np.isnan(stretch) & ~np.isnan(other)
    return np.where(taken, other, stretch)


def draw_fault(
    row: int,
    values: Values,
    kind: str,
    strength: float,
    normal: NormalSensors,
    donors: Episodes,
    *,
    duration: float,
    seed: tuple[int, int],
) -> PlantedFault | None:
    """Draw a visible fault at a random sensor and time of an episode; None if no draw is visible.

    `row` is the row of the episode among `donors`, the episodes whose movement may be borrowed; `seed` is a seed and
    one of the streams `TWINS` and `TRIALS`. All strengths of a kind get the same sensor and relative position, so that
    a longer fault encloses a shorter one, unless one of them is not visible there.
    """
    rng = np.random.default_rng((*seed, row, *kind.encode()))  # independent of the strength
    length, suited = values.shape[1], normal.suited(kind)
    n_points, earliest = points_of(kind, strength, length, duration), int(strength) if kind == "lag" else 0
    if len(suited) == 0 or earliest + n_points > length:
        return None
    others = _others(row, donors) if kind == "coupling-loss" else np.array([row])
    for attempt in range(ATTEMPTS):
        u_sensor, u_start, u_sign, u_donor = rng.random(4)  # the same numbers for every strength
        start = earliest + int(u_start * (length - n_points - earliest + 1))
        candidates = others[donors.lengths[others] >= start + n_points]
        if len(candidates) == 0:
            continue
        fault = PlantedFault(
            kind=kind,
            strength=float(strength),
            sensor=int(suited[int(u_sensor * len(suited))]),
            start=start,
            stop=start + n_points,
            sign=-1 if u_sign < 0.5 else 1,
            donor=int(candidates[int(u_donor * len(candidates))]),
            seed=(*seed, row, attempt),
        )
        if is_visible(fault, values, with_fault(values, fault, normal, donors), normal):
            return fault
    return None


def points_of(kind: str, strength: float, length: int, duration: float) -> int:
    """Length of a fault in points: one for a spike, otherwise from the duration, or from a strength in % of time.

    >>> points_of("spike", 3, 500, 0.2), points_of("drift", 3, 500, 0.2), points_of("stuck", 3, 500, 0.2)
    (1, 100, 15)
    """
    if kind == "spike":
        return 1
    share = strength / 100 if KINDS[kind].unit == OF_EPISODE else duration
    return min(max(round(share * length), 2), length)


def require_fits(kind: str, strength: float, shortest: int, duration: float) -> None:
    """Refuse a lag that does not fit into the shortest episode."""
    n_points = points_of(kind, strength, shortest, duration)
    if kind == "lag" and strength + n_points > shortest:
        raise DfstransError(
            f"expected a lag that fits into the shortest episode, of {shortest} points, together with the fault's "
            f"{n_points} points, got {strength:g}; use a smaller {option_name('strength', 'lag=…')} or a smaller "
            f"{option_name('duration')}"
        )


def is_visible(fault: PlantedFault, before: Values, after: Values, normal: NormalSensors) -> bool:
    """Whether any value changes noticeably; a stuck sensor at rest, for example, reads the same."""
    scale = min(fault.strength, 1.0) if KINDS[fault.kind].by_movement else 1.0
    change = np.abs(after[fault.sensor] - before[fault.sensor])
    return bool((change >= MIN_CHANGE * scale * normal.spread[fault.sensor]).any())


def _others(row: int, donors: Episodes) -> npt.NDArray[np.intp]:
    """The other episodes, of the same group if there are groups: a split by group keeps a donor in the same part."""
    rows = np.arange(len(donors))
    same = rows != row
    if donors.groups is not None:
        same &= donors.groups == donors.groups[row]
    others: npt.NDArray[np.intp] = rows[same]
    return others
