"""A queue of experiments: which runs are wanted, which are finished, and how to compute the others one by one.

Runs are those of `compare` and `reproduce`, in the same stores: a killed run resumes at its epoch, and a finished one
appears in the tables.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from filelock import FileLock, Timeout
from pydantic import Field

from dfstrans.errors import DfstransError, option_name, settings_as_options
from dfstrans.files import explain_disk_errors
from dfstrans.lab.compare.grid import Comparison, Grid, RunOutcome, limited
from dfstrans.lab.compare.protocols import PROTOCOLS, ProtocolName
from dfstrans.lab.compare.runs import Run, RunKey, read_runs, unfinished_folders
from dfstrans.lab.compare.variants import CHANGE, check_models, check_names
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.request import DATA_SETS, recordings_of, simulate_elevator, store_path
from dfstrans.lab.paper.tables import finished_runs
from dfstrans.settings import Settings
from dfstrans.training.run_folder import Epochs, epochs_of

# ---- what is wanted -------------------------------------------------------------------------------------------------

ENTRIES = "runs"  # [[runs]] in the file


class Entry(Settings):
    """Models on the same splits of some data sets; `settings` are changed in all these models."""

    data: tuple[str, ...]
    protocols: tuple[ProtocolName, ...]
    models: tuple[str, ...]
    splits: tuple[Annotated[int, Field(ge=0)], ...]
    settings: dict[str, str | int | float] = Field(default_factory=dict)
    preset: Preset = "small"  # of the simulated elevator

    def wanted(self) -> Iterator[Wanted]:
        """The runs, split by split, so that models can be compared before all splits are finished."""
        changes = "".join(f"{CHANGE}{name}={value}" for name, value in self.settings.items())
        models = check_models([f"{model}{changes}" for model in self.models])
        check_names("data", self.data, DATA_SETS)
        for split in self.splits:
            for data in self.data:
                for protocol in self.protocols:
                    for model in models:
                        yield Wanted(data, protocol, self.preset, model, split)


class Wanted(NamedTuple):
    """One model on one split of a data set."""

    data: str
    protocol: ProtocolName
    preset: Preset
    model: str
    split: int

    @property
    def place(self) -> str:
        """The name of the store with the finished run."""
        return self.store(Path()).stem

    @property
    def label(self) -> str:
        """The name of the run, for people."""
        return f"{self.place}: {self.model}, split {self.split}"

    @property
    def alike(self) -> tuple[str, str, Preset, bool]:
        """What has about the same duration: the model on the same recordings."""
        return self.model, self.data, self.preset, PROTOCOLS[self.protocol].overlapping

    def store(self, out: Path) -> Path:
        """The file of the finished runs."""
        return store_path(out, self.data, self.protocol, self.preset)


def read_queue(path: Path) -> list[Wanted]:
    """The runs that a file lists, the most informative first; unknown and repeated ones are refused."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DfstransError(
            f"expected a queue of experiments at {path}, got none ({error}); correct the file"
        ) from error
    entries = content.get(ENTRIES)
    if set(content) != {ENTRIES} or not isinstance(entries, list):
        got = ", ".join(content) or "nothing"
        raise DfstransError(f"expected a queue of [[{ENTRIES}]] in {path}, got {got}; correct the file")
    queue: dict[tuple[str, str, int], Wanted] = {}
    for number, entry in enumerate(entries, start=1):
        try:
            with settings_as_options(False):
                found = list(Entry(**entry).wanted())
        except DfstransError as error:
            raise DfstransError(f"entry {number} of {path}: {error}") from None
        for run in found:
            key = run.place, run.model, run.split
            if key in queue:
                raise DfstransError(
                    f"entry {number} of {path}: expected each run once, got {run.label} twice; keep one"
                )
            queue[key] = run
    return list(queue.values())


# ---- what is there --------------------------------------------------------------------------------------------------


def finished(queue: Iterable[Wanted], out: Path) -> dict[Wanted, Run]:
    """The finished runs of the queue; results of another version, settings or recordings are refused."""
    found: dict[Wanted, Run] = {}
    stores: dict[Path, list[Wanted]] = {}
    for run in queue:
        stores.setdefault(run.store(out), []).append(run)
    for store, wanted in stores.items():
        models = list(dict.fromkeys(run.model for run in wanted))
        folds = 1 + max(run.split for run in wanted)
        there = {(run.model, run.fold): run for run in finished_runs(store, models, folds, {})}
        found |= {run: there[run.model, run.split] for run in wanted if (run.model, run.split) in there}
    return found


class Progress(NamedTuple):
    """The finished runs of a queue, the epochs of those that were begun, and the estimated seconds of the others."""

    finished: dict[Wanted, Run]
    begun: dict[Wanted, Epochs]
    left: dict[Wanted, float | None]  # None: unknown

    @property
    def seconds(self) -> float:
        """The seconds of all runs whose duration is known."""
        return sum(seconds or 0.0 for seconds in self.left.values())

    @property
    def unknown(self) -> int:
        """The number of runs of unknown duration."""
        return sum(seconds is None for seconds in self.left.values())


def progress_of(queue: Sequence[Wanted], out: Path) -> Progress:
    """How far a queue is; a run takes as long as its model on other splits of the same recordings."""
    there = finished(queue, out)
    took: dict[Any, list[float]] = {}
    for wanted, run in there.items():
        took.setdefault(wanted.alike, []).append(run.training.seconds)
    waiting = [wanted for wanted in queue if wanted not in there]
    begun: dict[Wanted, Epochs] = {}
    for wanted in waiting:
        for folder in unfinished_folders(wanted.store(out), wanted.model, wanted.split):
            if (epochs := epochs_of(folder)) is not None and epochs.done:
                begun[wanted] = epochs
                took.setdefault(wanted.alike, [epochs.seconds / epochs.done * epochs.of])
    left: dict[Wanted, float | None] = {}
    for wanted in waiting:
        known = took.get(wanted.alike)
        spent = begun[wanted].seconds if wanted in begun else 0.0
        left[wanted] = None if known is None else max(sum(known) / len(known) - spent, 0.0)
    return Progress(there, begun, left)


# ---- computing the rest ---------------------------------------------------------------------------------------------


def compute_queue(
    queue: Sequence[Wanted],
    out: Path,
    data: Path,
    begin: Callable[[Wanted], None] = lambda _: None,
    end: Callable[[Wanted, RunOutcome], None] = lambda *_: None,
) -> dict[str, str]:
    """Compute the runs that are not finished, in this process and one thread; error messages by run.

    A failed run does not stop the others, but a full disk does. A run that another command computes is left to it.
    """
    failed: dict[str, str] = {}
    with _only_queue(out):
        there = finished(queue, out)  # refuses unusable results before hours of training
        waiting = [run for run in queue if run not in there]
        for run in waiting:
            recordings_of(run.data, run.protocol, data, run.preset)  # refuses missing data
        for run in waiting:
            begin(run)
            outcome = _attempt(run, out, data)
            end(run, outcome)
            if isinstance(outcome, DfstransError):
                failed[run.label] = str(outcome)
    return failed


def _attempt(wanted: Wanted, out: Path, data: Path) -> RunOutcome:
    """Compute and store a run; an error of the disk, which would stop the others as well, is raised."""
    recordings = recordings_of(wanted.data, wanted.protocol, data, wanted.preset)
    folds, split = wanted.split + 1, PROTOCOLS[wanted.protocol].split
    try:
        with limited(1):
            if DATA_SETS[wanted.data].folder is None:
                simulate_elevator(recordings.path, wanted.preset)
            asked = Comparison(recordings.path, wanted.store(out), (wanted.model,), folds, split, recordings.read)
            grid = Grid(asked)
            key = grid.keys[-1]
            _refuse_other_results(asked.store, key)
            outcome = grid.attempt(key)
    except DfstransError as error:
        outcome = error
    except OSError:
        raise
    except Exception as error:  # a defect in one model must not stop days of other work
        outcome = DfstransError(f"internal error ({type(error).__name__}: {error})")
    if isinstance(outcome, DfstransError) and isinstance(outcome.__cause__, OSError):
        raise outcome
    return outcome


def _refuse_other_results(store: Path, key: RunKey) -> None:
    """Refuse to add a run to those, of any model, on other recordings or on other parts of the same split."""
    for run in read_runs(store):
        if run.data.fingerprint != key.fingerprint or (run.fold == key.fold and run.parts != key.parts):
            raise DfstransError(
                f"expected only runs on the same recordings and splits in {store}, got {run.model}, split {run.fold} "
                "on others (perhaps split by another version); move that file or choose another folder (nothing was "
                "overwritten)"
            )


@contextmanager
def _only_queue(out: Path) -> Iterator[None]:
    """Refuse a second queue of the same results; the operating system ends the claim with the process."""
    lock = FileLock(out / ".queue.lock")
    with explain_disk_errors(out, "nothing was computed"):
        out.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise DfstransError(
                f"expected no other queue at work on {out}, got one; let it finish, stop it, or choose another folder "
                f"({option_name('out', ...)})"
            ) from None
    try:
        yield
    finally:
        lock.release()
