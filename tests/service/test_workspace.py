"""The database has the tables of the code on both databases, and signals are named by what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.service.database import Asset, Base, Case, Database, now
from dfstrans.service.workspace import Workspace, content_of


def recording(seed: int = 0) -> Episodes:
    return planted_episodes(2, 2, n_sensors=3, n_timepoints=48, seed=seed)[[0]]


def test_migrations_make_the_tables_of_the_code(workspace: Workspace) -> None:
    with workspace.database.engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    assert found == []
    assert workspace.database.is_current()


def test_opening_again_keeps_what_is_there(workspace: Workspace) -> None:
    with workspace.writing() as session:
        session.add(Asset(name="lift-1"))
    url = workspace.database.engine.url.render_as_string(hide_password=False)
    again = Workspace(workspace.folder, url)
    with again.reading() as session:
        assert [one.name for one in session.scalars(select(Asset))] == ["lift-1"]
    again.close()


def test_failed_write_leaves_nothing(workspace: Workspace) -> None:
    with pytest.raises(IntegrityError), workspace.writing() as session:
        session.add_all([Asset(name="lift-2"), Asset(name="lift-1"), Asset(name="lift-1")])
    with workspace.reading() as session:
        assert list(session.scalars(select(Asset))) == []


def test_times_come_back_in_utc(workspace: Workspace) -> None:
    before = now()
    with workspace.writing() as session:
        session.add(Asset(name="lift-1"))
    with workspace.reading() as session:
        created = session.scalars(select(Asset)).one().created
    assert before <= created <= now()
    assert created.utcoffset() == before.utcoffset()


def test_database_refuses_a_second_open_case_of_an_asset(workspace: Workspace) -> None:
    with workspace.writing() as session:
        session.add(asset := Asset(name="lift-1"))
        session.flush()
        session.add_all([Case(asset_id=asset.id, probability=1.0, closed=now()) for _ in range(2)])
        session.add(Case(asset_id=asset.id, probability=1.0))
    with pytest.raises(IntegrityError), workspace.writing() as session:
        session.add(Case(asset_id=asset.id, probability=1.0))


def test_database_of_a_later_version_is_refused(workspace: Workspace) -> None:
    with workspace.database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    url = workspace.database.engine.url.render_as_string(hide_password=False)
    with pytest.raises(DfstransError, match="got version 9999; upgrade"):
        Database(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://somewhere/x", "SQLite or PostgreSQL"),
        ("nonsense", "address of a database"),
        ("postgresql://a:secret@/x?host=/nonexistent", "expected a database at"),
    ],
)
def test_unusable_address_of_a_database_is_explained_without_its_password(url: str, message: str) -> None:
    with pytest.raises(DfstransError, match=message) as raised:
        Database(url)
    assert "secret" not in str(raised.value)


def test_sqlite_waits_for_the_disk_and_keeps_references(tmp_path: Path) -> None:
    opened = Workspace(tmp_path)
    with opened.database.engine.connect() as connection:
        found = [
            connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert found == ["wal", 2, 1]
    opened.close()


def test_workspace_is_served_by_one_process(tmp_path: Path) -> None:
    first, second = Workspace(tmp_path), Workspace(tmp_path)
    with first.only_service(), pytest.raises(DfstransError, match="which one does"), second.only_service():
        pass
    with second.only_service():
        pass
    first.close()
    second.close()


# ---- signals --------------------------------------------------------------------------------------------------------


def test_signal_is_stored_once_and_comes_back(tmp_path: Path) -> None:
    workspace, one = Workspace(tmp_path), recording()
    content = workspace.keep(one)
    assert workspace.keep(replace(one, ids=np.array(["another name"]))) == content
    files = [file for file in workspace.signals.rglob("*") if file.is_file()]
    assert [file.name for file in files] == [f"{content}.parquet"]
    back = workspace.signal(content, "run 7")
    assert back.ids.tolist() == ["run 7"]
    assert back.interval == one.interval
    np.testing.assert_array_equal(back.values, one.values)
    workspace.close()


def test_content_depends_on_all_but_the_name_and_the_label() -> None:
    one = recording()
    content = content_of(one)
    assert content_of(replace(one, labels=None, faults=None, ids=np.array(["x"]))) == content
    bent = np.array(one.values)
    bent[0, 1, 2] += 1
    start = np.array(["2026-01-01"], dtype="datetime64[ns]")
    changes = [{"values": bent}, {"sensors": ("a", "b", "c")}, {"interval": 1.0}, {"starts": start}, {"lengths": [40]}]
    others = [content_of(replace(one, **change)) for change in changes]  # type: ignore[arg-type]
    assert len({content, *others}) == len(changes) + 1


def test_signal_that_was_changed_is_refused(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    first, second = workspace.keep(recording(0)), workspace.keep(recording(1))
    workspace._signal(second).replace(workspace._signal(first))
    with pytest.raises(DfstransError, match="restore a backup"):
        workspace.signal(first, "run 7")
    workspace.close()
