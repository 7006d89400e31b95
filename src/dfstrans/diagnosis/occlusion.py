"""What would the logit be if one sensor were normal at one moment? The slow and direct way to rank causes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.made_normal import MadeNormal
from dfstrans.diagnosis.reference import NormalReference


def occlusion(detector: Detector, episode: Any, reference: NormalReference) -> npt.NDArray[np.float64]:
    """How far the logit of one episode falls when a cell has the mean embedding of normal ones: (segment, sensor)."""
    episode_cells = MadeNormal.of(detector, episode, reference)
    t, s = episode_cells.shape
    whole = episode_cells.logits(np.zeros((1, t, s), dtype=np.bool_))
    one_each = np.eye(t * s, dtype=np.bool_).reshape(-1, t, s)
    return np.asarray((whole - episode_cells.logits(one_each)).reshape(t, s))
