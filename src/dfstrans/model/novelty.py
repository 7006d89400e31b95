"""How unlike training a recording is, by the leaves that it reaches and by the distance of its statistics [ADR 29]."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

N_NEAREST = 5  # a recording has been seen if it is like this many of training
USUAL_SHARE = 0.95  # of the training recordings that are like that many others
FAR = 1.5  # times the distance to the nearest one that 99 % of the training recordings stay within
HALF = 0.5  # of the trees; a recording that these do not separate from that many others has been seen
SMALLEST = 0.01  # limit of a distance, since recordings that are nearer are the same
N_TREES = 100  # whose leaves are compared
COMPONENTS = 20
MOST_RECORDINGS = 2000  # of training that are kept
FEWEST_RECORDINGS = 50  # with fewer, it is unknown what is usual
NOT_SEEN = "not seen before"

Array = npt.NDArray[np.float64]
Leaves = npt.NDArray[np.int32]


class Seen(NamedTuple):
    """The training recordings as a forest and as their deviations show them, and how far these usually are apart.

    Shape:
        leaves (recording, tree); centre (feature,), axes (component, feature), places (recording, component + 1);
        the two limits are scalars
    """

    leaves: Leaves
    leaves_apart: Array  # the limit of the share of trees that separate a recording from its fifth-nearest one
    centre: Array
    axes: Array
    places: Array
    places_apart: Array  # the limit of the distance to the nearest one

    @classmethod
    def learn(cls, leaves: Leaves, deviations: Array, same: npt.NDArray[np.bool_]) -> Self:
        """Keep these training recordings; those that are the `same`, such as overlapping pieces, are not compared.

        Shape:
            leaves (recording, tree), deviations (recording, feature), same (recording, recording), True on the diagonal
        """
        centre = deviations.mean(axis=0)
        centred = deviations - centre
        strength, vectors = np.linalg.eigh(centred @ centred.T)  # of the recordings, which are fewer than features
        kept = np.flatnonzero(strength > 1e-9 * max(strength[-1], 1e-9))[-COMPONENTS:]
        axes = (vectors[:, kept] / np.sqrt(strength[kept])).T @ centred
        found = cls(leaves, np.zeros(()), centre, axes, np.zeros((0, len(axes) + 1)), np.zeros(()))
        found = found._replace(places=found._placed(deviations))
        separated = [found._separated(leaves[[row]], ~same[row])[0] for row in range(len(leaves))]
        distances = [found._distance(found.places[[row]], ~same[row])[0] for row in range(len(leaves))]
        return found._replace(
            leaves_apart=np.maximum(np.quantile(separated, USUAL_SHARE), HALF),
            places_apart=np.maximum(FAR * np.quantile(distances, 0.99), SMALLEST),
        )

    def novelty(self, leaves: Leaves, deviations: Array) -> Array:
        """Return how unlike all training recordings each one is, above 1 if it counts as not seen before: (episode,).

        It does not depend on batch mates, not even by rounding.
        """
        separated = self._separated(leaves) / self.leaves_apart
        return np.maximum(separated, self._distance(self._placed(deviations)) / self.places_apart)

    def _separated(self, leaves: Leaves, among: npt.NDArray[np.bool_] | slice = slice(None)) -> Array:
        """Return the share of trees that separate each recording from its fifth-nearest one of training: (episode,)."""
        known = self.leaves[among]
        nearest = min(N_NEAREST, len(known))
        apart = np.stack([(known != one).sum(axis=1) for one in leaves])
        return np.asarray(np.partition(apart, nearest - 1, axis=1)[:, nearest - 1] / leaves.shape[1])

    def _placed(self, deviations: Array) -> Array:
        """Return the components of deviations, and their distance from what these span: (episode, component + 1)."""
        centred = deviations - self.centre
        components = np.matmul(centred[:, None], self.axes.T)[:, 0]
        rest = np.maximum((centred**2).sum(axis=1) - (components**2).sum(axis=1), 0)
        return np.concatenate([components, np.sqrt(rest)[:, None]], axis=1)

    def _distance(self, places: Array, among: npt.NDArray[np.bool_] | slice = slice(None)) -> Array:
        """Return the distance of each place from the nearest one of training: (episode,)."""
        known = self.places[among]
        return np.array([np.sqrt(((known - one) ** 2).sum(axis=1).min()) for one in places])


class Memory(NamedTuple):
    """The training recordings as each of the two forests sees them: on the scale of the fleet, and of the machine."""

    spread: Array  # (sensor, statistic), the distance between the quartiles over the training part
    fleet: Seen
    own: Seen | None = None

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name."""
        named = {f"{kind}.{name}": one for kind, seen in self._seen() for name, one in seen._asdict().items()}
        return {"spread": self.spread, **named}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Restore the result of `to_arrays`."""
        fleet, own = (
            Seen(*(arrays[f"{kind}.{name}"] for name in Seen._fields)) if f"{kind}.leaves" in arrays else None
            for kind in ("fleet", "own")
        )
        assert fleet is not None  # as `to_arrays` names it
        return cls(arrays["spread"], fleet, own)

    def _seen(self) -> list[tuple[str, Seen]]:
        return [("fleet", self.fleet)] + ([] if self.own is None else [("own", self.own)])


def verdicts(anomalous: npt.NDArray[np.bool_], novelty: Array) -> list[str]:
    """Return the verdict on each episode: anomalous, normal or not seen before.

    >>> verdicts(np.array([True, True, False]), np.array([0.3, 1.2, np.nan]))
    ['anomalous', 'not seen before', 'normal']
    """
    found: list[str] = np.where(novelty > 1, NOT_SEEN, np.where(anomalous, "anomalous", "normal")).tolist()
    return found
