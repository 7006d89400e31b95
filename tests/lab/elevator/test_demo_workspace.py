"""The workspace that `make serve` shows."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from dfstrans.lab.elevator.demo_workspace import fill_workspace
from dfstrans.service.cases import CaseFilter, find_cases
from dfstrans.service.database import Recording
from dfstrans.service.versions import active_version
from dfstrans.service.workspace import Workspace

FEW = {"normal": 48, "faulty": 24, "sampling_rate": 8, "n_timepoints": 160}


def test_demo_fills_a_workspace_once_with_journeys_that_open_cases(tmp_path: Path) -> None:
    workspace, said = Workspace(tmp_path / "workspace"), list[str]()
    settings = {"members": "trees", "segment_length": 10}
    added = fill_workspace(workspace, remark=said.append, journeys=FEW, settings=settings)
    with workspace.reading() as session:
        rows = session.scalars(select(Recording)).all()
        assert len(rows) == added > 4
        assert all(one.probability is not None for one in rows)
        assert active_version(session) is not None
        assert find_cases(session, CaseFilter()).total > 0
    assert len(said) == 3
    assert fill_workspace(workspace, remark=said.append) == 0
    workspace.close()
