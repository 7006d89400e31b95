"""All numbers of a diagnosis, for programs that draw or compare them: what its page shows, and every score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.diagnosis import Diagnosis

DECIMALS = 5


def raw_numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """The paper's eight scores and what each sensor at each moment is ranked by, as nested lists; null where unknown.

    Shape:
        as in docs/notation.md; deviation, contribution, level and loss (segment, sensor); usual_course (segment,
        sensor, 2), the lowest and the highest value of normal episodes
    """
    scores = diagnosis.scores
    arrays = {
        "segment_bounds": diagnosis.segment_bounds,
        "temporal_attention": scores.temporal,
        "temporal_relevance": scores.temporal_relevance,
        "global_temporal_attention": scores.global_temporal,
        "global_temporal_relevance": scores.segment,
        "spatial_attention": scores.spatial,
        "spatial_relevance": scores.spatial_relevance,
        "global_spatial_attention": scores.global_spatial,
        "global_spatial_relevance": scores.sensor,
        "deviation": diagnosis.deviation,
        "contribution": diagnosis.contribution,
        "level": diagnosis.level,
        "loss": diagnosis.occlusion,
        "usual_course": diagnosis.usual_course,
    }
    return {
        "sensors": list(diagnosis.sensors),
        **{name: None if array is None else _nested(array) for name, array in arrays.items()},
    }


def _nested(array: npt.NDArray[np.float64]) -> Any:
    """Lists in lists, without NaN, which JSON does not have."""
    rounded = np.round(array, DECIMALS).astype(object)
    rounded[~np.isfinite(array)] = None
    return rounded.tolist()
