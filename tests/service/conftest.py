"""A workspace on each database, and a model that trains in a second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

for package in ("fastapi", "sqlalchemy", "alembic", "psycopg", "uvicorn", "prometheus_client", "httpx2"):
    pytest.importorskip(package, reason="needs the extra serve: pip install 'dfstrans[serve]'")

from dfstrans.data.episodes import Episodes  # noqa: E402
from dfstrans.data.synthetic import planted_episodes  # noqa: E402
from dfstrans.service.workspace import Workspace  # noqa: E402
from tests.service.postgresql import server  # noqa: E402


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a database."""
    with server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    """The address of an empty database: None is SQLite's in the workspace."""
    if request.param == "sqlite":
        return None
    import psycopg

    address: str = request.getfixturevalue("postgresql")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return address


@pytest.fixture
def workspace(tmp_path: Path, database: str | None) -> Iterator[Workspace]:
    opened = Workspace(tmp_path / "workspace", database)
    yield opened
    opened.close()


def fleet(turn: int = 0, n_normal: int = 48, n_anomalous: int = 16) -> Episodes:
    """Recordings of four machines with planted faults; others in each turn, with the same couplings of sensors."""
    drawn = planted_episodes(n_normal + turn + 1, n_anomalous, n_sensors=3, n_timepoints=48, seed=0)
    labels = drawn.require_labels()
    normal, anomalous = (np.flatnonzero(labels == label) for label in (0, 1))
    episodes = drawn[np.sort(np.concatenate([normal[:n_normal], anomalous[:n_anomalous]]))]
    machines = np.array([f"lift-{row % 4}" for row in range(len(episodes))])
    return replace(episodes, groups=machines)


@pytest.fixture(scope="session")
def trees_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees that explain what they detect."""
    from dfstrans import Diagnoser
    from dfstrans.detectors.workflow import train_model

    folder = tmp_path_factory.mktemp("trees") / "model"
    train_model(Diagnoser(members="trees", segment_length=16), fleet(), folder)
    return folder
