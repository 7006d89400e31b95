"""A cluster of two processes for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scale.fleet_files import write_fleet

if TYPE_CHECKING:
    from distributed import LocalCluster

pytest.importorskip("distributed", reason="needs the extra scale: pip install 'dfstrans[scale]'")


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[LocalCluster]:
    """Two workers, each a process that is started again if it dies."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50, memory_limit=0
    ) as started:
        yield started


@pytest.fixture(scope="session")
def cluster(local_cluster: LocalCluster) -> str:
    """The address of its scheduler."""
    address: str = local_cluster.scheduler_address
    return address


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fleet(tmp_path_factory.mktemp("fleet") / "data", 40)
