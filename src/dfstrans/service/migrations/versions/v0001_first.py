"""The first version."""

from __future__ import annotations

from functools import partial
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
column: Any = partial(sa.Column, nullable=False)


def table(name: str, *content: Any) -> None:
    """Create a table with the columns that all have."""
    op.create_table(name, sa.Column("id", sa.Integer, primary_key=True), column("created", sa.DateTime()), *content)


def upgrade() -> None:
    """Create all tables."""
    table("assets", column("name", sa.String()), sa.UniqueConstraint("name"))
    table(
        "jobs",
        column("kind", sa.String()),
        column("state", sa.String()),
        column("progress", sa.Double()),
        column("message", sa.Text()),
        column("settings", sa.JSON()),
        column("result", sa.JSON(), nullable=True),
        column("author", sa.String()),
        column("ended", sa.DateTime(), nullable=True),
    )
    table(
        "model_versions",
        column("checksum", sa.String()),
        column("origin", sa.String()),
        column("author", sa.String()),
        column("note", sa.Text()),
        sa.UniqueConstraint("checksum"),
    )
    table(
        "sinks",
        column("kind", sa.String()),
        column("target", sa.String()),
        column("secret", sa.String(), nullable=True),
        column("author", sa.String()),
        column("removed", sa.DateTime(), nullable=True),
    )
    table(
        "tokens",
        column("name", sa.String()),
        column("scope", sa.String()),
        column("digest", sa.String()),
        column("revoked", sa.DateTime(), nullable=True),
        sa.UniqueConstraint("digest"),
        sa.UniqueConstraint("name"),
    )
    table(
        "cases",
        column("asset_id", sa.Integer()),
        column("updated", sa.DateTime()),
        column("closed", sa.DateTime(), nullable=True),
        column("evidence", sa.Integer()),
        column("probability", sa.Double()),
        column("top_sensor", sa.String(), nullable=True),
        column("moment_start", sa.Double(), nullable=True),
        column("moment_end", sa.Double(), nullable=True),
        column("trust", sa.String(), nullable=True),
        column("label", sa.String(), nullable=True),
        column("fault_code", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["assets.id"]),
    )
    op.create_index("cases_by_probability", "cases", ["probability", "id"])
    op.create_index("cases_by_rank", "cases", ["closed", "probability"])
    op.create_index("cases_of_asset", "cases", ["asset_id"])
    op.create_index(
        "one_open_case",
        "cases",
        ["asset_id"],
        unique=True,
        sqlite_where=sa.text("closed IS NULL"),
        postgresql_where=sa.text("closed IS NULL"),
    )
    table(
        "deliveries",
        column("sink_id", sa.Integer()),
        column("event", sa.String()),
        column("content", sa.JSON()),
        column("attempts", sa.Integer()),
        column("delivered", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["sink_id"], ["sinks.id"]),
        sa.UniqueConstraint("sink_id", "event", name="one_delivery"),
    )
    op.create_index("deliveries_by_time", "deliveries", ["delivered"])
    table(
        "policies",
        column("asset_id", sa.Integer(), nullable=True),
        column("settings", sa.JSON()),
        column("author", sa.String()),
        sa.ForeignKeyConstraint(["asset_id"], ["assets.id"]),
    )
    table(
        "promotions",
        column("version_id", sa.Integer()),
        column("previous_id", sa.Integer(), nullable=True),
        column("action", sa.String()),
        column("author", sa.String()),
        sa.ForeignKeyConstraint(["previous_id"], ["model_versions.id"]),
        sa.ForeignKeyConstraint(["version_id"], ["model_versions.id"]),
    )
    table(
        "recordings",
        column("asset_id", sa.Integer()),
        column("episode", sa.String()),
        column("content", sa.String()),
        column("points", sa.Integer()),
        column("seconds", sa.Double(), nullable=True),
        column("started", sa.String(), nullable=True),
        column("medians", sa.JSON()),
        column("version_id", sa.Integer(), nullable=True),
        column("probability", sa.Double(), nullable=True),
        column("threshold", sa.Double(), nullable=True),
        column("anomalous", sa.Boolean(), nullable=True),
        column("diagnosis", sa.JSON(), nullable=True),
        column("trust", sa.String(), nullable=True),
        column("alarm", sa.Boolean()),
        column("held_back", sa.String(), nullable=True),
        column("case_id", sa.Integer(), nullable=True),
        column("label", sa.String(), nullable=True),
        column("fault_code", sa.String(), nullable=True),
        column("faults", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["assets.id"]),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"]),
        sa.ForeignKeyConstraint(["version_id"], ["model_versions.id"]),
        sa.UniqueConstraint("asset_id", "episode", "content", name="one_record"),
    )
    op.create_index("recordings_by_label", "recordings", ["label"])
    op.create_index("recordings_of_asset", "recordings", ["asset_id", "id"])
    op.create_index("recordings_of_case", "recordings", ["case_id"])
    table(
        "feedback",
        column("case_id", sa.Integer(), nullable=True),
        column("recording_id", sa.Integer(), nullable=True),
        column("label", sa.String()),
        column("fault_code", sa.String(), nullable=True),
        column("faults", sa.JSON()),
        column("note", sa.Text()),
        column("author", sa.String()),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"]),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]),
    )
    op.create_index("feedback_on_case", "feedback", ["case_id"])
    op.create_index("feedback_on_recording", "feedback", ["recording_id"])
