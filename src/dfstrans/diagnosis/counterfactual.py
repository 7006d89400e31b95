"""Does the decision follow the ranking? Its cells are made normal from the top, or brought back from the top.

Deletion: the probability while the first cells of a ranking are made normal, more and more of them. Insertion: all
cells are normal and the first of the ranking are brought back. A ranking that the decision rests on has a small area
under the deletion curve and a large one under the insertion curve; random orders show what an area is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.errors import DfstransError
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans

Mask = npt.NDArray[np.bool_]
CELLS_AT_ONCE = 1 << 14  # (segment, sensor) cells of the variants that are judged together


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """One episode of which cells can be made normal: they get the mean embedding of normal episodes.

    Shape:
        embedding, normal (segment, sensor, d_model), real segments only
    """

    network: DFSTrans
    embedding: Tensor
    normal: Tensor

    @classmethod
    def of(cls, detector: Detector, episode: Any, reference: NormalReference) -> Counterfactual:
        """The first of the episodes as the network embeds it, with what is normal for its length."""
        segments, valid, _ = next(iter(detector.batches(episode)))
        settings = detector.network_settings_
        with torch.inference_mode():
            x = detector.network_.embed(segments[:1, valid[0]])[0]  # (t, s, d)
        encoding = positional_encoding(settings.encoding, len(x), settings.d_model)
        normal = torch.as_tensor(reference.usual_embedding(encoding), dtype=x.dtype).expand_as(x)
        return cls(detector.network_, x, normal)

    @property
    def shape(self) -> tuple[int, int]:
        """Segments and sensors."""
        n_segments, n_sensors = self.embedding.shape[:2]
        return n_segments, n_sensors

    def logits(self, replaced: Mask) -> npt.NDArray[np.float64]:
        """The logit of each variant: (variant, segment, sensor), True where a cell is made normal → (variant,)."""
        found = []
        with torch.inference_mode():
            for masks in torch.as_tensor(replaced).split(max(1, CELLS_AT_ONCE // int(np.prod(self.shape)))):
                variants = torch.where(masks[..., None], self.normal, self.embedding)
                found.append(self.network.attend(variants).logit.double().numpy())
        return np.concatenate(found)


def occlusion(detector: Detector, episode: Any, reference: NormalReference) -> npt.NDArray[np.float64]:
    """How far the logit of one episode falls when a cell has the mean embedding of normal ones: (segment, sensor)."""
    episode_cells = Counterfactual.of(detector, episode, reference)
    t, s = episode_cells.shape
    whole = episode_cells.logits(np.zeros((1, t, s), dtype=np.bool_))
    one_each = np.eye(t * s, dtype=np.bool_).reshape(-1, t, s)
    return np.asarray((whole - episode_cells.logits(one_each)).reshape(t, s))


STEPS = 24  # points of the Gauss-Legendre rule between normal and the episode


def integrated_gradients(detector: Detector, episode: Any, reference: NormalReference) -> npt.NDArray[np.float64]:
    """What each cell of one episode adds to the logit on the straight way from normal to it: (segment, sensor).

    IG_c = Σ_d (x_cd − n_cd) ∫ ∂logit(n + α (x − n)) / ∂x_cd dα over the embedding x and its normal mean n, the same
    that occlusion puts in. They add up to logit(x) − logit(n).
    """
    method = require_captum().IntegratedGradients(lambda x: detector.network_.attend(x).logit)
    cells = Counterfactual.of(detector, episode, reference)
    episode_embedding, normal = (x.clone()[None] for x in (cells.embedding, cells.normal))  # gradients pass a clone
    at_once = max(1, CELLS_AT_ONCE // int(np.prod(cells.shape)))
    found: Tensor = method.attribute(
        episode_embedding, baselines=normal, n_steps=STEPS, internal_batch_size=at_once, method="gausslegendre"
    )
    return np.asarray(found[0].detach().double().sum(dim=-1).numpy())


def require_captum() -> Any:
    """`captum.attr`, or an error that tells how to get it."""
    try:
        import captum.attr
    except ImportError as error:
        raise DfstransError(
            "expected the package captum for integrated gradients, got none; pip install 'dfstrans[paper]'"
        ) from error
    return captum.attr


Array = npt.NDArray[np.float64]
PERCENTAGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
DRAWS = 20


@dataclass(frozen=True)
class RankingCurves:
    """The probability along the deletion and the insertion of a ranking, and of random orders of the same cells.

    Shape:
        percentages (k,), from 0 to 100; deletion, insertion (k,); random_deletion, random_insertion (draw, k)
    """

    percentages: Array
    deletion: Array
    insertion: Array
    random_deletion: Array
    random_insertion: Array

    def figures(self) -> dict[str, float]:
        """The four measures of the ranking."""
        return {name: float(value) for name, value in _figures(self.percentages, self.deletion, self.insertion).items()}

    def random_figures(self) -> dict[str, float]:
        """The same of random orders, in the mean."""
        found = _figures(self.percentages, self.random_deletion, self.random_insertion)
        return {name: float(np.mean(values)) for name, values in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "percentages": self.percentages.tolist(),
            "deletion": self.deletion.tolist(),
            "insertion": self.insertion.tolist(),
            "random_deletion": self.random_deletion.mean(axis=0).tolist(),
            "random_insertion": self.random_insertion.mean(axis=0).tolist(),
            "figures": self.figures(),
            "random_figures": self.random_figures(),
        }


def ranking_curves(
    detector: Detector,
    episode: Any,
    ranking: Array,
    reference: NormalReference,
    percentages: Sequence[float] = PERCENTAGES,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> RankingCurves:
    """The probability of one episode while the cells of its ranking (segment, sensor) are made normal or come back.

    `percentages` of the cells are tried, and 0 and 100 always.
    """
    wrong = [k for k in percentages if not 0 < k < 100]
    if not len(percentages) or wrong or draws < 1:
        raise DfstransError(
            f"expected percentages between 0 and 100 and at least one draw, got {list(percentages)} and {draws}; "
            f"correct them, such as {list(PERCENTAGES)} and {DRAWS}"
        )
    cells = Counterfactual.of(detector, episode, reference)
    if ranking.shape != cells.shape:
        raise DfstransError(
            f"expected a ranking of {cells.shape} (segment, sensor), as the episode has, got {ranking.shape}; give the "
            "ranking of this very episode"
        )
    generator = np.random.default_rng(seed)
    places = [places_of(ranking), *(generator.permutation(ranking.size).reshape(ranking.shape) for _ in range(draws))]
    steps = np.array([0.0, *sorted(percentages), 100.0])
    first = np.stack([first_cells(place, steps) for place in places])  # (1 + draws, k, t, s)
    deletion, insertion = _probabilities(detector, cells, np.stack([first, ~first]))
    return RankingCurves(steps, deletion[0], insertion[0], deletion[1:], insertion[1:])


def places_of(ranking: Array) -> npt.NDArray[np.intp]:
    """The place of each cell in its ranking, 0 for the largest; of equal ones the earlier comes first.

    >>> places_of(np.array([[0.1, 0.9], [0.5, 0.5]])).tolist()
    [[3, 0], [1, 2]]
    """
    places = np.empty(ranking.size, dtype=np.intp)
    places[np.argsort(-ranking.ravel(), kind="stable")] = np.arange(ranking.size)
    return places.reshape(ranking.shape)


def first_cells(places: npt.NDArray[np.intp], percentages: Array) -> npt.NDArray[np.bool_]:
    """Whether a cell is among the first k %, at least one for k above 0: (segment, sensor) → (k, segment, sensor)."""
    counts = np.maximum(np.round(percentages / 100 * places.size), percentages > 0)
    return np.asarray(places[None] < counts[:, None, None])


def area(percentages: Array, curve: Array) -> Array:
    """The area under a curve over the share of cells, by trapezia; the curve may have axes before its last one.

    >>> float(area(np.array([0, 50, 100]), np.array([1.0, 0.5, 0.0])))
    0.5
    """
    return np.asarray(np.trapezoid(curve, np.asarray(percentages) / 100, axis=-1))


def comprehensiveness(deletion: Array) -> Array:
    """How far the probability falls without the first cells, mean over k: p(x) − p(x without the top k %).

    0 and 100 % are no choice of the ranking's and do not count.

    >>> float(comprehensiveness(np.array([1.0, 0.25, 0.75, 0.0])))
    0.5
    """
    return np.asarray((deletion[..., :1] - deletion[..., 1:-1]).mean(axis=-1))


def sufficiency(insertion: Array) -> Array:
    """How much of the probability the first cells alone do not give, mean over k: p(x) − p(the top k % alone).

    >>> float(sufficiency(np.array([0.0, 0.5, 0.75, 1.0])))
    0.375
    """
    return np.asarray((insertion[..., -1:] - insertion[..., 1:-1]).mean(axis=-1))


def _figures(percentages: Array, deletion: Array, insertion: Array) -> dict[str, Array]:
    return {
        "comprehensiveness": comprehensiveness(deletion),
        "sufficiency": sufficiency(insertion),
        "deletion_area": area(percentages, deletion),
        "insertion_area": area(percentages, insertion),
    }


def _probabilities(detector: Detector, cells: Counterfactual, replaced: npt.NDArray[np.bool_]) -> Array:
    """The probability of each variant: (…, segment, sensor) → (…).

    Each distinct variant is tried once: at 0 and at 100 % all orders are the same, a quarter of the usual steps.
    """
    masks, which = np.unique(replaced.reshape(-1, np.prod(cells.shape)), axis=0, return_inverse=True)
    logits = cells.logits(masks.reshape(-1, *cells.shape))
    return np.array([detector.probability(logit) for logit in logits])[which].reshape(replaced.shape[:-2])
