"""`GradedTruth`: how much a known fault changed each sensor at each moment, and how files store it."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError


@dataclass(frozen=True, eq=False)
class GradedTruth:
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

    def select(self, rows: Any) -> GradedTruth:
        """Select the truth of some episodes."""
        ratio = None if self.noise_ratio is None else self.noise_ratio[rows]
        return replace(self, relevance=self.relevance[rows], phases=self.phases[rows], noise_ratio=ratio)

    def select_sensors(self, columns: npt.NDArray[np.intp]) -> GradedTruth:
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
    def concatenate(cls, parts: Sequence[GradedTruth]) -> GradedTruth:
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


def truth_to_arrays(truth: GradedTruth) -> dict[str, npt.NDArray[Any]]:
    """Encode the truth as named arrays, for HDF5 and npz."""
    ratio = {} if truth.noise_ratio is None else {"truth_noise_ratio": truth.noise_ratio}
    return {
        **ratio,
        "truth_relevance": truth.relevance,
        "truth_phases": truth.phases,
        "truth_phase_names": np.array([name.encode() for name in truth.phase_names], dtype=np.bytes_),
        "truth_segment_length": np.array(truth.segment_length),
    }


def truth_from_arrays(arrays: Mapping[str, Any]) -> GradedTruth | None:
    """Decode the arrays of `truth_to_arrays`; None if there is no truth."""
    if "truth_relevance" not in arrays:
        return None
    known = "truth_noise_ratio" in arrays
    return GradedTruth(
        segment_length=int(arrays["truth_segment_length"][()]),
        relevance=np.asarray(arrays["truth_relevance"][()], dtype=np.float16),
        phases=np.asarray(arrays["truth_phases"][()], dtype=np.int8),
        phase_names=tuple(name.decode() for name in arrays["truth_phase_names"][()]),
        noise_ratio=np.asarray(arrays["truth_noise_ratio"][()], dtype=np.float32) if known else None,
    )


def truth_to_text(truth: GradedTruth) -> str:
    """Encode the truth as compressed text, for Parquet."""
    content = io.BytesIO()
    np.savez_compressed(content, **truth_to_arrays(truth))  # type: ignore[arg-type]
    return base64.b64encode(content.getvalue()).decode()


def truth_from_text(text: str) -> GradedTruth | None:
    """Decode the text that `truth_to_text` wrote."""
    with np.load(io.BytesIO(base64.b64decode(text))) as arrays:
        return truth_from_arrays(arrays)
