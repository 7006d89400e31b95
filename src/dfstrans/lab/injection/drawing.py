"""One fault in one episode: where it is, drawn at random, and the episode with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.injection import effects
from dfstrans.lab.injection.normal import NormalSensors
from dfstrans.lab.injection.settings import KINDS, OF_EPISODE

Values = npt.NDArray[np.float32]
ATTEMPTS = 100  # at a sensor and a moment in which the fault shows
LEAST_CHANGE = 0.05  # of the sensor's spread, or of the strength where that is less; a fault of less is only a label
TWINS, TRIALS = 0, 1  # streams of random numbers: what is tested must not repeat the places of what was learned


class PlantedFault(NamedTuple):
    """All that an episode with a fault follows from, beside the episode itself.

    `sensor` is a number; `donor` the row of the episode whose movement a decoupled sensor shows; `seed` that of noise.
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
        """As episodes keep it: the severity is the strength."""
        return Fault(self.start, self.stop, (sensors[self.sensor],), self.kind, self.strength)

    def recipe(self, normal: NormalSensors) -> dict[str, Any]:
        """How the episode was made, in plain words and numbers."""
        partner = {"partner": normal.sensors[normal.partner[self.sensor]]} if KINDS[self.kind].coupled else {}
        return {
            **self._asdict(),
            "sensor": normal.sensors[self.sensor],
            "unit": KINDS[self.kind].unit,
            "spread": float(normal.spread[self.sensor]),
            **partner,
        }


def with_fault(values: Values, fault: PlantedFault, normal: NormalSensors, donors: Episodes) -> Values:
    """A copy of an episode with the fault in it; nothing outside its window and sensor is touched.

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


def _faulty(
    series: npt.NDArray[np.float64], fault: PlantedFault, normal: NormalSensors, donors: Episodes
) -> npt.NDArray[np.float64]:
    """What the sensor reads while the fault lasts."""
    stretch, sensor = series[fault.start : fault.stop], fault.sensor
    amount = fault.strength * float(normal.spread[sensor])
    rng = np.random.default_rng(fault.seed)
    match fault.kind:
        case "spike" | "level-shift":
            return effects.offset(stretch, fault.sign * amount)
        case "drift":
            return effects.drift(stretch, fault.sign * amount)
        case "gain":
            return effects.gain(stretch, float(normal.centre[sensor]), fault.strength)
        case "noise-burst":
            return effects.noise_burst(stretch, amount, rng)
        case "stuck":
            return effects.stuck(stretch)
        case "dropout":
            return effects.dropout(stretch)
        case "lag":
            return effects.lag(series, fault.start, fault.stop, int(fault.strength))
        case "coupling-loss":
            other = donors.values[fault.donor][sensor, fault.start : fault.stop].astype(np.float64)
            if normal.whole[sensor] or normal.switches[sensor]:
                return effects.swap_points(stretch, other, fault.strength / 100, rng)
            return effects.decouple(stretch, other, fault.strength / 100)
    raise AssertionError(fault.kind)  # the settings know the kinds


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
    """A fault at a random sensor and moment of an episode, such that it shows in the values; None where none does.

    `row` is the episode's among the `donors`, which are all that movement may be borrowed from; `seed` a seed and one
    of the streams `TWINS` and `TRIALS`. All strengths of a kind meet at one place: in the same sensor, at the same
    share of where they fit, so that a longer fault lies around a shorter one, unless one of them would not show there.
    """
    rng = np.random.default_rng((*seed, row, *kind.encode()))  # not of the strength
    length, suited = values.shape[1], normal.suited(kind)
    n_points, earliest = points_of(kind, strength, length, duration), int(strength) if kind == "lag" else 0
    if len(suited) == 0 or earliest + n_points > length:
        return None
    others = _others(row, donors) if kind == "coupling-loss" else np.array([row])
    for attempt in range(ATTEMPTS):
        of_sensors, of_places, of_signs, of_lenders = rng.random(4)  # as many numbers whatever the strength
        start = earliest + int(of_places * (length - n_points - earliest + 1))
        lenders = others[donors.lengths[others] >= start + n_points]
        if len(lenders) == 0:
            continue
        fault = PlantedFault(
            kind=kind,
            strength=float(strength),
            sensor=int(suited[int(of_sensors * len(suited))]),
            start=start,
            stop=start + n_points,
            sign=-1 if of_signs < 0.5 else 1,
            donor=int(lenders[int(of_lenders * len(lenders))]),
            seed=(*seed, row, attempt),
        )
        if shows(fault, values, with_fault(values, fault, normal, donors), normal):
            return fault
    return None


def points_of(kind: str, strength: float, length: int, duration: float) -> int:
    """How many points of an episode a fault takes: one for a spike, else the duration, or the strength where it is one.

    >>> points_of("spike", 3, 500, 0.2), points_of("drift", 3, 500, 0.2), points_of("stuck", 3, 500, 0.2)
    (1, 100, 15)
    """
    if kind == "spike":
        return 1
    share = strength / 100 if KINDS[kind].unit == OF_EPISODE else duration
    return min(max(round(share * length), 2), length)


def require_fits(kind: str, strength: float, shortest: int, duration: float) -> None:
    """Refuse a fault that is longer than the shortest episode."""
    n_points = points_of(kind, strength, shortest, duration)
    if kind == "lag" and strength + n_points > shortest:
        raise DfstransError(
            f"expected a lag that fits into the shortest episode, of {shortest} points, together with the fault's "
            f"{n_points} points, got {strength:g}; use a smaller {option_name('strength', 'lag=…')} or a smaller "
            f"{option_name('duration')}"
        )


def shows(fault: PlantedFault, before: Values, after: Values, normal: NormalSensors) -> bool:
    """Whether any value changes by more than next to nothing; a stuck sensor that rests reads as it would anyway."""
    wanted = min(fault.strength, 1.0) if KINDS[fault.kind].by_movement else 1.0
    change = np.abs(after[fault.sensor] - before[fault.sensor])
    return bool((change >= LEAST_CHANGE * wanted * normal.spread[fault.sensor]).any())


def _others(row: int, donors: Episodes) -> npt.NDArray[np.intp]:
    """The other episodes; those of the same group where there are groups.

    A split by these groups is not crossed then. Any other split may be: a lender may be in another part.
    """
    rows = np.arange(len(donors))
    same = rows != row
    if donors.groups is not None:
        same &= donors.groups == donors.groups[row]
    others: npt.NDArray[np.intp] = rows[same]
    return others
