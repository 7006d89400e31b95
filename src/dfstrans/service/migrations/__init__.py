"""The changes of the database from version to version, in order; alembic applies them at start."""
