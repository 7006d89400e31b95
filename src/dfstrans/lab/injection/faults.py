"""Normal sensors, and one fault in one episode: drawn at random, and injected. Missing values stay missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.scaling import check_finite
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.injection.settings import KINDS, OF_EPISODE

Values = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]
MAX_EPISODES = 256  # evenly spaced over the set
MAX_VALUES = 200_000  # per sensor, held in memory
FIVE_TO_NINETY_FIVE = 3.289707  # in standard deviations of a Gaussian
COUPLED = 0.5  # absolute correlation from which two sensors count as moving together


@dataclass(frozen=True, eq=False)
class NormalSensors:
    """Centre and standard deviation of each sensor, the values it takes, and the sensor it moves with most.

    The centre is the median. The deviation is that of a Gaussian with the same 5th and 95th percentile, or the standard
    deviation if these are equal; 0 for a constant sensor. `whole` sensors have whole numbers only, `switches` at most
    two values. `partner` is the sensor with the largest absolute correlation within episodes, `coupling` that
    correlation, from −1 to 1; 0 without a partner.

    Shape:
        all (n_sensors,)
    """

    sensors: tuple[str, ...]
    centre: Array
    deviation: Array
    whole: npt.NDArray[np.bool_]
    switches: npt.NDArray[np.bool_]
    partner: npt.NDArray[np.intp]
    coupling: Array

    @classmethod
    def measure(cls, episodes: Episodes) -> Self:
        """Measure on up to MAX_EPISODES episodes, read one at a time."""
        rows = np.unique(np.linspace(0, len(episodes) - 1, min(len(episodes), MAX_EPISODES)).astype(int))
        step = -(-int(episodes.lengths[rows].sum()) // MAX_VALUES)
        products = np.zeros((episodes.n_sensors, episodes.n_sensors))
        kept = []
        for row in rows:
            (episode,) = episodes[row]
            check_finite(episode.values, episode.id, episodes.sensors)
            values = episode.values.astype(np.float64)
            products += _products(values)
            kept.append(values[:, ::step])
        values = np.concatenate(kept, axis=1)
        columns = [one[~np.isnan(one)] for one in values]
        correlation = _correlation(products)
        partner = np.abs(correlation).argmax(axis=1)
        return cls(
            sensors=episodes.sensors,
            centre=np.array([np.median(one) if len(one) else 0.0 for one in columns]),
            deviation=np.array([_deviation(one) for one in columns]),
            whole=np.array([bool((one == np.rint(one)).all()) for one in columns]),
            switches=np.array([len(np.unique(one)) <= 2 for one in columns]),
            partner=partner,
            coupling=correlation[np.arange(len(partner)), partner],
        )

    @property
    def constant(self) -> tuple[str, ...]:
        """Names of the sensors that never move; they get no fault."""
        return tuple(name for name, deviation in zip(self.sensors, self.deviation, strict=True) if deviation == 0)

    def suited(self, kind: str) -> npt.NDArray[np.intp]:
        """Indices of the sensors in which a kind of fault can be injected.

        A switch has no meaningful standard deviation or swing; a coupled fault needs a partner.
        """
        suited = self.deviation > 0
        if KINDS[kind].by_movement:
            suited &= ~self.switches
        if KINDS[kind].coupled:
            suited &= np.abs(self.coupling) >= COUPLED
        return np.flatnonzero(suited)


def _deviation(values: Array) -> float:
    """Robust standard deviation where possible."""
    if len(values) == 0 or values.max() == values.min():
        return 0.0
    low, high = np.quantile(values, [0.05, 0.95])
    return float((high - low) / FIVE_TO_NINETY_FIVE if high > low else values.std())


def _products(values: Array) -> Array:
    """Sums of products of the deviations from the means of an episode: (n_sensors, n_sensors)."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    mean = np.where(present, values, 0.0).sum(axis=1, keepdims=True) / count
    centred = np.where(present, values - mean, 0.0)
    return np.asarray(centred @ centred.T)


def _correlation(products: Array) -> Array:
    """Correlations; 0 on the diagonal and for a sensor that is constant within episodes."""
    deviation = np.sqrt(np.diag(products))
    scale = np.outer(deviation, deviation)
    correlation: Array = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    np.fill_diagonal(correlation, 0.0)
    return correlation


# ---- faults ---------------------------------------------------------------------------------------------------------

ATTEMPTS = 100  # to find a sensor and time where the fault is visible
MIN_CHANGE = 0.05  # visible change, in standard deviations of the sensor, or of the strength if that is smaller
TWINS, TRIALS = 0, 1  # random streams: trials must not repeat the positions seen in training


class InjectedFault(NamedTuple):
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

    def recipe(self, normal: NormalSensors, donors: Episodes) -> dict[str, Any]:
        """How the episode was made, for JSON."""
        recipe = {
            **self._asdict(),
            "sensor": normal.sensors[self.sensor],
            "unit": KINDS[self.kind].unit,
            "standard_deviation": float(normal.deviation[self.sensor]),
        }
        del recipe["donor"]
        if KINDS[self.kind].coupled:
            recipe["partner"] = normal.sensors[normal.partner[self.sensor]]
        if self.kind == "coupling-loss":
            recipe["donor"] = str(donors.ids[self.donor])
        return recipe


def with_fault(values: Values, fault: InjectedFault, normal: NormalSensors, donors: Episodes) -> Values:
    """A copy of an episode with the fault; only its sensor changes, and only in its window.

    Shape:
        values (n_sensors, length)
    """
    changed, sensor = values.copy(), fault.sensor
    faulty = _faulty(values[sensor].astype(np.float64), fault, normal, donors)
    changed[sensor, fault.start : fault.stop] = np.rint(faulty) if normal.whole[sensor] else faulty
    return changed


def _faulty(series: Array, fault: InjectedFault, normal: NormalSensors, donors: Episodes) -> Array:
    """What the sensor reads during the fault."""
    stretch, sensor = series[fault.start : fault.stop], fault.sensor
    amount = fault.strength * float(normal.deviation[sensor])
    rng = np.random.default_rng(fault.seed)
    match fault.kind:
        case "spike" | "level-shift":
            return stretch + fault.sign * amount
        case "drift":
            return stretch + fault.sign * amount * np.arange(1, len(stretch) + 1) / len(stretch)
        case "gain":
            centre = float(normal.centre[sensor])
            return centre + (stretch - centre) * (1 + fault.strength)
        case "noise-burst":
            return stretch + amount * rng.standard_normal(len(stretch))
        case "stuck":
            missing = np.isnan(stretch)
            return np.where(missing, np.nan, stretch[np.argmin(missing)])  # the first value present, held
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
) -> InjectedFault | None:
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
    others = np.array([row])
    if kind == "coupling-loss":  # a split by group keeps a donor of the same group in the same part
        same = True if donors.groups is None else donors.groups == donors.groups[row]
        others = np.flatnonzero((np.arange(len(donors)) != row) & same)
    for attempt in range(ATTEMPTS):
        u_sensor, u_start, u_sign, u_donor = rng.random(4)  # the same numbers for every strength
        start = earliest + int(u_start * (length - n_points - earliest + 1))
        candidates = others[donors.lengths[others] >= start + n_points]
        if len(candidates) == 0:
            continue
        fault = InjectedFault(
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


def is_visible(fault: InjectedFault, before: Values, after: Values, normal: NormalSensors) -> bool:
    """Whether any value changes noticeably; a stuck sensor at rest, for example, reads the same."""
    scale = min(fault.strength, 1.0) if KINDS[fault.kind].by_movement else 1.0
    change = np.abs(after[fault.sensor] - before[fault.sensor])
    return bool((change >= MIN_CHANGE * scale * normal.deviation[fault.sensor]).any())
