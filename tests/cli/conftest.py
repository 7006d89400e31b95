"""What the tests of commands share: recordings, and a model trained on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import SMALL, output_of
from tests.tiny import tiny_episodes, write_table


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "recordings.csv"
    write_table(tiny_episodes(), path)
    return path


@pytest.fixture(scope="session")
def model(table: Path) -> Path:
    folder = table.parent / "model"
    output_of("train", table, "--out", folder, *SMALL, "--epochs", "2")
    return folder
