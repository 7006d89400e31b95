"""The file layout of dfstrans: how HDF5, Parquet and npz store faults and truth, for readers and writers."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Fault
from dfstrans.data.truth import Truth
from dfstrans.errors import DfstransError

FORMAT = "dfstrans-episodes"
VERSION = 1
PARQUET_KEY = b"dfstrans-episodes"  # in the key-value metadata of a Parquet schema


def require_version(version: Any, path: Path) -> None:
    """Reject a file with a later layout version."""
    if int(version) > VERSION:
        raise DfstransError(
            f"expected episodes of layout version {VERSION} or earlier in {path}, got version {int(version)}; "
            "upgrade dfstrans"
        )


def faults_to_json(faults: Sequence[Fault]) -> str:
    """Encode the faults of one episode as text.

    >>> faults_to_json([Fault(3, 7, ("Ax",), "bump"), Fault(8, 9, ("Ax",), "bump", 1.5)])
    '[[3, 7, ["Ax"], "bump"], [8, 9, ["Ax"], "bump", 1.5]]'
    """
    return json.dumps([fault if fault.severity is not None else fault[:-1] for fault in faults])


def faults_from_json(text: str) -> tuple[Fault, ...]:
    """Decode the text that `faults_to_json` wrote."""
    return tuple(
        Fault(int(start), int(stop), tuple(map(str, sensors)), str(kind), float(severity[0]) if severity else None)
        for start, stop, sensors, kind, *severity in json.loads(text)
    )


def truth_to_arrays(truth: Truth) -> dict[str, npt.NDArray[Any]]:
    """Encode the truth as named arrays, for HDF5 and npz."""
    ratio = {} if truth.noise_ratio is None else {"truth_noise_ratio": truth.noise_ratio}
    return {
        **ratio,
        "truth_relevance": truth.relevance,
        "truth_phases": truth.phases,
        "truth_phase_names": np.array([name.encode() for name in truth.phase_names], dtype=np.bytes_),
        "truth_segment_length": np.array(truth.segment_length),
    }


def truth_from_arrays(arrays: Mapping[str, Any]) -> Truth | None:
    """Decode the arrays of `truth_to_arrays`; None if there is no truth."""
    if "truth_relevance" not in arrays:
        return None
    known = "truth_noise_ratio" in arrays
    return Truth(
        segment_length=int(arrays["truth_segment_length"][()]),
        relevance=np.asarray(arrays["truth_relevance"][()], dtype=np.float16),
        phases=np.asarray(arrays["truth_phases"][()], dtype=np.int8),
        phase_names=tuple(name.decode() for name in arrays["truth_phase_names"][()]),
        noise_ratio=np.asarray(arrays["truth_noise_ratio"][()], dtype=np.float32) if known else None,
    )


def truth_to_text(truth: Truth) -> str:
    """Encode the truth as compressed text, for Parquet."""
    content = io.BytesIO()
    np.savez_compressed(content, **truth_to_arrays(truth))  # type: ignore[arg-type]
    return base64.b64encode(content.getvalue()).decode()


def truth_from_text(text: str) -> Truth | None:
    """Decode the text that `truth_to_text` wrote."""
    with np.load(io.BytesIO(base64.b64decode(text))) as arrays:
        return truth_from_arrays(arrays)
