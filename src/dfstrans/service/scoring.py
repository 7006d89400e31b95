"""Scoring: recordings that wait together are predicted in one batch and committed in one transaction."""

from __future__ import annotations

import logging
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import seconds_of
from dfstrans.data.inputs import require_interval, without_values
from dfstrans.errors import DfstransError
from dfstrans.service.alarms import TOO_FEW, policy_of, weekly_limit
from dfstrans.service.cases import FaultLocation, Verdict, give_feedback, join_case
from dfstrans.service.database import Asset, ModelVersion, Recording
from dfstrans.service.versions import active_version
from dfstrans.service.workspace import Workspace

AT_ONCE = 256  # recordings
VALUES = 20_000_000  # with padding, predicted at once
ATTEMPTS = 5  # of a transaction that another process disturbs
logger = logging.getLogger(__name__)


class Score(NamedTuple):
    """The score of a recording, or the reason why it has none."""

    probability: float | None = None
    threshold: float | None = None
    anomalous: bool | None = None
    diagnosis: dict[str, Any] | None = None
    reason: str | None = None


class Arrival(NamedTuple):
    """A recording that is stored but not yet scored."""

    asset: str
    content: str
    recording: Episodes

    @property
    def episode(self) -> str:
        """Its name."""
        return str(self.recording.ids[0])


@dataclass
class Upload:
    """Recordings that arrived in one request; the result is the number of each record, or the reason for none."""

    arrivals: list[Arrival]
    author: str
    with_labels: bool
    result: Future[list[int | str]] = field(default_factory=Future)


# ---- score ----------------------------------------------------------------------------------------------------------


def score(detector: Any, recordings: Sequence[Episodes]) -> list[Score]:
    """Score recordings as if each came alone, but predict those of similar length together."""
    scores: dict[int, Score] = {}
    suited: dict[int, Episodes] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, one in enumerate(recordings):
            try:
                require_interval(one, detector.data_.interval, detector.data_.time_unit)
                suited[row] = detector.check_input(one)
                if reason := without_values(suited[row], detector.sensors_).get(0):
                    raise DfstransError(reason)
            except DfstransError as error:
                suited.pop(row, None)
                scores[row] = Score(reason=str(error))
        rows = sorted(suited, key=lambda row: suited[row].n_timepoints)
        while rows:
            longest, fits = 1, 0
            for fits, row in enumerate(rows):
                longest = suited[row].n_timepoints * suited[row].n_sensors
                if fits and (fits + 1) * longest > VALUES:
                    break
            else:
                fits = len(rows)
            together, rows = rows[: min(fits, AT_ONCE)], rows[min(fits, AT_ONCE) :]
            scores.update(_predict(detector, {row: suited[row] for row in together}))
    return [scores[row] for row in range(len(recordings))]


def _predict(detector: Any, recordings: dict[int, Episodes]) -> dict[int, Score]:
    """Predict together, or, if one is refused, each half; diagnose what is anomalous."""
    plain = [
        replace(one, ids=np.array([str(row)]), labels=None, faults=None, truth=None, starts=None)
        for row, one in recordings.items()
    ]
    try:
        together = Episodes.concatenate(plain)
        probabilities, thresholds = detector.predict_proba(together)[:, 1], detector.thresholds(together)
    except DfstransError as error:
        if len(recordings) == 1:
            return dict.fromkeys(recordings, Score(reason=str(error)))
        rows = list(recordings)
        halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        found = [_predict(detector, {row: recordings[row] for row in half}) for half in halves]
        return found[0] | found[1]
    scores = {}
    for number, (row, one) in enumerate(recordings.items()):
        anomalous, diagnosis = bool(probabilities[number] >= thresholds[number]), None
        if anomalous and hasattr(detector, "diagnose"):
            diagnosis = next(detector.diagnose(one, trust=True)).to_dict()
        scores[row] = Score(float(probabilities[number]), float(thresholds[number]), anomalous, diagnosis)
    return scores


# ---- store ----------------------------------------------------------------------------------------------------------


def recorded(session: Session, arrival: Arrival) -> int | None:
    """Return the number of the record that a recording already has."""
    found = (
        select(Recording.id)
        .join(Asset, Asset.id == Recording.asset_id)
        .where(Asset.name == arrival.asset, Recording.episode == arrival.episode, Recording.content == arrival.content)
    )
    return session.scalars(found).first()


def find_or_add_asset(session: Session, name: str) -> Asset:
    """Return the asset of a name, locked until the end of the transaction."""
    asset = session.scalars(select(Asset).where(Asset.name == name).with_for_update(of=Asset)).first()
    if asset is None:
        asset = Asset(name=name)
        session.add(asset)
        session.flush()
    return asset


def _store(session: Session, upload: Upload, scores: Sequence[Score], version: ModelVersion | None) -> list[int | str]:
    """Record the recordings of an upload, and let alarms open or join cases."""
    numbers: list[int | str] = []
    for arrival, found in zip(upload.arrivals, scores, strict=True):
        if found.reason is not None:
            numbers.append(found.reason)
            continue
        known = recorded(session, arrival)
        if known is not None:
            numbers.append(known)
            continue
        asset = find_or_add_asset(session, arrival.asset)
        recording = _record(arrival, found, version)
        recording.asset_id = asset.id
        before: Sequence[Recording] = []
        if found.anomalous:
            policy, _ = policy_of(session, asset.id)
            latest = select(Recording).where(Recording.asset_id == asset.id).order_by(Recording.id.desc())
            before = session.scalars(latest.limit(policy.in_a_row - 1)).all()
            limit = weekly_limit(session, asset.id, recording.version_id, policy)
            recording.held_back = policy.held_back(recording, limit, before)
            recording.alarm = recording.held_back is None
        session.add(recording)
        session.flush()
        if recording.alarm or recording.held_back == TOO_FEW:
            join_case(session, recording, before)
        if upload.with_labels and arrival.recording.labels is not None:
            give_feedback(session, recording, _verdict_of_file(arrival.recording), upload.author, close=False)
        numbers.append(recording.id)
    return numbers


def _record(arrival: Arrival, found: Score, version: ModelVersion | None) -> Recording:
    one = arrival.recording
    start = None if one.starts is None or np.isnat(one.starts[0]) else str(one.starts[0].astype("datetime64[ms]"))
    step = seconds_of(one.interval, one.time_unit)
    values = np.asarray(one.values)[0]
    medians = {
        name: float(np.nanmedian(series))
        for name, series in zip(one.sensors, values, strict=True)
        if not np.isnan(series).all()
    }
    trust = (found.diagnosis or {}).get("trust") or {}
    return Recording(
        episode=arrival.episode,
        content=arrival.content,
        points=int(one.lengths[0]),
        seconds=None if step is None else float(one.lengths[0] * step),
        started=start,
        medians=medians,
        version_id=None if version is None else version.id,
        probability=found.probability,
        threshold=found.threshold,
        anomalous=found.anomalous,
        diagnosis=found.diagnosis,
        trust=trust.get("support"),
        alarm=False,
    )


def _verdict_of_file(one: Episodes) -> Verdict:
    """Return what the file of a recording says about it."""
    step = one.interval or 1.0
    faults = one.known_faults[0] if one.require_labels()[0] else ()
    return Verdict(
        label="anomaly" if one.require_labels()[0] else "no anomaly",
        fault_code=next((fault.kind for fault in faults if fault.kind), None),
        faults=tuple(
            FaultLocation(start=fault.start * step, end=fault.stop * step, sensors=fault.sensors) for fault in faults
        ),
        note="label of the file",
    )


# ---- the thread -----------------------------------------------------------------------------------------------------


class Scoring:
    """A thread that scores what waits, commits it, and then answers."""

    def __init__(self, workspace: Workspace, committed: Callable[[], None] = lambda: None) -> None:
        self.workspace = workspace
        self._committed = committed  # events may be waiting
        self._waiting: queue.SimpleQueue[Upload | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._stopped = False
        self.batches = 0

    def start(self) -> None:
        """Begin to score."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def submit(self, upload: Upload) -> Future[list[int | str]]:
        """Queue an upload; its future has a result once it is committed."""
        self._waiting.put(upload)
        return upload.result

    def stop(self) -> None:
        """Finish what was accepted, and stop."""
        if not self._stopped:
            self._stopped = True
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            uploads = [self._waiting.get()]
            while sum(len(one.arrivals) for one in uploads if one) < AT_ONCE and not self._waiting.empty():
                uploads.append(self._waiting.get())
            running = None not in uploads
            self._process([one for one in uploads if one is not None])

    def _process(self, uploads: list[Upload]) -> None:
        if not uploads:
            return
        try:
            results = self._scored_and_stored(uploads)
        except Exception as error:
            if len(uploads) > 1:  # one of them may be the cause
                for one in uploads:
                    self._process([one])
                return
            logger.exception("scoring failed")
            uploads[0].result.set_exception(error)
            return
        self.batches += 1
        for upload, numbers in zip(uploads, results, strict=True):
            upload.result.set_result(numbers)
        self._committed()

    def _scored_and_stored(self, uploads: list[Upload]) -> list[list[int | str]]:
        with self.workspace.reading() as session:
            version = active_version(session)
        recordings = [arrival.recording for upload in uploads for arrival in upload.arrivals]
        if version is None:
            scores = [Score()] * len(recordings)
        else:
            grouped = [
                replace(one.recording, groups=np.array([one.asset])) for upload in uploads for one in upload.arrivals
            ]
            scores = score(self.workspace.detector(version.checksum), grouped)
        for attempt in range(ATTEMPTS):
            rest = iter(scores)
            try:
                with self.workspace.writing() as session:
                    return [_store(session, one, [next(rest) for _ in one.arrivals], version) for one in uploads]
            except (IntegrityError, OperationalError):  # another process added the same, or locked it
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")
