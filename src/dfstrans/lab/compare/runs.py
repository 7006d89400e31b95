"""Finished runs of a comparison, one model on one split each, and the file that stores them.

A store is a text file with one run per line, as JSON. Several processes may work on one store: each claims the run that
it computes, and adds it under a lock.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from filelock import FileLock, Timeout
from pydantic import AfterValidator

from dfstrans.data.splits import SplitKind
from dfstrans.detectors.saved_model import library_versions
from dfstrans.errors import DfstransError, option_name, settings_as_options
from dfstrans.files import atomic_write, explain_disk_errors
from dfstrans.lab.compare.protocols import BASELINES, BaselineName, ProtocolName
from dfstrans.settings import Settings
from dfstrans.training.evaluation import Evaluation

VERSION: Literal[4] = 4  # raise when the same settings and data no longer give the same metrics

ON_TEST = tuple(field.name for field in fields(Evaluation))
AT_HALF = ("precision", "recall", "f1", "false_alarms_per_100_normal")
ON_VALIDATION = ("episodes", "anomalous", "f1", "pr_auc")
SHARES = ("precision", "recall", "f1", "pr_auc")  # metrics between 0 and 1

Metrics = dict[str, int | float | None]


def _with(names: tuple[str, ...]) -> Callable[[Metrics], Metrics]:
    """A validator that requires these metrics and refuses impossible values."""

    def check(metrics: Metrics) -> Metrics:
        if missing := [name for name in names if name not in metrics]:
            raise ValueError(f"expected the metrics {', '.join(names)}, got none for {', '.join(missing)}")
        for name in SHARES:
            if (value := metrics.get(name)) is not None and not 0 <= value <= 1:
                raise ValueError(f"expected {name} between 0 and 1, got {value}")
        return metrics

    return check


class EpisodesRecord(Settings):
    """The episodes that were split."""

    name: str
    read: dict[str, Any]  # the reading options that were given
    fingerprint: str
    episodes: int
    anomalous: int
    sensors: int
    longest: int  # in points

    @property
    def title(self) -> str:
        """The name of the data set, for people."""
        return f"{self.name}, {self.read['spacecraft']}" if "spacecraft" in self.read else self.name


class ProtocolRecord(Settings):
    """How the recordings were cut and split."""

    name: ProtocolName
    split: SplitKind
    seed: int
    at_most: int | None  # number of episodes in a quick look; None: all
    baseline: BaselineName  # what is known of the machines of the test part, with a grouped split


class MachinesRecord(Settings):
    """How many machines the evaluated episodes are of, and how many of them the model compares with themselves."""

    evaluated: int
    compared: int


class TrainingRecord(Settings):
    """Size and cost of the training."""

    train_episodes: int
    parameters: int
    epochs: int | None  # None for models without epochs
    best_epoch: int
    seconds_per_epoch: float | None  # the median
    seconds: float
    threads: int
    precision: Literal["32", "bf16"] | None  # of a network's matrix products; None: no network


class Run(Settings):
    """One model on one split: how it was trained and how good it is."""

    version: Literal[4] = VERSION
    model: str
    fold: int
    data: EpisodesRecord
    protocol: ProtocolRecord
    settings: dict[str, Any]  # all arguments of the detector
    parts: str  # digest of the ids of the parts, which `parts_file` lists
    machines: MachinesRecord | None  # None: the recordings name no machine
    training: TrainingRecord
    test: Annotated[Metrics, AfterValidator(_with(ON_TEST))]  # at the threshold chosen on validation
    test_at_half: Annotated[Metrics, AfterValidator(_with(AT_HALF))]  # at a probability of 0.5
    validation: Annotated[Metrics, AfterValidator(_with(ON_VALIDATION))]
    command: str
    commit: str | None  # None for an installed copy of the code
    versions: dict[str, str]


class RunKey(Settings):
    """What identifies a run; a run with another key is another experiment."""

    model: str
    fold: int
    split: SplitKind
    seed: int
    fingerprint: str
    settings: dict[str, Any]
    parts: str
    baseline: BaselineName

    @property
    def label(self) -> str:
        """The name of the run, for people."""
        return f"{self.model}, split {self.fold}"


# ---- the store ------------------------------------------------------------------------------------------------------


def read_runs(store: Path) -> list[Run]:
    """All runs of a store, sorted by model and split; none if the file does not exist."""
    try:
        lines = store.read_text(encoding="utf-8").splitlines() if store.exists() else []
    except (ValueError, OSError) as error:
        raise _unusable(store, f"a file that cannot be read ({error})", RESTORE) from error
    return [_read_line(f"{store}, line {number}", line) for number, line in enumerate(lines, start=1)]


def add_run(store: Path, *new: Run) -> None:
    """Add finished runs atomically: a reader never sees some of them, or half of one."""
    with _locked(store):
        runs = [*read_runs(store), *new]
        runs.sort(key=lambda one: (one.model, one.fold, [*BASELINES].index(one.protocol.baseline)))
        lines = [_as_line(one) for one in runs]
        with atomic_write(store) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


def _as_line(run: Run) -> str:
    return json.dumps(run.model_dump(mode="json"), separators=(",", ":"), allow_nan=False) + "\n"


RESTORE = "restore the file from a copy, or move it"


def _read_line(place: str, line: str) -> Run:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise _unusable(place, f"text that cannot be read ({error})", RESTORE) from error
    if not isinstance(content, dict) or "version" not in content:
        raise _unusable(place, "something else", "move the file, or choose another folder")
    if content["version"] != VERSION:
        writer = content.get("versions", {}).get("dfstrans", "unknown")
        raise _unusable(
            place,
            f"one of version {content['version']}, expected {VERSION}",
            f"choose another folder, or use the version of dfstrans that wrote it ({writer})",
        )
    try:
        with settings_as_options(False):
            return Run(**content)
    except DfstransError as error:
        raise _unusable(place, f"a damaged one ({error})", RESTORE) from error


def check_run(store: Path, run: Run, key: RunKey, train_episodes: int) -> None:
    """Refuse a stored run that is not the one that the key describes."""
    for same, what in (
        (run.data.fingerprint == key.fingerprint, "other recordings (or the same ones, read in another way)"),
        (run.protocol.split == key.split, f"a {run.protocol.split} split"),
        (run.protocol.seed == key.seed, f"splits of seed {run.protocol.seed}"),
    ):
        if not same:
            raise _unusable(store, f"{key.label} of {what}", "choose another folder for this comparison")
    if run.parts != key.parts:
        raise _unusable(
            store, f"{key.label} of other parts (split by another version)", "choose another folder for this comparison"
        )
    check_settings(store, run, key.settings)
    if run.training.train_episodes != train_episodes:
        learned = f"{key.label} trained on {run.training.train_episodes} episodes instead of {train_episodes}"
        raise _unusable(store, learned, "choose another folder, or remove that line")


def is_of(run: Run, key: RunKey) -> bool:
    """Whether a run has the model, the split and the baseline of a key."""
    return (run.model, run.fold, run.protocol.baseline) == (key.model, key.fold, key.baseline)


def check_settings(store: Path, run: Run, wanted: Mapping[str, Any]) -> None:
    """Refuse a stored run of other settings."""
    changed = [
        f"{name}={run.settings.get(name)!r} instead of {value!r}"
        for name, value in wanted.items()
        if run.settings.get(name) != value
    ]
    if changed:
        what = f"{run.model}, split {run.fold} with {', '.join(changed)}"
        raise _unusable(store, what, "choose another folder for this comparison, or give these settings")


def require_some(place: Path, runs: Collection[Run]) -> None:
    """Refuse to show results where no run is finished."""
    if not runs:
        raise DfstransError(
            f"expected finished runs in {place}, got none; omit {option_name('finished', True)} to compute them, or "
            f"give the folder that has them ({option_name('out', ...)})"
        )


def _unusable(place: Path | str, what: str, remedy: str) -> DfstransError:
    return DfstransError(
        f"expected a run of this comparison at {place}, got {what}; {remedy} (nothing was overwritten)"
    )


# ---- the parts of each split ----------------------------------------------------------------------------------------


def parts_file(store: Path) -> Path:
    """The file beside the store with the ids of the training, validation and test part, one split per line."""
    return store.with_suffix(".parts.jsonl")


def digest_of(parts: Mapping[str, Collection[str]]) -> str:
    """A digest of the ids of the parts of a split."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def save_parts(store: Path, parts: Collection[Mapping[str, Collection[str]]]) -> None:
    """Write the ids of the parts of each split, unless the file has at least as many splits already."""
    path = parts_file(store)
    with _locked(store):
        if path.exists() and len(path.read_text(encoding="utf-8").splitlines()) >= len(parts):
            return
        with atomic_write(path) as temporary:
            temporary.write_text("".join(json.dumps(one) + "\n" for one in parts), encoding="utf-8")


# ---- unfinished runs ------------------------------------------------------------------------------------------------


def training_folder(store: Path, key: RunKey) -> Path:
    """Where the training of a run, with exactly these settings, saves its progress; baselines share a training."""
    trained = key.model_dump_json(exclude={"baseline"})
    return _folder_of(store, key) / f"{zlib.crc32(trained.encode()):08x}"


def unfinished_folders(store: Path, model: str, fold: int) -> list[Path]:
    """Where unfinished trainings of a model on a split, with any settings, save their progress."""
    return sorted((_partial_folder(store) / f"{model}_{fold}").glob("*/"))


@contextmanager
def claimed(store: Path, key: RunKey) -> Iterator[bool]:
    """Whether this process may compute the run: False while another process computes it.

    The operating system releases the claim however the process ends. The progress stays until the run is finished.
    """
    folder = _folder_of(store, key)
    lock = FileLock(folder / "lock")
    with _locked(store):
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(Timeout):
            lock.acquire(blocking=False)
    if not lock.is_locked:
        yield False
        return
    try:
        yield True
    finally:
        with _locked(store):
            if any(is_of(run, key) for run in read_runs(store)):
                shutil.rmtree(folder)
            lock.release()


def is_claimed(store: Path, key: RunKey) -> bool:
    """Whether another process computes the run right now."""
    if not _folder_of(store, key).exists():
        return False
    with claimed(store, key) as free:
        return not free


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Lock the store for this process; remove the folder of unfinished runs when it is empty."""
    folder = _partial_folder(store)
    lock = FileLock(folder / "lock")
    while not lock.is_locked:
        with explain_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except FileNotFoundError:  # another process has just removed the folder
            continue
    try:
        yield
    finally:
        if not any(path.is_dir() for path in folder.iterdir()):
            shutil.rmtree(folder)  # a FileLock that waits for a removed file does not acquire it
        lock.release()


def _folder_of(store: Path, key: RunKey) -> Path:
    return _partial_folder(store) / f"{key.model}_{key.fold}"


def _partial_folder(store: Path) -> Path:
    return store.with_suffix(".partial")


# ---- provenance of a run -------------------------------------------------------------------------------------------


def command_line(*words: str, options: Mapping[str, Any]) -> str:
    """A command with its options, with file names instead of paths.

    >>> command_line("dfstrans", "train", "my file.csv", options={"seed": 1, "sort_time": True, "drop": ("a", "b")})
    "dfstrans train 'my file.csv' --seed 1 --sort-time --drop a --drop b"
    >>> command_line("dfstrans", "compare", options={"sort_time": False, "seed": 0})
    'dfstrans compare --seed 0'
    """
    found = list(words)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, tuple | list) else [value]:
            if one is False:  # the same as without the option
                continue
            found += [flag] if one is True else [flag, one.name if isinstance(one, Path) else str(one)]
    return shlex.join(found)


def joined_commands(commands: Collection[str]) -> list[str]:
    """One command for all models that had the same settings, instead of one per run.

    >>> joined_commands(["compare a --models x --folds 3", "compare a --models y --folds 5"])
    ['compare a --models x,y --folds 5']
    """
    alike: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for command in dict.fromkeys(commands):
        before, model, folds, after = re.split(r"--models (\S+) --folds (\d+)", command, maxsplit=1)
        alike.setdefault((before, after), []).append((model, int(folds)))
    joined = []
    for (before, after), asked in alike.items():
        models, folds = zip(*asked, strict=True)
        joined.append(f"{before}--models {','.join(dict.fromkeys(models))} --folds {max(folds)}{after}")
    return joined


def data_name(data: Path) -> str:
    """The name of a file or folder of recordings, also if it is `.` or `..`.

    >>> data_name(Path("machines/press.csv")), data_name(Path("/machines/press/.."))
    ('press.csv', 'machines')
    """
    return data.resolve().name if data.name in ("", "..") else data.name  # otherwise a link keeps its own name


def as_recorded(values: dict[str, Any]) -> dict[str, Any]:
    """The values as JSON returns them, with file names instead of paths."""
    return dict(json.loads(json.dumps(values, default=lambda value: Path(value).name)))


def circumstances() -> dict[str, Any]:
    """The commit, the library versions and the number of threads."""
    return {"commit": commit(), "versions": library_versions(), "threads": torch.get_num_threads()}


def commit() -> str | None:
    """The commit of the checkout with this code, with a + if files have changed; None for an installed copy."""
    source = Path(__file__).resolve().parent
    if _git(source, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None  # an installed copy may lie inside another project's checkout
    name = _git(source, "rev-parse", "--short", "HEAD")
    changed = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ":/src")
    return None if name is None else name + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
