"""The figures of each epoch as a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path

LogRows = list[dict[str, float]]
LOG = "training_log.csv"
TENSORBOARD = "tensorboard"  # the folder that training adds where TensorBoard is installed


def write_log(rows: LogRows, path: Path) -> None:
    """One line per epoch."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def read_log(path: Path) -> LogRows:
    """The inverse of `write_log`."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
