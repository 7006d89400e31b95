"""Integrated gradients: the second floor that a ranking has to beat. Needs captum, which the extra `paper` brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.made_normal import CELLS_AT_ONCE, MadeNormal
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.errors import DfstransError

STEPS = 24  # points of the Gauss-Legendre rule between normal and the episode


def integrated_gradients(detector: Detector, episode: Any, reference: NormalReference) -> npt.NDArray[np.float64]:
    """What each cell of one episode adds to the logit on the straight way from normal to it: (segment, sensor).

    IG_c = Σ_d (x_cd − n_cd) ∫ ∂logit(n + α (x − n)) / ∂x_cd dα over the embedding x and its normal mean n, the same
    that occlusion puts in. They add up to logit(x) − logit(n).
    """
    method = require_captum().IntegratedGradients(lambda x: detector.network_.attend(x).logit)
    cells = MadeNormal.of(detector, episode, reference)
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
