"""The runs of a comparison: which exist, which are finished, and how to compute the others."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor  # unlike the standard one, it can kill its workers
from threadpoolctl import threadpool_limits

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.readers.public import commissioning_folder
from dfstrans.data.splits import SplitKind
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.saved_model import library_versions
from dfstrans.errors import DfstransError, counted, option_name, settings_as_options
from dfstrans.lab.compare import LEAKAGE
from dfstrans.lab.compare.leakage import is_leakage_check
from dfstrans.lab.compare.protocols import (
    BaselineName,
    baselines_for,
    check_baseline,
    known_and_evaluated,
    part_ids,
    protocol_name,
    recordings_on_both_sides,
    splits_of,
)
from dfstrans.lab.compare.runs import (
    AT_HALF,
    ON_VALIDATION,
    EpisodesRecord,
    MachinesRecord,
    Metrics,
    ProtocolRecord,
    Run,
    RunKey,
    TrainingRecord,
    add_run,
    as_recorded,
    check_run,
    claimed,
    command_line,
    commit,
    data_name,
    digest_of,
    is_claimed,
    is_of,
    read_runs,
    save_parts,
    training_folder,
)
from dfstrans.lab.compare.variants import check_models, check_overrides, detector_for, recorded_settings
from dfstrans.model.detector import uses_bf16
from dfstrans.settings import command_options
from dfstrans.training.evaluation import evaluate_probabilities
from dfstrans.training.run_folder import checkpoint_is_whole

POLL_SECONDS = 2.0  # between checks whether another process has finished its run


@dataclass(frozen=True)
class Comparison:
    """Which models to compare on which recordings, and how; `store` is the file of the finished runs."""

    data: Path
    store: Path
    models: tuple[str, ...]
    folds: int = 5
    split: SplitKind = "random"
    read: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)  # settings for every model that has them
    at_most: int | None = None  # number of episodes in a quick look
    baseline: BaselineName = "none"  # what is known of the machines of the test part, with a grouped split

    def __post_init__(self) -> None:
        check_baseline(self.data, self.split, self.baseline)
        check_models(self.models)
        check_overrides(self.models, self.overrides)

    @property
    def seed(self) -> int:
        """The seed of the splits and of the training."""
        return int(self.overrides.get("seed", 0))

    def command(self, model: str, baseline: BaselineName = "none") -> str:
        """The command that computes the runs of one model and shows those with a baseline."""
        options = {"models": model, "folds": self.folds, "split": self.split}
        options |= ({} if baseline == "none" else {"baseline": baseline}) | self.read
        options |= command_options(self.overrides)
        return command_line("dfstrans", "compare", data_name(self.data), "--out", "RESULTS", options=options)


class Grid:
    """The runs of a comparison, split by split, so that models can be compared before all splits are finished."""

    def __init__(self, comparison: Comparison, episodes: Episodes | None = None) -> None:
        self.comparison = comparison
        self.commit = commit()  # of the loaded code; the checkout may change before a run is finished
        loaded = load_episodes(comparison.data, **comparison.read) if episodes is None else episodes
        self.episodes = some_of(loaded, comparison.at_most, comparison.seed)
        self.splits = splits_of(self.episodes, comparison.split, comparison.folds, comparison.seed)
        self.parts = [part_ids(self.episodes, split) for split in self.splits]
        for model in comparison.models:  # refuses impossible settings before hours of training
            detector_for(model, comparison.overrides, self.episodes).training_settings(len(self.episodes))
        settings = {model: recorded_settings(model, comparison.overrides) for model in comparison.models}
        self.keys = [
            RunKey(
                model=model,
                fold=fold,
                split=comparison.split,
                seed=comparison.seed,
                fingerprint=self.episodes.fingerprint(),
                settings=settings[model],
                parts=digest_of(self.parts[fold]),
                baseline=comparison.baseline,
            )
            for fold in range(comparison.folds)
            for model in comparison.models
        ]
        self.finished()  # refuses runs of another comparison before anything is computed

    @cached_property
    def published(self) -> Episodes:
        """The normal recordings of the machines that the data set publishes, read as the others are."""
        folder = commissioning_folder(self.comparison.data)
        assert folder is not None  # as checked by the comparison
        return load_episodes(folder, **self.comparison.read)

    def finished(self) -> list[Run]:
        """The runs of this comparison that are in the store."""
        stored, found = read_runs(self.comparison.store), []
        for key in self.keys:
            for run in stored:
                if is_of(run, key):
                    check_run(self.comparison.store, run, key, len(self.splits[key.fold][0]))
                    found.append(run)
        return found

    def waiting(self) -> list[RunKey]:
        """The runs that are not finished."""
        there = {(run.model, run.fold) for run in self.finished()}
        return [key for key in self.keys if (key.model, key.fold) not in there]

    def beyond(self) -> list[str]:
        """The models, and the splits of the compared models, that the store has beyond this comparison."""
        models, folds = self.comparison.models, self.comparison.folds
        names = [
            f"{run.model}, split {run.fold}" if run.model in models else run.model
            for run in read_runs(self.comparison.store)
            if run.model not in models or run.fold >= folds
        ]
        return list(dict.fromkeys(names))

    def leakage_warning(self) -> str | None:
        """A warning if recordings are in several parts of a split and the leakage check is not compared."""
        shared = recordings_on_both_sides(self.episodes, self.splits)
        if not shared or any(map(is_leakage_check, self.comparison.models)):
            return None
        return (
            f"pieces of {counted(shared, 'recording')} are in both the training and the test part of a split, so "
            f"scores may be too high; add {LEAKAGE} to {option_name('models')} to measure how much of a score is data "
            f"leakage, or use {option_name('split', 'grouped')} to prevent it"
        )

    def training_folder(self, key: RunKey) -> Path:
        """Where the training of a run saves its progress."""
        return training_folder(self.comparison.store, key)

    def attempt(self, key: RunKey) -> Run | DfstransError | None:
        """Compute and store a run; return the error if it fails, None if another process computes it."""
        with claimed(self.comparison.store, key) as free:
            if not free or key not in self.waiting():
                return None
            save_parts(self.comparison.store, self.parts)
            try:
                runs = self.compute(key)
            except DfstransError as error:
                return error
            add_run(self.comparison.store, *runs)
            return runs[0]

    def compute(self, key: RunKey) -> list[Run]:
        """Train a model on the first part of a split, calibrate it on the second, test it on the third.

        The first run is that of the key; with a grouped split, those with other baselines follow unless they are there.
        """
        train, validation, test = (self.episodes[rows] for rows in self.splits[key.fold])
        detector = detector_for(key.model, self.comparison.overrides, self.episodes)
        folder = self.training_folder(key)
        began = time.perf_counter()
        detector.fit(train, validation=validation, run_folder=folder, resume=checkpoint_is_whole(folder))
        seconds = time.perf_counter() - began
        on_validation, _ = _metrics(detector, validation)
        training = _training_record(detector, len(train), seconds)
        found = []
        for wanted in self._judged_with(key):
            known, evaluated = known_and_evaluated(test, wanted.baseline)
            recordings = self.published if wanted.baseline == "published" else test[known]
            knowing = detector.with_own_baselines(recordings) if len(recordings) else detector
            on_test, at_half = _metrics(knowing, test[evaluated])
            run = Run(
                model=key.model,
                fold=key.fold,
                data=self.data_record(),
                protocol=ProtocolRecord(
                    name=protocol_name(self.comparison.read, key.split),
                    split=key.split,
                    seed=key.seed,
                    at_most=self.comparison.at_most,
                    baseline=wanted.baseline,
                ),
                settings=key.settings,
                parts=key.parts,
                machines=_machines_record(knowing, test[evaluated]),
                training=training,
                test=on_test,
                test_at_half={name: at_half[name] for name in AT_HALF},
                validation={name: on_validation[name] for name in ON_VALIDATION},
                command=self.comparison.command(key.model, wanted.baseline),
                commit=self.commit,
                versions=library_versions(),
            )
            found.append(run)
        return found

    def _judged_with(self, key: RunKey) -> list[RunKey]:
        """The key, and with a grouped split the same training with each other baseline that is not finished."""
        stored = read_runs(self.comparison.store)
        others = [key.model_copy(update={"baseline": name}) for name in baselines_for(self.comparison.data, key.split)]
        return [key, *(one for one in others if one != key and not any(is_of(run, one) for run in stored))]

    def data_record(self) -> EpisodesRecord:
        """The episodes of the comparison."""
        return EpisodesRecord(
            name=data_name(self.comparison.data),
            read=as_recorded(self.comparison.read),
            fingerprint=self.episodes.fingerprint(),
            episodes=len(self.episodes),
            anomalous=self.episodes.n_anomalous,
            sensors=self.episodes.n_sensors,
            longest=int(self.episodes.lengths.max()),
        )


def some_of(episodes: Episodes, at_most: int | None, seed: int) -> Episodes:
    """At most `at_most` episodes (all if None), with the classes as balanced as possible."""
    if at_most is None or len(episodes) <= at_most:
        return episodes
    rng, labels = np.random.default_rng(seed), episodes.require_labels()
    half = at_most // 2
    anomalous, normal = (rng.permutation(np.flatnonzero(labels == label)) for label in (1, 0))
    n_anomalous = max(min(len(anomalous), half), at_most - len(normal))
    return episodes[np.sort(np.concatenate([anomalous[:n_anomalous], normal[: at_most - n_anomalous]]))]


def _metrics(detector: EpisodeClassifier, part: Episodes) -> tuple[Metrics, Metrics]:
    """The metrics of a detector on a part: at its own threshold, and at 0.5."""
    labels, probabilities = part.require_labels(), detector.predict_proba(part)[:, 1]
    chosen, half = (evaluate_probabilities(labels, probabilities, at) for at in (detector.decision_threshold, 0.5))
    return chosen.to_dict(), half.to_dict()


def _machines_record(detector: EpisodeClassifier, evaluated: Episodes) -> MachinesRecord | None:
    if evaluated.groups is None:
        return None
    machines = len(np.unique(evaluated.groups))
    return MachinesRecord(evaluated=machines, compared=machines - len(detector.machines_without_baseline(evaluated)))


def _training_record(detector: EpisodeClassifier, train_episodes: int, seconds: float) -> TrainingRecord:
    epochs = [row["seconds"] for row in detector.log_]  # including those before an interruption
    return TrainingRecord(
        train_episodes=train_episodes,
        parameters=detector.n_parameters_,
        epochs=len(epochs) or None,
        best_epoch=detector.best_epoch_,
        seconds_per_epoch=float(np.median(epochs)) if epochs else None,
        seconds=max(seconds, float(np.sum(epochs))),
        threads=torch.get_num_threads(),
        precision=_precision(detector),
    )


def _precision(detector: EpisodeClassifier) -> Literal["32", "bf16"] | None:
    """The precision that a network was trained in on this processor."""
    chosen = getattr(detector.training_settings_, "precision", None)
    return None if chosen is None else ("bf16" if uses_bf16(chosen) else "32")


# ---- computing all runs ---------------------------------------------------------------------------------------------

RunOutcome = Run | DfstransError | None  # None: another command has computed the run
Begin = Callable[[RunKey], None]
End = Callable[[RunOutcome, RunKey], None]


def compute_runs(
    grid: Grid,
    begin: Begin = lambda _: None,
    end: End = lambda *_: None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Executor | None = None,
) -> dict[str, str]:
    """Compute all runs that are not finished, in `jobs` processes of `threads` threads each; error messages by run.

    The processes are on this computer, or those of a `cluster` that shares the recordings and the store.

    `begin` is called for each run that starts, `end` for each that ends. A failed run does not stop the others. Runs
    that other commands compute are waited for. Without `threads`, the processes share those that torch would use.
    """
    failed: dict[str, str] = {}
    each = threads or max(1, torch.get_num_threads() // jobs)
    for key in grid.keys:
        is_claimed(grid.comparison.store, key)  # removes leftovers of killed processes
    while waiting := [key for key in grid.waiting() if key.label not in failed]:
        free = [key for key in waiting if not is_claimed(grid.comparison.store, key)]
        for key, outcome in _attempts(grid, free, begin, jobs, each, cluster):
            end(outcome, key)
            if isinstance(outcome, Run) and key in grid.waiting():
                raise DfstransError(
                    f"expected the results of {key.label} in {grid.comparison.store}, got none there from its worker; "
                    "choose a folder that all workers share"
                )
            if isinstance(outcome, DfstransError):
                failed[key.label] = str(outcome)
        if not free:
            time.sleep(POLL_SECONDS)
    return failed


def _attempts(
    grid: Grid, keys: Sequence[RunKey], begin: Begin, jobs: int, threads: int, cluster: Executor | None
) -> Iterator[tuple[RunKey, RunOutcome]]:
    """Compute runs in this process or in several; yield each when it ends."""
    if jobs == 1 and cluster is None:
        with limited(threads):
            for key in keys:
                begin(key)
                yield key, grid.attempt(key)
        return

    own = ProcessPoolExecutor(jobs) if cluster is None else None
    pool: Any = cluster or own
    comparison, left = pickle.dumps(grid.comparison), list(keys)
    running: dict[Future[RunOutcome], RunKey] = {}
    try:
        while left or running:
            while left and len(running) < jobs:
                key = left.pop(0)
                begin(key)
                running[pool.submit(_attempt, comparison, key, threads)] = key
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise DfstransError(
            f"expected {jobs} processes to finish, but one was terminated (perhaps memory ran out); use "
            "fewer jobs: finished runs are kept"
        ) from error
    finally:
        if own is not None:
            own.shutdown(kill_workers=True)
        for future in running:  # on a cluster, what has begun is finished and kept
            future.cancel()


def _attempt(comparison: bytes, key: RunKey, threads: int) -> RunOutcome:
    """Compute a run in a worker process."""
    with settings_as_options(), limited(threads):
        return _grid_of(comparison).attempt(key)


@lru_cache(maxsize=1)
def _grid_of(comparison: bytes) -> Grid:
    """The grid of a pickled comparison: a worker reads the recordings once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the main process reads the same recordings and shows the warnings
        return Grid(pickle.loads(comparison))


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit torch, BLAS and OpenMP to this number of threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
