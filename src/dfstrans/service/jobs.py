"""Jobs in a process of their own: train a candidate from feedback, or learn the baseline of an asset."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.errors import DfstransError
from dfstrans.service.cases import MAX_ID
from dfstrans.service.database import Asset, Job, ModelVersion, Recording, now
from dfstrans.service.versions import active_version, register
from dfstrans.service.workspace import Workspace
from dfstrans.settings import Members, Settings

ENDED = ("finished", "failed", "cancelled")
CHECK_SECONDS = 0.2  # whether a job is cancelled
Report = Callable[[float, str], None]
logger = logging.getLogger(__name__)


class TrainRequest(Settings):
    """What a candidate learns from."""

    kind: Literal["train"] = "train"
    members: Members = "committee"
    unlabelled_as_normal: bool = Field(
        default=True, description="Learn from recordings without feedback that were never an alarm, as normal ones."
    )
    most: int = Field(default=20_000, ge=10, le=1_000_000, description="Latest recordings to learn from.")


class CommissionRequest(Settings):
    """An asset whose baseline a new version of the active model learns, from its recordings without alarm."""

    kind: Literal["commission"] = "commission"
    asset: int = Field(ge=1, le=MAX_ID)
    replace: bool = Field(default=False, description="Replace the baseline that it has.")


# ---- the queue ------------------------------------------------------------------------------------------------------


def add_job(session: Session, request: TrainRequest | CommissionRequest, author: str) -> Job:
    """Queue a job."""
    job = Job(kind=request.kind, settings=request.model_dump(mode="json"), author=author, message="waiting")
    session.add(job)
    session.flush()
    return job


def cancel_job(session: Session, job: Job) -> None:
    """Cancel a job that has not ended; its process is stopped within a moment."""
    if job.state in ENDED:
        raise DfstransError(f"expected a job that has not ended, got {job.id}, which has {job.state}")
    job.state, job.message, job.ended = "cancelled", "cancelled", now()


class JobRunner:
    """A thread that runs queued jobs one by one, each in a process."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to run jobs; those that an earlier process was running have failed."""
        with self.workspace.writing() as session:
            for job in session.scalars(select(Job).where(Job.state == "running")):
                job.state, job.message, job.ended = "failed", "the service was stopped; start the job again", now()
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """Look for new jobs."""
        self._wake.set()

    def stop(self) -> None:
        """Stop, and the running job with it."""
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not self._stopping.is_set() and (number := self._next()) is not None:
                    self._run_one(number)
            except Exception:
                logger.exception("running jobs failed")

    def _next(self) -> int | None:
        with self.workspace.writing() as session:
            job = session.scalars(select(Job).where(Job.state == "queued").order_by(Job.id).limit(1)).first()
            if job is None:
                return None
            job.state, job.message = "running", "starting"
            return job.id

    def _run_one(self, number: int) -> None:
        url = self.workspace.database.engine.url.render_as_string(hide_password=False)
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run_job, args=(self.workspace.folder, url, number), daemon=True)
        process.start()
        while process.is_alive() and not self._stopping.wait(CHECK_SECONDS):
            with self.workspace.reading() as session:
                if session.get_one(Job, number).state == "cancelled":
                    break
        _end(process)
        with self.workspace.writing() as session:
            job = session.get_one(Job, number)
            if job.state == "running":
                job.state, job.ended = "failed", now()
                job.message = (
                    "the service was stopped; start the job again" if self._stopping.is_set() else "the process died"
                )


def _end(process: BaseProcess) -> None:
    if process.is_alive():
        process.terminate()
        process.join(5)
    if process.is_alive():
        process.kill()
    process.join()


# ---- in the process -------------------------------------------------------------------------------------------------


def run_job(folder: Path, url: str, number: int) -> None:
    """Do the work of a job, and record its progress and its result."""
    workspace = Workspace(folder, url)

    def update(**changes: Any) -> None:
        with workspace.writing() as session:
            job = session.get_one(Job, number)
            if job.state != "running":
                raise SystemExit  # cancelled, or given up by a later service
            for name, value in changes.items():
                setattr(job, name, value)

    try:
        with workspace.reading() as session:
            job = session.get_one(Job, number)
        report: Report = lambda progress, message: update(progress=progress, message=message)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if job.kind == "train":
                result = _train(workspace, TrainRequest(**job.settings), job.author, report)
            else:
                result = _commission(workspace, CommissionRequest(**job.settings), job.author, report)
        update(state="finished", progress=1.0, message="finished", result=result, ended=now())
    except DfstransError as error:
        update(state="failed", message=str(error), ended=now())
    except Exception as error:
        logger.exception("a job failed")
        update(state="failed", message=f"internal error: {type(error).__name__}: {error}", ended=now())
    finally:
        workspace.close()


def labelled_recordings(workspace: Workspace, request: TrainRequest, report: Report) -> tuple[Episodes, dict[str, int]]:
    """Return the recordings that people labelled, and perhaps others as normal; and how many of each kind."""
    normal = Recording.alarm.is_(False) & Recording.case_id.is_(None) & Recording.label.is_(None)
    labelled = Recording.label.in_(("anomaly", "no anomaly"))
    wanted = or_(labelled, normal) if request.unlabelled_as_normal else labelled
    with workspace.reading() as session:
        rows = session.scalars(select(Recording).where(wanted).order_by(Recording.id.desc()).limit(request.most)).all()
        active = active_version(session)
    rows = rows[::-1]
    if not rows:
        raise DfstransError("expected recordings with feedback, got none; say of some whether they are anomalies")
    sensors = None if active is None else workspace.detector(active.checksum).sensors_
    parts: list[Episodes] = []
    for done, row in enumerate(rows):
        if done % 100 == 0:
            report(0.3 * done / len(rows), f"reading recording {done + 1} of {len(rows)}")
        one = workspace.signal(row.content, f"{row.asset.name}/{row.episode}#{row.id}")
        if sensors is not None and set(sensors) <= set(one.sensors):
            one = one.select_sensors(sensors)
        elif parts and set(one.sensors) != set(parts[0].sensors):
            continue
        faults = _faults(row, one) if row.label == "anomaly" else []
        parts.append(
            replace(
                one,
                labels=np.array([int(row.label == "anomaly")], dtype=np.int8),
                groups=np.array([row.asset.name]),
                faults=(tuple(faults),),
            )
        )
    counts = Counter(row.label or "unlabelled" for row in rows)
    found = Episodes.concatenate(parts)
    return found, {**counts, "other_sensors": len(rows) - len(parts)}


def _faults(row: Recording, one: Episodes) -> list[Fault]:
    """Return the true moments of a recording, in points; without any, the whole recording has the fault."""
    length, step, kind = int(one.lengths[0]), one.interval or 1.0, row.fault_code or ""
    places = []
    for fault in row.faults or []:
        start, stop = int(fault["start"] / step), int(np.ceil(fault["end"] / step))
        if start < length:
            sensors = tuple(name for name in fault["sensors"] if name in one.sensors)
            places.append(Fault(start, min(max(stop, start + 1), length), sensors, kind))
    return places or ([Fault(0, length, (), kind)] if kind else [])


def _train(workspace: Workspace, request: TrainRequest, author: str, report: Report) -> dict[str, Any]:
    from dfstrans.detectors.diagnoser import Diagnoser
    from dfstrans.detectors.workflow import select_ids, train_model

    episodes, counts = labelled_recordings(workspace, request, report)
    report(0.3, f"training on {len(episodes)} recordings")
    detector = Diagnoser(members=request.members)
    with workspace.temporary_folder() as folder:
        out = folder / "model"
        split: Literal["grouped", "random"] = "grouped"
        try:
            train_model(detector, episodes, out, split=split)
        except DfstransError:  # too few machines have both classes
            split = "random"
            train_model(Diagnoser(members=request.members), episodes, out, split=split)
        report(0.9, "comparing with the active version")
        candidate = register(workspace, out, "trained", author, note=f"{len(episodes)} recordings")
    with workspace.reading() as session:
        version, active = session.get_one(ModelVersion, candidate), active_version(session)
    trained = workspace.detector(version.checksum)
    test = select_ids(episodes, trained.parts_.get("test", []))
    compared: dict[str, Any] = {"candidate": trained.evaluate(test).to_dict() if len(test) else None, "active": None}
    if active is not None and len(test):
        present = workspace.detector(active.checksum)
        compared["active"] = present.evaluate(test).to_dict()
        seen = {name for part in ("train", "validation") for name in present.parts_.get(part, [])}
        compared["seen_by_active"] = len(seen & set(test.ids.tolist()))
    machines = sorted(set(test.require_groups().tolist()))
    return {
        "version": candidate,
        "active": None if active is None else active.id,
        "learned_from": counts,
        "held_out": {
            "by": "machine" if split == "grouped" else "recording",
            "recordings": len(test),
            "machines": machines,
        },
        "comparison": compared,
    }


def _commission(workspace: Workspace, request: CommissionRequest, author: str, report: Report) -> dict[str, Any]:
    from dfstrans.detectors.trees import KnowsMachines

    quiet = or_(Recording.label == "no anomaly", Recording.label.is_(None) & Recording.case_id.is_(None))
    with workspace.reading() as session:
        active, asset = active_version(session), session.get(Asset, request.asset)
        if active is None or asset is None:
            missing = "active model" if active is None else f"asset {request.asset}"
            raise DfstransError(f"expected an active model and an asset, got no {missing}; promote one, or list them")
        rows = session.scalars(
            select(Recording).where(Recording.asset_id == asset.id, quiet).order_by(Recording.id)
        ).all()
    detector = workspace.detector(active.checksum)
    if not isinstance(detector, KnowsMachines):
        raise DfstransError(
            f"expected a model that compares machines with themselves, got one of the kind "
            f"{detector.estimator_name!r}; train one on several recordings of each machine"
        )
    report(0.1, f"reading {len(rows)} recordings")
    parts = [workspace.signal(row.content, f"{row.episode}#{row.id}").select_sensors(detector.sensors_) for row in rows]
    if not parts:
        raise DfstransError(f"expected recordings of {asset.name} without alarm, got none; send some first")
    report(0.6, "learning the baseline")
    found = detector.commission(Episodes.concatenate(parts), asset.name, replace=request.replace)[asset.name]
    with workspace.temporary_folder() as folder:
        detector.save(folder / "model")
        version = register(workspace, folder / "model", "commissioned", author, note=f"baseline of {asset.name}")
    suitability = found.suitability
    return {
        "version": version,
        "asset": asset.name,
        "recordings": suitability.n_recordings,
        "sufficient": suitability.sufficient,
        "note": suitability.note,
        "drifting": list(suitability.drifting),
        "alarms_before": found.alarms_before,
        "alarms": found.alarms_left,
    }
