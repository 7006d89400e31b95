"""Scoring with Dask: pieces are handed to workers a few at a time, and the workers write the results."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import dask
import pyarrow.compute as pc
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import CancelledError, Client, KilledWorker, LocalCluster, WorkerPlugin, as_completed, get_worker

from dfstrans.errors import DfstransError, list_few, option_name
from dfstrans.progress import Progress
from dfstrans.scale.results import Counts, Part, ResultsFolder, finished
from dfstrans.scale.scoring import Engine, InRange, Scorer
from dfstrans.scale.sources import Source

AHEAD = 3  # pieces in flight for each thread of a worker: one is scored, the others wait for it
MEMORY_OF_CONTENT = 0.6  # share of a worker's memory; the rest is for libraries, model and results
REJECTS_SHOWN = 5
# Dask makes workers return freed memory at once; then every large array is cleared anew, which doubles the time
KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 128 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}  # bytes
SECONDS_TO_CONNECT = 15
SECONDS_FOR_WORKERS = 60  # those of a new cluster may still be starting
_SECONDS_TO_RECOUNT = 5.0  # workers may come and go
_PACKAGES = {"torch": ("torch", "scikit-learn"), "onnx": ("onnxruntime",)}
_ALWAYS = ("dfstrans", "numpy", "pandas", "pyarrow", "dask", "distributed")


class Summary(NamedTuple):
    """The outcome of a run; what an earlier run has finished is included in the counts, but in nothing else."""

    counts: Counts
    earlier: int  # pieces that were finished before
    pieces: int
    rows: int
    anomalous: int
    machines: frozenset[str]
    rejects: list[str]  # the first ones, with their reasons
    repeated: int  # recordings with the machine and the id of one in another file
    messages: Counter[str]  # files by note or warning
    in_range: InRange
    seconds: float


class _Done(NamedTuple):
    """What the client needs to know of a finished piece."""

    parts: list[Part]
    anomalous: int
    recordings: list[bytes]  # digests of machine and id
    rejects: list[str]
    machines: set[str]
    messages: list[str]
    in_range: InRange = InRange()


def score_fleet(
    sources: Sequence[Source], scorer: Scorer, results: ResultsFolder, client: Client, progress: Progress
) -> Summary:
    """Score the sources that are not finished in the folder of results, and summarise all of them."""
    before = finished(results.remove_outdated(sources))
    pieces = {results.piece(source)[1]: source for source in sources}
    known = [before[piece] for piece in pieces if piece in before]
    left = [source for piece, source in pieces.items() if piece not in before]
    total, machines, messages, seen = Counts().plus(chain(*known)), set[str](), Counter[str](), set[bytes]()
    rejects, in_range = list[str](), InRange()
    rows = anomalous = repeated = 0
    began = time.monotonic()
    results.begin()
    client.register_plugin(_Scores(scorer), name=results.name)
    with progress("scoring", len(left)) as advance:
        for done in _completed(client, left, scorer, results):
            total = total.plus(done.parts)
            rows += len(done.recordings)
            messages.update(done.messages)
            rejects.extend(done.rejects[: REJECTS_SHOWN - len(rejects)])
            repeated += sum(one in seen for one in done.recordings)
            seen.update(done.recordings)
            machines |= done.machines
            anomalous += done.anomalous
            in_range += done.in_range
            advance(1)
    seconds = time.monotonic() - began
    return Summary(
        total,
        len(known),
        len(left),
        rows,
        anomalous,
        frozenset(machines),
        rejects,
        repeated,
        messages,
        in_range,
        seconds,
    )


def _completed(client: Client, sources: Sequence[Source], scorer: Scorer, results: ResultsFolder) -> Iterator[_Done]:
    """Yield what is done, and keep only a few pieces in flight, so that no memory grows with their number.

    A source on which workers died together with others is tried alone at the end; if it kills a worker again, it is
    rejected.
    """
    waiting, suspects, running = iter(sources), [], as_completed()
    source_of: dict[str, Source] = {}
    room = _Room(client)

    def submit(source: Source) -> None:
        future = client.submit(_score, source, results, pure=False)
        source_of[future.key] = source
        running.add(future)

    def fill() -> None:
        while len(source_of) < room():
            source = next(waiting, None)
            if source is None:
                return
            submit(source)

    fill()
    while source_of:
        future = next(running)
        source = source_of.pop(future.key)
        try:
            yield future.result()
        except KilledWorker:
            suspects.append(source)
        except CancelledError as error:
            raise DfstransError(
                f"expected the scheduler to stay connected, but the connection was lost ({error}); what is finished "
                f"is kept: run again with {option_name('resume', True)}"
            ) from error
        fill()
    for source in suspects:
        try:
            yield client.submit(_score, source, results, pure=False).result()
        except KilledWorker:
            reason = "every worker that scored it died, probably for lack of memory; give workers more, or cut the file"
            parts = results.publish(source, scorer.table(source, [{"reason": reason}]))
            yield _Done(parts, 0, [], [f"{source.address}: {reason}"], set(), [])


class _Room:
    """How many pieces may be in flight."""

    def __init__(self, client: Client) -> None:
        self._client, self._counted, self._room = client, -_SECONDS_TO_RECOUNT, AHEAD

    def __call__(self) -> int:
        if time.monotonic() - self._counted > _SECONDS_TO_RECOUNT:
            self._room = AHEAD * max(sum(self._client.nthreads().values()), 1)
            self._counted = time.monotonic()
        return self._room


# ---- on a worker ----------------------------------------------------------------------------------------------------


class _Scores(WorkerPlugin):  # type: ignore[misc]
    """Brings the model to each worker once, also to those that join later."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer


def _score(source: Source, results: ResultsFolder) -> _Done:
    """Score a source and write the results."""
    worker = get_worker()
    scorer: Scorer = worker.plugins[results.name].scorer
    room = MEMORY_OF_CONTENT * (worker.memory_manager.memory_limit or math.inf)
    table = scorer(source) if source.needs <= room else scorer.table(source, [{"reason": _too_large(source, room)}])
    parts = results.publish(source, table)
    rejected = pc.is_valid(table["reason"])
    scored, rejects = table.filter(pc.invert(rejected)), table.filter(rejected).slice(0, REJECTS_SHOWN)
    names = zip(scored["machine"].to_pylist(), scored["episode_id"].to_pylist(), strict=True)
    return _Done(
        parts,
        int(pc.sum(scored["anomalous"]).as_py() or 0),
        [blake2b(repr(name).encode(), digest_size=8).digest() for name in names],
        [f"{one['episode_id'] or one['file']}: {one['reason']}" for one in rejects.to_pylist()],
        set(scored["machine"].drop_null().to_pylist()),
        scorer.messages(table),
        scorer.in_range(table),
    )


def _too_large(source: Source, room: float) -> str:
    return (
        f"expected a file whose content takes at most {room / 1e6:.3g} MB of a worker's memory, got one that takes "
        f"about {source.needs / 1e6:.3g} MB; convert it to HDF5 (dfstrans data convert), which is read in parts, split "
        f"it, or give workers more memory ({option_name('memory', ...)})"
    )


# ---- the cluster ----------------------------------------------------------------------------------------------------


@contextmanager
def connected(
    scheduler: str | None,
    engine: Engine,
    *,
    workers: int | None = None,
    memory: str | None = None,
    here: bool = False,
    most: int = 1,
) -> Iterator[Client]:
    """Connect to a scheduler, or start a local cluster of at most `most` processes; `here`, use a thread instead."""
    if scheduler is not None:
        if here:
            raise DfstransError(
                "expected addresses that all workers can read, got memory://, which only this process can; drop "
                f"{option_name('scheduler')}"
            )
        with _client(scheduler) as client:
            require_same_versions(client, engine)
            yield client
        return
    try:
        limit = parse_bytes(memory) if memory else "auto"
    except ValueError as error:
        raise DfstransError(f"expected {option_name('memory')} such as 1GB, got {memory!r}; correct it") from error
    n = 1 if here else min(workers or CPU_COUNT, most)
    kept = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEPT_MEMORY.items()}
    with (
        dask.config.set(kept),
        LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=not here,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def training_workers(scheduler: str) -> Iterator[tuple[Executor, int]]:
    """Connect to a scheduler for training; give an executor and the number of workers, each of a single thread."""
    with connected(scheduler, "torch") as client:
        threads = client.nthreads()
        if max(threads.values()) > 1:
            raise DfstransError(
                f"expected workers of one thread each, since trainings in one process share random numbers, got up to "
                f"{max(threads.values())} threads; start them with dask worker --nthreads 1"
            )
        try:
            yield client.get_executor(pure=False), len(threads)
        except KilledWorker as error:
            raise DfstransError(
                f"expected workers to finish their runs, but those that tried one died ({error}), probably for lack of "
                "memory; give workers more: finished runs are kept"
            ) from error


def _client(scheduler: str) -> Client:
    try:
        client = Client(scheduler, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise DfstransError(
            f"expected a Dask scheduler at {scheduler}, such as tcp://10.0.0.1:8786, got no answer "
            f"({type(error).__name__}: {error}); check the address, or omit {option_name('scheduler')} to use this "
            "computer"
        ) from error
    if not client.nthreads():
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_WORKERS)
        except TimeoutError as error:
            client.close()
            raise DfstransError(
                f"expected workers at the scheduler {scheduler}, got none; start some (dask worker {scheduler})"
            ) from error
    return client


def require_same_versions(client: Client, engine: Engine) -> None:
    """Reject workers whose libraries would compute something else, or cannot read what is sent to them."""
    report = _version_report((*_ALWAYS, *_PACKAGES[engine]))
    expected = report()
    wrong = [
        f"{worker} has {name} {version or 'missing'} instead of {expected[name]}"
        for worker, versions in client.run(report).items()
        for name, version in versions.items()
        if version != expected[name]
    ]
    if wrong:
        raise DfstransError(
            f"expected workers with the same versions as here, got others: {list_few(wrong)}; install the same "
            "versions on all workers"
        )


def _version_report(packages: Sequence[str]) -> Callable[[], dict[str, str | None]]:
    """Return a function that is sent by value, since a worker may lack dfstrans."""

    def report() -> dict[str, str | None]:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        found: dict[str, Any] = {"python": ".".join(platform.python_version_tuple()[:2])}
        for name in packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = None
        return found

    return report
