"""The cells of a comparison: which there are, which are finished, and how the others are computed.

Several processes may work on one folder of results side by side: each claims the cell that it works on.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any, Literal

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.splits import SplitKind
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.saved_model import library_versions
from dfstrans.errors import DfstransError, settings_as_options
from dfstrans.lab.compare.commands import command_line, data_name
from dfstrans.lab.compare.protocols import protocol_name, splits_of
from dfstrans.lab.compare.runs import (
    Cell,
    CellKey,
    DataRecord,
    Figures,
    ProtocolRecord,
    TrainingRecord,
    as_recorded,
    cell_path,
    claimed,
    commit,
    partial_folder,
    read_matching_cell,
    write_cell,
)
from dfstrans.lab.compare.variants import (
    check_models,
    check_overrides,
    detector_for,
    former_settings,
    recorded_settings,
)
from dfstrans.settings import command_options
from dfstrans.training.evaluation import evaluate_probabilities

POLL_SECONDS = 2.0  # how often to look whether another process has finished its cell


@dataclass(frozen=True)
class Comparison:
    """Which models to compare on which recordings, and how."""

    data: Path
    out: Path
    models: tuple[str, ...]
    folds: int = 5
    split: SplitKind = "random"
    read: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)  # settings of every model that has them
    at_most: int | None = None  # episodes; for a quick look

    def __post_init__(self) -> None:
        check_models(self.models)
        check_overrides(self.models, self.overrides)

    @property
    def seed(self) -> int:
        """Of the splits and of the training."""
        return int(self.overrides.get("seed", 0))

    def command(self, model: str) -> str:
        """What gives the cells of one model, wherever the recordings are."""
        options = {"models": model, "folds": self.folds, "split": self.split, **self.read}
        options |= command_options(self.overrides)
        return command_line("dfstrans", "compare", data_name(self.data), "--out", "RESULTS", options=options)


class Grid:
    """The cells of a comparison, fold by fold, so that the models can be compared before all folds are there."""

    def __init__(self, comparison: Comparison, episodes: Episodes | None = None) -> None:
        self.comparison = comparison
        self.commit = commit()  # of the code that was loaded; a later one may be there when a cell is done
        all_of_them = load(comparison) if episodes is None else episodes
        self.episodes = some_of(all_of_them, comparison.at_most, comparison.seed)
        self.splits = splits_of(self.episodes, comparison.split, comparison.folds, comparison.seed)
        for model in comparison.models:  # refuses what it cannot take, before hours are spent
            detector_for(model, comparison.overrides, self.episodes).training_settings(len(self.episodes))
        settings = {model: recorded_settings(model, comparison.overrides) for model in comparison.models}
        self.keys = [
            CellKey(
                model=model,
                fold=fold,
                split=comparison.split,
                seed=comparison.seed,
                fingerprint=self.episodes.fingerprint(),
                settings=settings[model],
            )
            for fold in range(comparison.folds)
            for model in comparison.models
        ]
        self.finished()  # what does not belong here is told of before anything is computed

    def path(self, key: CellKey) -> Path:
        """Where a cell is, or will be."""
        return cell_path(self.comparison.out, key.model, key.fold)

    def run_folder(self, key: CellKey) -> Path:
        """Where the training of a cell, with these very settings, keeps its progress."""
        return partial_folder(self.path(key)) / f"{zlib.crc32(key.model_dump_json().encode()):08x}"

    def finished(self) -> list[Cell]:
        """The cells that are there."""
        return [
            read_matching_cell(path, key, len(self.splits[key.fold][0]), former_settings(key.model))
            for key in self.keys
            if (path := self.path(key)).exists()
        ]

    def beyond(self) -> list[str]:
        """The models, and the splits of the compared ones, that the folder has beyond those of this comparison."""
        asked_for = {self.path(key) for key in self.keys}
        others = [path for path in sorted(self.comparison.out.glob("*/fold_*.json")) if path not in asked_for]
        names = [(path.parent.name, path.stem.replace("fold_", "split ")) for path in others]
        models = self.comparison.models
        return list(dict.fromkeys(f"{model}, {split}" if model in models else model for model, split in names))

    def work(
        self,
        tell: Callable[[Cell | DfstransError, CellKey], None] = lambda *_: None,
        given_up: MutableSequence[int] | None = None,
        begin: Callable[[CellKey], None] = lambda _: None,
    ) -> dict[str, str]:
        """Compute every cell that nobody has computed or is computing; then wait for those that others compute.

        `begin` hears of each cell that is begun here, `tell` of each that was computed. Gives what went wrong here, by
        cell; the others are computed nevertheless. `given_up` has a 1 for each of `keys` that went wrong: processes of
        one run share it, so that none tries again what another has tried.
        """
        failed: dict[str, str] = {}
        given_up = [0] * len(self.keys) if given_up is None else given_up
        for path in map(self.path, self.keys):
            if path.exists() and partial_folder(path).exists():  # left by a process that was killed between the two
                with claimed(path):
                    pass
        while waiting := [n for n, key in enumerate(self.keys) if not given_up[n] and not self.path(key).exists()]:
            busy = True
            for n in waiting:
                key = self.keys[n]
                with claimed(self.path(key)) as partial:
                    if partial is None or given_up[n] or self.path(key).exists():
                        continue
                    busy = False
                    begin(key)
                    try:
                        cell = self.compute(key)
                    except DfstransError as error:
                        given_up[n] = 1  # before the claim ends
                        failed[key.label] = str(error)
                        tell(error, key)
                    else:
                        write_cell(self.path(key), cell)
                        tell(cell, key)
            if busy:
                time.sleep(POLL_SECONDS)
        return failed

    def compute(self, key: CellKey) -> Cell:
        """Train a model on one split, settle it on the second part, test it on the third."""
        from dfstrans.training.run_folder import checkpoint_is_whole

        train, validation, test = self.parts(key.fold)
        detector = detector_for(key.model, self.comparison.overrides, self.episodes)
        run = self.run_folder(key)
        began = time.perf_counter()
        detector.fit(train, validation=validation, run_folder=run, resume=checkpoint_is_whole(run))
        seconds = time.perf_counter() - began
        on_test, on_test_at_half = _figures(detector, test)
        on_validation, on_validation_at_half = _figures(detector, validation)
        return Cell(
            model=key.model,
            fold=key.fold,
            data=self._data_record(),
            protocol=ProtocolRecord(
                name=protocol_name(self.comparison.read, key.split),
                split=key.split,
                seed=key.seed,
                at_most=self.comparison.at_most,
            ),
            settings=key.settings,
            training=_training_record(detector, len(train), seconds),
            test=on_test,
            test_at_half=on_test_at_half,
            validation=on_validation,
            validation_at_half=on_validation_at_half,
            command=self.comparison.command(key.model),
            commit=self.commit,
            versions=library_versions(),
        )

    def parts(self, fold: int) -> Iterator[Episodes]:
        """The training, validation and test part of a split."""
        return (self.episodes[rows] for rows in self.splits[fold])

    def _data_record(self) -> DataRecord:
        return DataRecord(
            name=data_name(self.comparison.data),
            read=as_recorded(self.comparison.read),
            fingerprint=self.episodes.fingerprint(),
            episodes=len(self.episodes),
            anomalous=self.episodes.n_anomalous,
            sensors=self.episodes.n_sensors,
            longest=int(self.episodes.lengths.max()),
        )


def load(comparison: Comparison) -> Episodes:
    """The recordings of a comparison."""
    return load_episodes(comparison.data, **comparison.read)


def some_of(episodes: Episodes, at_most: int | None, seed: int) -> Episodes:
    """All episodes, or as many as are wanted, with the classes as even as they come."""
    if at_most is None or len(episodes) <= at_most:
        return episodes
    rng, labels = np.random.default_rng(seed), episodes.require_labels()
    half = at_most // 2
    anomalous, normal = (rng.permutation(np.flatnonzero(labels == label)) for label in (1, 0))
    n_anomalous = max(min(len(anomalous), half), at_most - len(normal))
    return episodes[np.sort(np.concatenate([anomalous[:n_anomalous], normal[: at_most - n_anomalous]]))]


def _figures(detector: EpisodeClassifier, part: Episodes) -> tuple[Figures, Figures]:
    """At the chosen threshold, and at 0.5."""
    labels, probabilities = part.require_labels(), detector.predict_proba(part)[:, 1]
    chosen, half = (evaluate_probabilities(labels, probabilities, at) for at in (detector.decision_threshold, 0.5))
    return chosen.to_dict(), half.to_dict()


def _training_record(detector: EpisodeClassifier, train_episodes: int, seconds: float) -> TrainingRecord:
    import torch

    epochs = [row["seconds"] for row in detector.log_]  # also those before an interruption
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
    """What a network was trained in on this processor."""
    from dfstrans.model.detector import uses_bf16

    chosen = getattr(detector.training_settings_, "precision", None)
    return None if chosen is None else ("bf16" if uses_bf16(chosen) else "32")


Tell = Callable[[Cell | DfstransError, CellKey], None]
Begin = Callable[[CellKey], None]


def run(grid: Grid, tell: Tell, begin: Begin, jobs: int = 1, threads: int | None = None) -> dict[str, str]:
    """Compute all cells that are not there, in `jobs` processes of `threads` threads each; what went wrong, by cell.

    `begin` hears of each cell that is begun, `tell` of each that was computed. Without `threads` each process takes
    its share of those that torch would use.
    """
    import torch

    each = threads or max(1, torch.get_num_threads() // jobs)
    if jobs == 1:
        with limited(each):
            return grid.work(tell, begin=begin)
    spawning = multiprocessing.get_context("spawn")
    told: Any = spawning.Queue()
    given_up = spawning.Array("b", len(grid.keys), lock=False)
    arguments = (grid.comparison, each, told, given_up)
    workers = [spawning.Process(target=_work, args=arguments, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    failed: dict[str, str] = {}
    ended: list[BaseException | None] = []
    try:
        while len(ended) < jobs:
            try:
                what, key = told.get(timeout=1.0)
            except Empty:
                died = [worker for worker in workers if worker.exitcode not in (None, 0)]
                if died:
                    raise DfstransError(
                        f"expected {jobs} processes to work to the end, but one ended with code {died[0].exitcode} "
                        "(perhaps memory ran out); run it with fewer jobs: finished cells are kept"
                    ) from None
                continue
            if key is None:
                ended.append(what)
            elif what is None:
                begin(key)
            else:
                if isinstance(what, DfstransError):
                    failed[key.label] = str(what)
                tell(what, key)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    for error in ended:
        if error is not None:
            raise error
    return failed


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Arithmetic within the block uses so many threads."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _work(comparison: Comparison, threads: int, told: Any, given_up: MutableSequence[int]) -> None:
    """What a process of its own does; it ends when the one that started it has."""
    parent = multiprocessing.parent_process()

    def tell(what: Cell | DfstransError | None, key: CellKey) -> None:
        if parent is not None and not parent.is_alive():
            os._exit(1)
        told.put((what, key))

    try:
        with settings_as_options(), limited(threads):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the parent has read the same, and said it
                grid = Grid(comparison)
            grid.work(tell, given_up, begin=lambda key: tell(None, key))
        told.put((None, None))
    except BaseException as error:
        told.put((error, None))
