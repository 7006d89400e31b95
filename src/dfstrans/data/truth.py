"""`Truth`: how much a known fault changed each sensor at each moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError


@dataclass(frozen=True, eq=False)
class Truth:
    """Graded relevance of every (segment, sensor) cell of some episodes, and the operating phase of every segment.

    Relevance is the change that the fault caused, relative to how much the same cell varies between normal days:
    0 means no change, 1 more than 95 % of normal changes. The noise ratio, if known, is the same change relative to the
    sensor's noise, and shows whether it is visible at all.

    Shape:
        relevance (n_episodes, n_segments, n_sensors) float16; noise_ratio likewise, float32;
        phases (n_episodes, n_segments), indices of `phase_names`
    """

    segment_length: int
    relevance: npt.NDArray[np.float16]
    phases: npt.NDArray[np.int8]
    phase_names: tuple[str, ...]
    noise_ratio: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.noise_ratio is not None and self.noise_ratio.shape != self.relevance.shape:
            raise DfstransError(
                f"expected a noise ratio for each of {self.relevance.shape} cells, got {self.noise_ratio.shape}"
            )

    @property
    def affected(self) -> npt.NDArray[np.bool_]:
        """Cells whose change exceeds 95 % of normal changes."""
        return self.relevance >= 1

    def select(self, rows: Any) -> Truth:
        """Select the truth of some episodes."""
        ratio = None if self.noise_ratio is None else self.noise_ratio[rows]
        return replace(self, relevance=self.relevance[rows], phases=self.phases[rows], noise_ratio=ratio)

    def select_sensors(self, columns: npt.NDArray[np.intp]) -> Truth:
        """Select the truth of some sensors."""
        ratio = None if self.noise_ratio is None else self.noise_ratio[:, :, columns]
        return replace(self, relevance=self.relevance[:, :, columns], noise_ratio=ratio)

    def cells(self, row: int, segment_length: int, n_segments: int) -> npt.NDArray[np.float16]:
        """Return the relevance of one episode for another segment length: the maximum over all overlapping segments.

        Shape:
            (n_segments, n_sensors)
        """
        own = self.relevance[row]
        found = np.zeros((n_segments, own.shape[1]), dtype=own.dtype)
        for segment in range(n_segments):
            first = segment * segment_length // self.segment_length
            last = -(-(segment + 1) * segment_length // self.segment_length)
            if first < len(own):
                found[segment] = own[first:last].max(axis=0)
        return found

    @classmethod
    def concatenate(cls, parts: Sequence[Truth]) -> Truth:
        """Join the truth of all parts, which must have the same segments; keep noise ratios if every part has them."""
        first = parts[0]
        if any(
            (part.segment_length, part.phase_names, part.relevance.shape[1:])
            != (first.segment_length, first.phase_names, first.relevance.shape[1:])
            for part in parts
        ):
            raise DfstransError("expected parts whose truth is cut into the same segments, got different ones")
        ratios = [part.noise_ratio for part in parts if part.noise_ratio is not None]
        return replace(
            first,
            relevance=np.concatenate([part.relevance for part in parts]),
            phases=np.concatenate([part.phases for part in parts]),
            noise_ratio=np.concatenate(ratios) if len(ratios) == len(parts) else None,
        )
