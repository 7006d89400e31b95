"""Recordings small enough to compare models on in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans import save_episodes
from dfstrans.data.synthetic import planted_episodes


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of planted episodes."""
    path = tmp_path_factory.mktemp("recordings") / "recordings.h5"
    save_episodes(planted_episodes(40, 20, n_sensors=2, n_timepoints=48), path)
    return path
