"""What the tests of commands share: recordings, and a model trained on them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.cli.command_line import SMALL, output_of
from tests.tiny import tiny_episodes


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long table as users have it."""
    path = tmp_path_factory.mktemp("cli") / "recordings.csv"
    rows = [
        pd.DataFrame(
            {"episode_id": e.id, "time": range(48), **dict(zip("abc", e.values, strict=True)), "label": e.label}
        )
        for e in tiny_episodes()
    ]
    pd.concat(rows).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(table: Path) -> Path:
    folder = table.parent / "model"
    output_of("train", table, "--out", folder, *SMALL, "--epochs", "2")
    return folder
