"""Kinds of detectors by name, from the `dfstrans.detectors` entry points of installed packages."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from dfstrans.errors import DfstransError, did_you_mean
from dfstrans.settings import DFSTRANS

if TYPE_CHECKING:  # names need no torch
    from dfstrans.detectors.base import EpisodeClassifier


def detector_names() -> list[str]:
    """Return the names of all installed kinds, the default first."""
    return sorted(entry_points(group="dfstrans.detectors").names, key=lambda name: (name != DFSTRANS, name))


def detector_kind(name: str) -> type[EpisodeClassifier]:
    """Import and return the class of a kind of detector."""
    known = detector_names()
    if name not in known:
        raise DfstransError(f"expected one of {', '.join(known)}, got {name!r}; {did_you_mean(name, known)}")
    kind: type[EpisodeClassifier] = entry_points(group="dfstrans.detectors")[name].load()
    return kind


def load_detector(folder: str | Path) -> EpisodeClassifier:
    """Read a saved model of any kind."""
    from dfstrans.detectors.saved_model import read_record  # names need no torch

    return detector_kind(read_record(Path(folder)).estimator).load(folder)
