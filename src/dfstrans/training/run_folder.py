"""The folder of a training run: its settings and data, its log, and the checkpoint to resume from."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.settings import setting_name

LogRows = list[dict[str, float]]
LOG = "training_log.csv"
TENSORBOARD = "tensorboard"  # subfolder that training adds if TensorBoard is installed


def write_log(rows: LogRows, path: Path) -> None:
    """Write the log as CSV, one line per epoch."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def read_log(path: Path) -> LogRows:
    """Read a log that `write_log` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


CHECKPOINT = "last.ckpt"
RUN_RECORD = "run.json"


class OtherRunError(DfstransError):
    """The run in `folder` is not the one to resume; `found` describes the differences."""

    def __init__(self, folder: Path, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"expected {expected}, got {found}; {remedy}")
        self.folder, self.found = folder, found


class Epochs(NamedTuple):
    """The progress of a run."""

    done: int
    of: int
    seconds: float  # of the finished epochs


def prepare_run_folder(folder: Path, record: dict[str, Any], resume: bool) -> Path | None:
    """Write the record of a new run, or check it against the run to resume; return the checkpoint, if any."""
    if resume and can_resume(folder):
        changed = list_changes(_read_run_record(folder), json.loads(json.dumps(record)))
        if changed:
            raise OtherRunError(
                folder,
                f"the settings and data of the interrupted run in {folder}",
                ", ".join(changed),
                f"use the same ones, or start a new run without {option_name('resume')}",
            )
        if not checkpoint_is_whole(folder):
            raise DfstransError(
                f"expected an intact checkpoint at {folder / CHECKPOINT}, got a damaged one; start a new run without "
                f"{option_name('resume')}"
            )
        return folder / CHECKPOINT
    if resume:
        warnings.warn(f"{folder} has no interrupted run to resume; starting a new one", stacklevel=4)
    with atomic_write(folder / RUN_RECORD) as temporary:  # also creates the folder, or explains why it cannot
        for earlier in (CHECKPOINT, LOG):
            (folder / earlier).unlink(missing_ok=True)
        temporary.write_text(json.dumps(record, indent=2))
    return None


def can_resume(run_folder: Path) -> bool:
    """Return whether the folder has an interrupted run to resume."""
    return (run_folder / CHECKPOINT).is_file()


def checkpoint_is_whole(run_folder: Path) -> bool:
    """Return whether the checkpoint can be read."""
    import torch  # not needed by callers that only ask for progress

    try:
        torch.load(run_folder / CHECKPOINT, weights_only=True)
    except Exception:
        return False
    return True


def epochs_of(run_folder: Path) -> Epochs | None:
    """Return the progress of the run in a folder, or None if it has not started or has no epochs."""
    try:
        of = int(json.loads((run_folder / RUN_RECORD).read_text(encoding="utf-8"))["training"]["epochs"])
        rows = read_log(run_folder / LOG) if (run_folder / LOG).exists() else []
    except (OSError, ValueError, KeyError):
        return None
    return Epochs(len(rows), of, sum(row["seconds"] for row in rows))


def list_changes(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List the differences between the records of two runs, with both values."""
    changed = []
    for group in ("network", "training"):
        before = earlier.get(group, {})
        changed += [
            f"{setting_name(name, value)} instead of {before.get(name)}"
            for name, value in now[group].items()
            if name not in before or before[name] != value
        ]
    for part in ("train", "validation"):
        if earlier.get(f"{part}_fingerprint") != now[f"{part}_fingerprint"]:
            changed.append(f"another {part} part (other recordings, labels or split seed)")
    return changed


def _read_run_record(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / RUN_RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise OtherRunError(
            folder,
            f"the record of an interrupted run at {folder / RUN_RECORD}",
            "an unreadable one",
            f"start a new run without {option_name('resume')}",
        ) from error
