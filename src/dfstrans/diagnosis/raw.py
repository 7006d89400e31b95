"""All numbers of a diagnosis, for programs that draw or compare them: what its page shows, and every score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.diagnosis import Diagnosis

DECIMALS = 5


NAMES = {  # of the eight scores, by their names in `EpisodeScores`
    "temporal": "temporal_attention",
    "temporal_relevance": "temporal_relevance",
    "global_temporal": "global_temporal_attention",
    "segment": "global_temporal_relevance",
    "spatial": "spatial_attention",
    "spatial_relevance": "spatial_relevance",
    "global_spatial": "global_spatial_attention",
    "sensor": "global_spatial_relevance",
}


def raw_numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """The paper's eight scores and what each sensor at each moment is ranked by, as nested lists; null where unknown.

    `normal` has the median and the edge of the 99 % band of each score that the model keeps one of, in its shape.

    Shape:
        as in docs/notation.md; deviation, contribution, level and loss (segment, sensor); usual_course (segment,
        sensor, 2), the lowest and the highest value of normal episodes
    """
    scores = {score: getattr(diagnosis.scores, score) for score in NAMES}
    arrays = {
        "segment_bounds": diagnosis.segment_bounds,
        **{NAMES[score]: values for score, values in scores.items()},
        "deviation": diagnosis.deviation,
        "contribution": diagnosis.contribution,
        "level": diagnosis.level,
        "loss": diagnosis.occlusion,
        "usual_course": diagnosis.usual_course,
    }
    normal = {
        NAMES[score]: {
            "median": _nested(np.broadcast_to(band.centre, scores[score].shape)),
            "edge": _nested(np.broadcast_to(band.edge, scores[score].shape)),
        }
        for score, band in diagnosis.bands.items()
    }
    return {
        "sensors": list(diagnosis.sensors),
        **{name: None if array is None else _nested(array) for name, array in arrays.items()},
        "normal": normal,
    }


def _nested(array: npt.NDArray[np.float64]) -> Any:
    """Lists in lists, without NaN, which JSON does not have."""
    rounded = np.round(array, DECIMALS).astype(object)
    rounded[~np.isfinite(array)] = None
    return rounded.tolist()
