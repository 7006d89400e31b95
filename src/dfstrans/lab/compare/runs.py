"""One finished cell of a comparison, that is one model on one split, as a small JSON file that is never overwritten."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dfstrans.data.splits import SplitKind
from dfstrans.detectors.saved_model import library_versions
from dfstrans.errors import DfstransError, option_name, settings_as_options
from dfstrans.files import disk_errors_explained, written_atomically
from dfstrans.lab.compare.protocols import ProtocolName
from dfstrans.settings import Settings
from dfstrans.training.evaluation import Evaluation


def commit() -> str | None:
    """The commit of the checkout that this code is in, with a + where files differ from it; None outside of one."""
    source = Path(__file__).resolve().parent
    known = _git(source, "ls-files", "--error-unmatch", Path(__file__).name)
    if known is None:  # an installed copy, which may lie inside of someone else's checkout
        return None
    name = _git(source, "rev-parse", "--short", "HEAD")
    changed = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ":/src")
    return None if name is None else name + ("+" if changed else "")


def circumstances() -> dict[str, Any]:
    """The commit, the versions and the number of threads."""
    import torch

    return {"commit": commit(), "versions": library_versions(), "threads": torch.get_num_threads()}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


FORMAT: Literal["dfstrans-cell"] = "dfstrans-cell"
VERSION: Literal[3] = (
    3  # of what a cell holds and how it is found: the same settings, data and version give the same figures
)

SHARES = ("precision", "recall", "f1", "pr_auc")  # figures between 0 and 1


def _whole(figures: dict[str, int | float | None]) -> dict[str, int | float | None]:
    """The figures, if none of an evaluation is missing and the shares are some."""
    missing = [field.name for field in fields(Evaluation) if field.name not in figures]
    if missing:
        raise ValueError(f"expected all figures of an evaluation, got none for {', '.join(missing)}")
    for name in SHARES:
        if (value := figures[name]) is not None and not 0 <= value <= 1:
            raise ValueError(f"expected {name} between 0 and 1, got {value}")
    return figures


Figures = Annotated[dict[str, int | float | None], AfterValidator(_whole)]  # of `training.evaluation.Evaluation`


class DataRecord(Settings):
    """Which episodes were split."""

    name: str
    read: dict[str, Any]  # the options of reading that were given
    fingerprint: str
    episodes: int
    anomalous: int
    sensors: int
    longest: int  # in points

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name}, {self.read['spacecraft']}" if "spacecraft" in self.read else self.name


class ProtocolRecord(Settings):
    """How they were cut and split."""

    name: ProtocolName
    split: SplitKind
    seed: int
    at_most: int | None = None  # episodes that were used, where it was only a quick look


class TrainingRecord(Settings):
    """What training took."""

    train_episodes: int
    parameters: int
    epochs: int | None  # None where there are no epochs
    best_epoch: int
    seconds_per_epoch: float | None  # the median
    seconds: float
    threads: int
    precision: Literal["32", "bf16"] | None = None  # of a network's products; None where it was not recorded


class Cell(Settings):
    """A model on one split: what was done, and how good it was."""

    format: Literal["dfstrans-cell"] = FORMAT
    version: Literal[3] = VERSION
    model: str
    fold: int
    data: DataRecord
    protocol: ProtocolRecord
    settings: dict[str, Any]  # all arguments of the detector
    training: TrainingRecord
    test: Figures  # at the threshold that was chosen on validation
    test_at_half: Figures  # at a probability of 0.5
    validation: Figures
    validation_at_half: Figures
    command: str
    commit: str | None  # None where the code was not a checkout
    versions: dict[str, str]
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class CellKey(Settings):
    """What a cell is about. One with another key stands for another experiment."""

    model: str
    fold: int
    split: SplitKind
    seed: int
    fingerprint: str
    settings: dict[str, Any]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.model}, split {self.fold}"


def cell_path(results: Path, model: str, fold: int) -> Path:
    """Where the cell of a model on a split is."""
    return results / model / f"fold_{fold}.json"


def write_cell(path: Path, cell: Cell) -> None:
    """Write a cell in one step. Whoever holds the claim on it has seen that there is none yet."""
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(cell.model_dump(mode="json"), indent=2, allow_nan=False) + "\n", "utf-8")


def read_cell(path: Path) -> Cell:
    """Read a cell; anything damaged, foreign or of another version gives one clear error."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _unusable(path, f"a file that cannot be read ({error})", "restore it from a copy, or move it") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _unusable(path, "a file of another kind", "move it, or choose another folder")
    if content.get("version") != VERSION:
        raise _unusable(
            path,
            f"one of version {content.get('version')}, this being {VERSION}",
            "choose another folder, or use the version of dfstrans that wrote it "
            f"({content.get('versions', {}).get('dfstrans', 'unknown')})",
        )
    try:
        with settings_as_options(False):
            return Cell(**content)
    except DfstransError as error:
        raise _unusable(path, f"a damaged one ({error})", "restore it from a copy, or move it") from error


def read_matching_cell(path: Path, key: CellKey, train_episodes: int, defaults: Mapping[str, Any]) -> Cell:
    """Read a cell that has to be about this very thing; `defaults` as in `require_settings`."""
    cell = read_cell(path)
    found = key_of(cell)
    for name, what in {
        "fingerprint": "other recordings (or the same ones, read otherwise)",
        "split": f"a {found.split} split",
        "seed": f"splits by the seed {found.seed}",
        "model": f"the model {found.model}",
        "fold": f"split {found.fold}",
    }.items():
        if getattr(found, name) != getattr(key, name):
            raise _unusable(path, f"one of {what}", "choose another folder for this comparison")
    require_settings(path, cell, key.settings, defaults)
    if cell.training.train_episodes != train_episodes:
        learned = f"one that learned from {cell.training.train_episodes} episodes instead of {train_episodes}"
        raise _unusable(path, f"{learned}, as an earlier version cut the parts", "choose another folder, or remove it")
    return cell


def require_settings(path: Path, cell: Cell, wanted: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse a cell of other settings; one that it does not know, being older, was as `defaults` have it."""
    settings = {**defaults, **cell.settings}
    changed = [
        f"{name}={settings[name]!r} instead of {value!r}" for name, value in wanted.items() if settings[name] != value
    ]
    if changed:
        raise _unusable(
            path, f"one with {', '.join(changed)}", "choose another folder for this comparison, or give these settings"
        )


def key_of(cell: Cell) -> CellKey:
    """What a cell is about."""
    return CellKey(
        model=cell.model,
        fold=cell.fold,
        split=cell.protocol.split,
        seed=cell.protocol.seed,
        fingerprint=cell.data.fingerprint,
        settings=cell.settings,
    )


def require_some(folder: Path, cells: Collection[Cell]) -> None:
    """Refuse to show a folder of which no cell is finished."""
    if not cells:
        raise DfstransError(
            f"expected finished cells in {folder}, got none; leave out {option_name('finished', True)} to compute "
            f"them, or give the folder that has them ({option_name('out', ...)})"
        )


def as_recorded(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives them back; of a path only the name, since the rest is the machine's."""
    return dict(json.loads(json.dumps(values, default=lambda value: Path(value).name)))


def partial_folder(path: Path) -> Path:
    """Where the unfinished work on a cell is."""
    return path.with_name(f"{path.name}.partial")


@contextmanager
def claimed(path: Path) -> Iterator[Path | None]:
    """The folder for the unfinished work on a cell, held for this process alone; None when another one holds it.

    The system releases the claim however the process ends. What is left of the work stays until the cell is there.
    """
    partial = partial_folder(path)
    try:
        with disk_errors_explained(partial):
            partial.mkdir(parents=True, exist_ok=True)
        lock = (partial / "lock").open("w")
    except (FileNotFoundError, FileExistsError):  # another process has just finished the cell, and cleared up
        yield None
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield partial
        if path.exists():
            shutil.rmtree(partial, ignore_errors=True)


def _unusable(path: Path, what: str, remedy: str) -> DfstransError:
    return DfstransError(
        f"expected a result of this very comparison at {path}, got {what}; {remedy} (nothing was overwritten)"
    )
