"""The database of a workspace: its tables, its sessions, and the migrations that run when it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Connection,
    DateTime,
    Engine,
    ForeignKey,
    Index,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from dfstrans.errors import DfstransError, option_name

LOCK_SECONDS = 30  # that a write waits for another one
MIGRATIONS = Path(__file__).parent / "migrations"


class UtcDateTime(TypeDecorator[datetime]):
    """A date and time in UTC; SQLite keeps no zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Store UTC without its zone."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Give the zone back."""
        return None if value is None else value.replace(tzinfo=UTC)


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


class Base(DeclarativeBase):
    """What all tables share."""

    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON, str: String}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[datetime] = mapped_column(default=now)


class Asset(Base):
    """One machine."""

    __tablename__ = "assets"

    name: Mapped[str] = mapped_column(unique=True)


class ModelVersion(Base):
    """A saved model, in the folder that its checksum names."""

    __tablename__ = "model_versions"

    checksum: Mapped[str] = mapped_column(unique=True)
    origin: Mapped[str]  # registered, trained or commissioned
    author: Mapped[str]
    note: Mapped[str] = mapped_column(Text, default="")


class Promotion(Base):
    """A version became active; the last promotion names the active one."""

    __tablename__ = "promotions"

    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"))
    previous_id: Mapped[int | None] = mapped_column(ForeignKey("model_versions.id"))
    action: Mapped[str]  # promote or rollback
    author: Mapped[str]


class Case(Base):
    """An alarm of an asset with its evidence: the recordings that joined it while it was open."""

    __tablename__ = "cases"
    __table_args__ = (
        Index(
            "one_open_case", "asset_id", unique=True, sqlite_where=text("closed IS NULL"),
            postgresql_where=text("closed IS NULL"),
        ),
        Index("cases_by_rank", "closed", "probability"),
        Index("cases_by_probability", "probability", "id"),
        Index("cases_of_asset", "asset_id"),
    )  # fmt: skip

    asset_id: Mapped[int] = mapped_column(ForeignKey("assets.id"))
    updated: Mapped[datetime] = mapped_column(default=now)
    closed: Mapped[datetime | None]
    evidence: Mapped[int] = mapped_column(default=0)  # number of recordings
    probability: Mapped[float]  # highest of its recordings, which the following fields describe
    top_sensor: Mapped[str | None]
    moment_start: Mapped[float | None]
    moment_end: Mapped[float | None]
    trust: Mapped[str | None]
    label: Mapped[str | None]  # of the last feedback
    fault_code: Mapped[str | None]

    asset: Mapped[Asset] = relationship(lazy="joined", innerjoin=True)


class Recording(Base):
    """A recording of an asset, with its score by the version that was active when it came."""

    __tablename__ = "recordings"
    __table_args__ = (
        UniqueConstraint("asset_id", "episode", "content", name="one_record"),
        Index("recordings_of_asset", "asset_id", "id"),
        Index("recordings_of_case", "case_id"),
        Index("recordings_by_label", "label"),
    )

    asset_id: Mapped[int] = mapped_column(ForeignKey("assets.id"))
    episode: Mapped[str]
    content: Mapped[str]  # SHA-256, which names the file of values
    points: Mapped[int]
    seconds: Mapped[float | None]  # duration
    started: Mapped[str | None]  # as the clock of the recording showed it
    medians: Mapped[dict[str, Any]]  # by sensor; null without values
    version_id: Mapped[int | None] = mapped_column(ForeignKey("model_versions.id"))
    probability: Mapped[float | None]
    threshold: Mapped[float | None]  # of the model
    anomalous: Mapped[bool | None]
    diagnosis: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    trust: Mapped[str | None]
    alarm: Mapped[bool] = mapped_column(default=False)
    held_back: Mapped[str | None]  # why an anomalous recording is no alarm
    case_id: Mapped[int | None] = mapped_column(ForeignKey("cases.id"))
    label: Mapped[str | None]  # of the last feedback
    fault_code: Mapped[str | None]
    faults: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))  # sensors and moments of that feedback

    asset: Mapped[Asset] = relationship(lazy="joined", innerjoin=True)
    version: Mapped[ModelVersion | None] = relationship(lazy="joined")


class Feedback(Base):
    """What a person said about a case or a recording."""

    __tablename__ = "feedback"
    __table_args__ = (Index("feedback_on_case", "case_id"), Index("feedback_on_recording", "recording_id"))

    case_id: Mapped[int | None] = mapped_column(ForeignKey("cases.id"))
    recording_id: Mapped[int | None] = mapped_column(ForeignKey("recordings.id"))
    label: Mapped[str]  # anomaly, no anomaly or neutral
    fault_code: Mapped[str | None]
    faults: Mapped[list[Any]]
    note: Mapped[str] = mapped_column(Text)
    author: Mapped[str]


class Policy(Base):
    """An alarm policy of an asset, or of all assets without their own; the last one counts."""

    __tablename__ = "policies"

    asset_id: Mapped[int | None] = mapped_column(ForeignKey("assets.id"))
    settings: Mapped[dict[str, Any]]
    author: Mapped[str]


class Sink(Base):
    """Where events are sent."""

    __tablename__ = "sinks"

    kind: Mapped[str]  # webhook or folder
    target: Mapped[str]
    secret: Mapped[str | None]
    author: Mapped[str]
    removed: Mapped[datetime | None]


class Delivery(Base):
    """An event for a sink."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("sink_id", "event", name="one_delivery"),
        Index("deliveries_by_time", "delivered"),
    )

    sink_id: Mapped[int] = mapped_column(ForeignKey("sinks.id"))
    event: Mapped[str]
    content: Mapped[dict[str, Any]]
    attempts: Mapped[int] = mapped_column(default=0)
    delivered: Mapped[datetime | None]


class Job(Base):
    """Work in the background."""

    __tablename__ = "jobs"

    kind: Mapped[str]  # train or commission
    state: Mapped[str] = mapped_column(default="queued")  # then running, and finished, failed or cancelled
    progress: Mapped[float] = mapped_column(default=0.0)
    message: Mapped[str] = mapped_column(Text, default="")
    settings: Mapped[dict[str, Any]]
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    author: Mapped[str]
    ended: Mapped[datetime | None]


class Token(Base):
    """A token of the API, as a digest."""

    __tablename__ = "tokens"

    name: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[str]  # read, write or admin
    digest: Mapped[str] = mapped_column(unique=True)
    revoked: Mapped[datetime | None]


# ---- open -----------------------------------------------------------------------------------------------------------


class Database:
    """Sessions that read, and sessions that write; those of SQLite exclude each other when they write."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        try:
            with self._begin(writes=True) as connection:
                migrate(connection)
        except DfstransError:
            self.close()
            raise
        except SQLAlchemyError as error:
            self.close()
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise DfstransError(
                f"expected a database at {make_url(url).render_as_string()}, but: {reason}; check its address "
                f"({option_name('database')}), and that it is running"
            ) from error

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session that only reads; all its queries see the same state on SQLite."""
        with self._begin(writes=False) as connection, Session(connection, autoflush=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Give a session that is committed at the end of the block, or rolled back if that fails."""
        with self._begin(writes=True) as connection, Session(connection, expire_on_commit=False) as session:
            yield session
            session.flush()

    @contextmanager
    def _begin(self, *, writes: bool) -> Iterator[Connection]:
        with self.engine.connect().execution_options(writes=writes) as connection, connection.begin():
            yield connection

    def is_current(self) -> bool:
        """Return whether the database answers and has the latest version."""
        with self.engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
        return found == _migrations().get_current_head()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except SQLAlchemyError:
        raise DfstransError(
            f"expected the address of a database for {option_name('database')}, got another text; write for example "
            "postgresql://user@host/name"
        ) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise DfstransError(
            f"expected a database of SQLite or PostgreSQL for {option_name('database')}, got "
            f"{parsed.get_backend_name()}; write for example postgresql://user@host/name"
        )
    engine = create_engine(parsed, pool_size=20, max_overflow=40, pool_pre_ping=parsed.get_backend_name() != "sqlite")
    if parsed.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000}")


def _begin_sqlite(connection: Connection) -> None:
    """Begin as a writer if it will write: a reader that becomes one fails if another has written since."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrations() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def migrate(connection: Connection, to: str = "head") -> None:
    """Bring a database to a version; another process that does the same waits."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(34)"))
    script = _migrations()
    known = {one.revision for one in script.walk_revisions()}
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        raise DfstransError(
            f"expected a database of this version of dfstrans or an earlier one, got version {found}; upgrade dfstrans"
        )
    with EnvironmentContext(Config(), script, fn=lambda have, _: script._upgrade_revs(to, have)) as environment:
        environment.configure(connection=connection, target_metadata=Base.metadata)
        environment.run_migrations()
