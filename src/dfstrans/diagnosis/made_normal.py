"""What would the logit be if some sensors were normal at some moments? What occlusion and curves are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans

Mask = npt.NDArray[np.bool_]
CELLS_AT_ONCE = 1 << 14  # (segment, sensor) cells of the variants that are judged together


@dataclass(frozen=True, eq=False)
class MadeNormal:
    """One episode of which cells can be made normal: they get the mean embedding of normal episodes.

    Shape:
        embedding, normal (segment, sensor, d_model), real segments only
    """

    network: DFSTrans
    embedding: Tensor
    normal: Tensor

    @classmethod
    def of(cls, detector: Detector, episode: Any, reference: NormalReference) -> MadeNormal:
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
