"""What would the logit be if one sensor were normal at one moment? The slow and direct way to rank causes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.reference import NormalReference

CELLS_AT_ONCE = 1 << 14  # (segment, sensor) cells of the variants that are judged together


def occlusion(detector: Detector, episode: Any, reference: NormalReference) -> npt.NDArray[np.float64]:
    """How far the logit of one episode falls when a cell has the mean embedding of normal ones: (segment, sensor)."""
    segments, valid, _ = next(iter(detector.batches(episode)))
    network = detector.network_
    with torch.inference_mode():
        x = network.embed(segments[:1, valid[0]])  # (1, t, s, d), real segments only
        whole = float(network.attend(x).logit)
        _, t, s, d = x.shape
        normal = torch.as_tensor(reference.usual_embedding(t), dtype=x.dtype).expand(t, s, d)
        falls = []
        for cells in torch.arange(t * s).split(max(1, CELLS_AT_ONCE // (t * s))):
            variants = x.expand(len(cells), t, s, d).clone()
            moment, sensor = cells // s, cells % s
            variants[torch.arange(len(cells)), moment, sensor] = normal[moment, sensor]
            falls.append(whole - network.attend(variants).logit.double().numpy())
    return np.concatenate(falls).reshape(t, s)
