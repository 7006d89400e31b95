"""Tests whether the decision depends on the ranking, by replacing cells of an episode with normal ones.

Deletion: the probability as more and more of the top-ranked cells are made normal. Insertion: all cells start normal,
and the top-ranked ones are restored. If the decision depends on the top-ranked cells, the area under the deletion
curve is small and that under the insertion curve large; random orders give the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.diagnosis.schema import Member
from dfstrans.diagnosis.scores import Array
from dfstrans.diagnosis.tree_reference import EpisodeCells, TreeReference
from dfstrans.diagnosis.trust import check_request
from dfstrans.errors import DfstransError
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans

Mask = npt.NDArray[np.bool_]
VARIANT_CELLS_AT_ONCE = 1 << 14  # (segment, sensor) cells of the variants in one batch
GRADIENT_STEPS = 24  # Gauss-Legendre points between normal and the episode
CURVE_PERCENTAGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
RANDOM_ORDERS = 20


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """An episode whose cells can be made normal, that is, replaced by the mean embedding of normal episodes.

    Shape:
        embedding, normal (segment, sensor, d_model), real segments only
    """

    network: DFSTrans
    embedding: Tensor
    normal: Tensor

    @classmethod
    def of(cls, detector: Detector, episode: Any, reference: NormalReference) -> Counterfactual:
        """Prepare the first of the given episodes."""
        segments, valid, _, baseline = next(iter(detector.batches(episode)))
        settings = detector.network_settings_
        with torch.inference_mode():
            x = detector.network_.embed(segments[:1, valid[0]], None, baseline if baseline is None else baseline[:1])[0]
        encoding = positional_encoding(settings.encoding, len(x), settings.d_model)
        normal = torch.as_tensor(reference.mean_embedding(encoding), dtype=x.dtype).expand_as(x)
        return cls(detector.network_, x, normal)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of segments and of sensors."""
        n_segments, n_sensors = self.embedding.shape[:2]
        return n_segments, n_sensors

    @property
    def variants_at_once(self) -> int:
        """Size of a batch of variants."""
        return max(1, VARIANT_CELLS_AT_ONCE // int(np.prod(self.shape)))

    def logits(self, replaced: Mask) -> Array:
        """Return the logit of each variant: (variant, segment, sensor), True if a cell is made normal → (variant,)."""
        found = []
        with torch.inference_mode():
            for masks in torch.as_tensor(replaced).split(self.variants_at_once):
                variants = torch.where(masks[..., None], self.normal, self.embedding)
                found.append(self.network.attend(variants).logit.double().numpy())
        return np.concatenate(found)


def occlusion(detector: Detector, episode: Any, reference: NormalReference) -> Array:
    """Return the drop in the logit of one episode when a single cell is made normal: (segment, sensor)."""
    cells = Counterfactual.of(detector, episode, reference)
    t, s = cells.shape
    whole = cells.logits(np.zeros((1, t, s), dtype=np.bool_))
    one_each = np.eye(t * s, dtype=np.bool_).reshape(-1, t, s)
    return np.asarray((whole - cells.logits(one_each)).reshape(t, s))


def integrated_gradients(
    detector: Detector, episode: Any, reference: NormalReference, n_steps: int = GRADIENT_STEPS
) -> Array:
    """Return the contribution of each cell to the logit along the straight line from normal: (segment, sensor).

    IG_c = Σ_d (x_cd − n_cd) ∫ ∂logit(n + α (x − n)) / ∂x_cd dα for the embedding x and its normal mean n. The sum over
    cells is logit(x) − logit(n).
    """
    method = require_captum().IntegratedGradients(lambda x: detector.network_.attend(x).logit)
    cells = Counterfactual.of(detector, episode, reference)
    embedding, normal = (
        x.clone()[None] for x in (cells.embedding, cells.normal)
    )  # clones, since inference tensors have no gradient
    found: Tensor = method.attribute(
        embedding,
        baselines=normal,
        n_steps=n_steps,
        internal_batch_size=cells.variants_at_once,
        method="gausslegendre",
    )
    return np.asarray(found[0].detach().double().sum(dim=-1).numpy())


def require_captum() -> Any:
    """Import `captum.attr`, or raise an error that says how to install it."""
    try:
        import captum.attr
    except ImportError as error:
        raise DfstransError(
            "expected captum for integrated gradients, but it is not installed; pip install 'dfstrans[paper]'"
        ) from error
    return captum.attr


@dataclass(frozen=True)
class RankingCurves:
    """The probability during deletion and insertion by a ranking, and by random orders of the same cells.

    Shape:
        percentages (k,), from 0 to 100; deletion, insertion (k,); random_deletion, random_insertion (draw, k)
    """

    percentages: Array
    deletion: Array
    insertion: Array
    random_deletion: Array
    random_insertion: Array

    def metrics(self) -> dict[str, float]:
        """The four measures of the ranking."""
        return self._metrics(self.deletion, self.insertion)

    def random_metrics(self) -> dict[str, float]:
        """The same four measures, averaged over random orders."""
        return self._metrics(self.random_deletion, self.random_insertion)

    def _metrics(self, deletion: Array, insertion: Array) -> dict[str, float]:
        """Compute measures from curves (…, k); comprehensiveness and sufficiency average over k without 0 and 100 %."""
        share = self.percentages / 100
        found = {
            "comprehensiveness": (deletion[..., :1] - deletion[..., 1:-1]).mean(axis=-1),  # p(x) − p(without the top)
            "sufficiency": (insertion[..., -1:] - insertion[..., 1:-1]).mean(axis=-1),  # p(x) − p(the top alone)
            "deletion_area": np.trapezoid(deletion, share, axis=-1),
            "insertion_area": np.trapezoid(insertion, share, axis=-1),
        }
        return {name: float(np.mean(values)) for name, values in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; random curves are averaged over draws."""
        curves = {name: np.atleast_2d(curve).mean(axis=0).tolist() for name, curve in asdict(self).items()}
        return {**curves, "metrics": self.metrics(), "random_metrics": self.random_metrics()}


def ranking_curves(
    detector: Detector,
    episode: Any,
    ranking: Array,
    reference: NormalReference | TreeReference,
    percentages: Sequence[float] = CURVE_PERCENTAGES,
    *,
    draws: int = RANDOM_ORDERS,
    seed: int = 0,
) -> RankingCurves:
    """Compute the probability of one episode as the cells of its ranking (segment, sensor) are made normal or restored.

    The curves have a point at each of the `percentages` of cells, and at 0 and 100 %.
    """
    check_request(percentages, draws)
    cells: Counterfactual | EpisodeCells
    if isinstance(reference, TreeReference):
        cells = reference.cells(detector, episode)
    else:
        cells = Counterfactual.of(detector, episode, reference)
    if ranking.shape != cells.shape:
        raise DfstransError(
            f"expected a ranking of {cells.shape} (segment, sensor), like the episode, got {ranking.shape}; pass the "
            "ranking of this episode"
        )
    generator = np.random.default_rng(seed)
    places = [places_of(ranking), *(generator.permutation(ranking.size).reshape(ranking.shape) for _ in range(draws))]
    steps = np.array([0.0, *sorted(percentages), 100.0])
    first = np.stack([first_cells(place, steps) for place in places])  # (1 + draws, k, t, s)
    deletion, insertion = _probabilities(detector, cells, np.stack([first, ~first]))
    return RankingCurves(steps, deletion[0], insertion[0], deletion[1:], insertion[1:])


def places_of(ranking: Array) -> npt.NDArray[np.intp]:
    """Return the place of each cell in its ranking, 0 for the largest; ties keep their order.

    >>> places_of(np.array([[0.1, 0.9], [0.5, 0.5]])).tolist()
    [[3, 0], [1, 2]]
    """
    places = np.empty(ranking.size, dtype=np.intp)
    places[np.argsort(-ranking.ravel(), kind="stable")] = np.arange(ranking.size)
    return places.reshape(ranking.shape)


def first_cells(places: npt.NDArray[np.intp], percentages: Array) -> Mask:
    """Mark the cells among the first k %, at least one for k above 0: (segment, sensor) → (k, segment, sensor)."""
    counts = np.maximum(np.round(percentages / 100 * places.size), percentages > 0)
    return np.asarray(places[None] < counts[:, None, None])


def _probabilities(detector: Detector, cells: Counterfactual | EpisodeCells, replaced: Mask) -> Array:
    """Return the probability of each variant: (…, segment, sensor) → (…).

    Each distinct variant is computed once: all orders agree at 0 and 100 %, a quarter of the default steps.
    """
    masks, which = np.unique(replaced.reshape(-1, np.prod(cells.shape)), axis=0, return_inverse=True)
    logits = cells.logits(masks.reshape(-1, *cells.shape))
    member: Member = "trees" if isinstance(cells, EpisodeCells) else "network"
    return np.array([detector.probability(logit, member) for logit in logits])[which].reshape(replaced.shape[:-2])
