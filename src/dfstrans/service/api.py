"""The REST interface, `/api/v1`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from starlette.requests import ClientDisconnect

from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError
from dfstrans.service import cases, jobs, versions
from dfstrans.service.alarms import AlarmPolicy, Name, policy_of, preview, set_policy
from dfstrans.service.database import Asset, Case, Job, ModelVersion, Promotion, Recording, Sink, now
from dfstrans.service.scoring import Arrival, Upload, find_or_add_asset, recorded
from dfstrans.service.sinks import check_target, sink_facts
from dfstrans.service.tokens import allows, find_token
from dfstrans.service.uploads import FORMATS, JSON_EXAMPLE, file_name, is_name, parts_by_recording
from dfstrans.settings import Settings

Id = Annotated[int, InPath(ge=1, le=cases.MAX_ID)]
OptionalId = Annotated[int | None, Query(ge=1, le=cases.MAX_ID)]


# ---- who calls ------------------------------------------------------------------------------------------------------


def caller_with(scope: str) -> Callable[[Request], str]:
    """Return a dependency that gives the name of the caller, or refuses one who lacks a scope."""

    def caller(request: Request) -> str:
        service = request.app.state.service
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if not service.require_tokens and not secret:
            return "local"
        found = None
        if kind.lower() == "bearer":
            with service.workspace.reading() as session:
                found = find_token(session, secret.strip())
        if found is None:
            raise HTTPException(401, "expected a valid token (Authorization: Bearer …)", {"WWW-Authenticate": "Bearer"})
        request.scope["caller"] = found.name
        if not allows(found.scope, scope):
            raise HTTPException(403, f"expected a token with the scope {scope}, got {found.scope}")
        return found.name

    return caller


Reader = Annotated[str, Depends(caller_with("read"))]
Writer = Annotated[str, Depends(caller_with("write"))]
Admin = Annotated[str, Depends(caller_with("admin"))]


def _service(request: Request) -> Any:
    return request.app.state.service


ServiceOf = Annotated[Any, Depends(_service)]


# ---- answers --------------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """What all answers share."""

    model_config = ConfigDict(from_attributes=True)


class AssetAnswer(Answer):
    """A machine."""

    id: int
    name: str
    created: datetime
    recordings: int
    last_recording: datetime | None
    open_case: int | None
    closed_cases: int
    own_policy: bool


class RecordingAnswer(Answer):
    """A recording and its score, which is null without a model."""

    id: int
    asset: str
    episode: str
    content: str = Field(description="SHA-256 of its sensors, times and values.")
    created: datetime
    started: str | None = Field(description="As the clock of the recording showed it.")
    points: int
    seconds: float | None
    model: str | None = Field(description="Checksum of the model version.")
    probability: float | None
    threshold: float | None
    anomalous: bool | None
    trust: str | None
    alarm: bool
    held_back: str | None = Field(description="Why an anomalous recording is no alarm.")
    case_id: int | None
    label: str | None
    fault_code: str | None
    faults: list[Any] | None
    diagnosis: dict[str, Any] | None = Field(description="As `dfstrans diagnose --json`.")

    @classmethod
    def of(cls, one: Recording) -> RecordingAnswer:
        """Describe a recording."""
        names = cls.model_fields.keys() - {"asset", "model"}
        known = {name: getattr(one, name) for name in names}
        return cls(asset=one.asset.name, model=None if one.version is None else one.version.checksum, **known)


class Rejected(Answer):
    """A recording that was not accepted, and why."""

    asset: str
    episode: str
    reason: str


class UploadAnswer(Answer):
    """The recordings of an upload; those that were sent before are not scored again."""

    recordings: list[RecordingAnswer]
    known: int = Field(description="How many of them were sent before.")
    rejected: list[Rejected]


class FeedbackAnswer(Answer):
    """What a person said."""

    id: int
    created: datetime
    author: str
    label: str
    fault_code: str | None
    faults: list[Any]
    note: str


class CaseAnswer(Answer):
    """A case."""

    id: int
    asset_id: int
    asset: str
    created: datetime
    updated: datetime
    closed: datetime | None
    evidence: int
    probability: float
    top_sensor: str | None
    moment_start: float | None
    moment_end: float | None
    trust: str | None
    label: str | None
    fault_code: str | None

    @classmethod
    def of(cls, one: Case) -> CaseAnswer:
        """Describe a case."""
        known = {name: getattr(one, name) for name in CaseAnswer.model_fields.keys() - {"asset"}}
        return CaseAnswer(asset=one.asset.name, **known)


class WholeCase(CaseAnswer):
    """A case with its latest recordings and what people said."""

    recordings: list[RecordingAnswer]
    feedback: list[FeedbackAnswer]


class ModelAnswer(Answer):
    """A model version."""

    id: int
    checksum: str
    origin: str
    author: str
    note: str
    created: datetime
    active: bool
    about: dict[str, Any]


class PromotionAnswer(Answer):
    """A step in the history of the active version."""

    id: int
    version_id: int
    previous_id: int | None
    action: str
    author: str
    created: datetime


class PolicyAnswer(Answer):
    """An alarm policy, and who switched it on."""

    settings: AlarmPolicy
    own: bool = Field(description="Whether the asset has it alone.")
    author: str | None
    created: datetime | None


class SinkAnswer(Answer):
    """A sink."""

    id: int
    kind: str
    target: str
    signed: bool
    created: datetime
    waiting: int


class NewSink(SinkAnswer):
    """A new sink with its secret, which is shown only once."""

    secret: str | None


class JobAnswer(Answer):
    """A job."""

    id: int
    kind: str
    state: str
    progress: float
    message: str
    settings: dict[str, Any]
    result: dict[str, Any] | None
    author: str
    created: datetime
    ended: datetime | None


class Problem(Answer):
    """An error, as in RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str


class CasePage(Answer):
    """Some cases, and how many there are in all."""

    items: list[CaseAnswer]
    total: int


class RecordingPage(Answer):
    """Some recordings, and how many there are in all."""

    items: list[RecordingAnswer]
    total: int


class AssetPage(Answer):
    """Some assets, and how many there are in all."""

    items: list[AssetAnswer]
    total: int


_PROBLEM: dict[str, Any] = {"model": Problem, "content": {"application/problem+json": {}}}
router = APIRouter(
    prefix="/api/v1",
    responses={
        status: {**_PROBLEM, "description": text}
        for status, text in {
            400: "The request is damaged.", 401: "No valid token.", 403: "Not allowed.", 404: "There is none.",
            413: "Too large.", 422: "Not usable; `detail` says what was expected.", 503: "Busy; try again later.",
        }.items()
    },
)  # fmt: skip


# ---- recordings -----------------------------------------------------------------------------------------------------

UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["recordings"],
                    "properties": {"recordings": {"type": "array"}},
                },
                "example": JSON_EXAMPLE,
            },
            **{
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in FORMATS
                if kind not in ("application/json", "text/csv")
            },
            "text/csv": {"schema": {"type": "string"}, "example": "time,Ax,Ay\n0.00,0.1,1.0\n0.01,0.2,1.1\n"},
        },
    }
}


@router.post("/recordings", status_code=201, tags=["recordings"], openapi_extra=UPLOAD_BODY, responses={415: _PROBLEM})
async def upload(
    request: Request,
    response: Response,
    service: ServiceOf,
    author: Writer,
    asset: Annotated[Name | None, Query(description="The machine; by default the group of each recording.")] = None,
    name: Annotated[
        str, Query(max_length=300, description="Name of the file, which names a recording without an id.")
    ] = "",
    labels: Annotated[bool, Query(description="Take the labels of the file as feedback.")] = False,
) -> UploadAnswer:
    """Send recordings as CSV, Parquet, npz or JSON, and get their scores.

    The same recording of the same asset is stored and scored only once. The answer comes after the commit.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    suffix = FORMATS.get(kind)
    if suffix is None:
        raise HTTPException(
            415, f"expected recordings as {', '.join(FORMATS)} (Content-Type), got {kind[:100] or 'none'}"
        )
    if service.uploads >= service.at_once:
        raise HTTPException(503, "expected fewer uploads at a time; try again later", {"Retry-After": "1"})
    service.uploads += 1
    try:
        with service.workspace.temporary_folder() as folder:
            file = folder / "alone" / file_name(name, suffix)
            file.parent.mkdir()
            with file.open("wb") as target:
                async for chunk in request.stream():
                    target.write(chunk)
            work = partial(_accept, service, file, asset, author, labels=labels)
            answer = await to_thread.run_sync(work, limiter=service.threads)
    except ClientDisconnect:
        raise HTTPException(400, "expected a whole upload, got a part") from None
    finally:
        service.uploads -= 1
    if answer.recordings and answer.known == len(answer.recordings) and not answer.rejected:
        response.status_code = 200
    return answer


def _accept(service: Any, file: Path, asset: str | None, author: str, *, labels: bool) -> UploadAnswer:
    """Read, keep and score the recordings of a file."""
    workspace = service.workspace
    with workspace.reading() as session:
        version = versions.active_version(session)
    recipe = {} if version is None else workspace.detector(version.checksum).reading_
    arrivals = [
        Arrival(_asset_of(one, asset), "", one) for one in parts_by_recording(service.readers.read(file, recipe))
    ]
    arrivals = [one._replace(content=workspace.keep(one.recording)) for one in arrivals]
    with workspace.reading() as session:
        before = [recorded(session, one) for one in arrivals]
    new = [one for one, number in zip(arrivals, before, strict=True) if number is None]
    found = iter(service.scoring.submit(Upload(new, author, labels)).result() if new else ())
    numbers = [number or next(found) for number in before]
    rejected = [
        Rejected(asset=one.asset, episode=one.episode, reason=number)
        for one, number in zip(arrivals, numbers, strict=True)
        if isinstance(number, str)
    ]
    for outcome, count in (
        ("new", len(new) - len(rejected)),
        ("known", len(arrivals) - len(new)),
        ("rejected", len(rejected)),
    ):
        service.metrics.recordings.labels(outcome).inc(count)
    if len(rejected) == len(arrivals):
        raise DfstransError("; ".join(dict.fromkeys(one.reason for one in rejected)))
    with workspace.reading() as session:
        rows = [session.get_one(Recording, number) for number in numbers if isinstance(number, int)]
        answers = [RecordingAnswer.of(one) for one in rows]
    return UploadAnswer(recordings=answers, known=len(arrivals) - len(new), rejected=rejected)


def _asset_of(one: Episodes, asset: str | None) -> str:
    name = asset or ("" if one.groups is None else str(one.groups[0]))
    if not is_name(name):
        raise DfstransError(
            "expected the machine of each recording, got none; name it (?asset=…), or send a file that "
            "names the group of each"
        )
    return name


@router.get("/recordings", tags=["recordings"])
def list_recordings(service: ServiceOf, _: Reader, wanted: Annotated[cases.RecordingFilter, Query()]) -> RecordingPage:
    """List recordings, the newest first."""
    with service.workspace.reading() as session:
        found = cases.find_recordings(session, wanted)
        return RecordingPage(items=[RecordingAnswer.of(one) for one in found.items], total=found.total)


@router.get("/recordings/{number}", tags=["recordings"])
def get_recording(service: ServiceOf, _: Reader, number: Id) -> RecordingAnswer:
    """Get a recording with its score and diagnosis."""
    with service.workspace.reading() as session:
        return RecordingAnswer.of(cases.require(session.get(Recording, number), "recording", number))


@router.get("/recordings/{number}/signals", tags=["recordings"])
def get_signals(
    service: ServiceOf,
    _: Reader,
    number: Id,
    sensor: Annotated[list[Name] | None, Query(description="Sensors; by default all.")] = None,
) -> dict[str, Any]:
    """Get the values of a recording: `values` has a list for each sensor, with null for a missing value."""
    with service.workspace.reading() as session:
        row = cases.require(session.get(Recording, number), "recording", number)
        content, episode = row.content, row.episode
    one = service.workspace.signal(content, episode)
    one = one.select_sensors(sensor) if sensor else one
    values = np.asarray(one.values)[0].astype(object)
    values[np.isnan(np.asarray(one.values)[0])] = None
    return {
        "sensors": one.sensors,
        "units": one.units,
        "interval": one.interval,
        "time_unit": one.time_unit,
        "values": values.tolist(),
    }


@router.post("/recordings/{number}/feedback", status_code=201, tags=["feedback"])
def label_recording(service: ServiceOf, author: Writer, number: Id, verdict: cases.Verdict) -> FeedbackAnswer:
    """Say what a recording is; it needs neither a model nor a case."""
    with service.workspace.writing() as session:
        row = cases.require(session.get(Recording, number, with_for_update={"of": Recording}), "recording", number)
        return FeedbackAnswer.model_validate(cases.give_feedback(session, row, verdict, author, close=False))


# ---- cases ----------------------------------------------------------------------------------------------------------


@router.get("/cases", tags=["cases"])
def list_cases(service: ServiceOf, _: Reader, wanted: Annotated[cases.CaseFilter, Query()]) -> CasePage:
    """List cases; by default the open ones, the most probable first."""
    with service.workspace.reading() as session:
        found = cases.find_cases(session, wanted)
        return CasePage(items=[CaseAnswer.of(one) for one in found.items], total=found.total)


@router.get("/cases/{number}", tags=["cases"])
def get_case(service: ServiceOf, _: Reader, number: Id) -> WholeCase:
    """Get a case with its latest 100 recordings and what people said."""
    with service.workspace.reading() as session:
        one = cases.require(session.get(Case, number), "case", number)
        evidence = cases.find_recordings(session, cases.RecordingFilter(case=number, limit=100))
        return WholeCase(
            **CaseAnswer.of(one).model_dump(),
            recordings=[RecordingAnswer.of(row) for row in evidence.items],
            feedback=[FeedbackAnswer.model_validate(row) for row in cases.feedback_on(session, one)],
        )


@router.post("/cases/{number}/feedback", status_code=201, tags=["feedback"])
def confirm_case(
    service: ServiceOf,
    author: Writer,
    number: Id,
    verdict: cases.Verdict,
    close: Annotated[bool, Query(description="Close the case; the next alarm opens a new one.")] = True,
) -> FeedbackAnswer:
    """Say what a case is; its recordings get this label."""
    with service.workspace.writing() as session:
        one = cases.require(session.get(Case, number), "case", number)
        answer = FeedbackAnswer.model_validate(cases.give_feedback(session, one, verdict, author, close=close))
    service.sender.wake()
    return answer


# ---- assets and policies --------------------------------------------------------------------------------------------


class AssetRequest(Settings):
    """A machine."""

    name: Name


@router.get("/assets", tags=["assets"])
def list_assets(
    service: ServiceOf,
    _: Reader,
    search: Annotated[Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> AssetPage:
    """List assets by name."""
    with service.workspace.reading() as session:
        found = cases.find_assets(session, search, limit, offset)
        return AssetPage(items=[AssetAnswer(**one) for one in found.items], total=found.total)


@router.post("/assets", status_code=201, tags=["assets"])
def add_asset(service: ServiceOf, _: Writer, wanted: AssetRequest) -> AssetAnswer:
    """Add an asset, unless it exists; the first recording of a machine does so, too."""
    with service.workspace.writing() as session:
        return AssetAnswer(**cases.asset_facts(session, find_or_add_asset(session, wanted.name)))


@router.get("/assets/{number}", tags=["assets"])
def get_asset(service: ServiceOf, _: Reader, number: Id) -> AssetAnswer:
    """Get an asset."""
    with service.workspace.reading() as session:
        one = cases.require(session.get(Asset, number), "asset", number)
        return AssetAnswer(**cases.asset_facts(session, one))


@router.get("/policy", tags=["alarms"])
def get_policy(service: ServiceOf, _: Reader, asset: OptionalId = None) -> PolicyAnswer:
    """Get the alarm policy of an asset or, without one, of all that have none of their own."""
    with service.workspace.reading() as session:
        policy, row = policy_of(session, asset)
        if row is None:
            return PolicyAnswer(settings=policy, own=False, author=None, created=None)
        return PolicyAnswer(settings=policy, own=row.asset_id is not None, author=row.author, created=row.created)


@router.put("/policy", tags=["alarms"])
def put_policy(service: ServiceOf, author: Admin, policy: AlarmPolicy, asset: OptionalId = None) -> PolicyAnswer:
    """Switch an alarm policy on, for the recordings that come from now on."""
    with service.workspace.writing() as session:
        one = None if asset is None else cases.require(session.get(Asset, asset), "asset", asset)
        row = set_policy(session, one, policy, author)
        return PolicyAnswer(settings=policy, own=one is not None, author=row.author, created=row.created)


@router.post("/policy/preview", tags=["alarms"])
def preview_policy(service: ServiceOf, _: Reader, policy: AlarmPolicy, asset: OptionalId = None) -> dict[str, Any]:
    """Show what a policy would have done on past recordings."""
    with service.workspace.reading() as session:
        return preview(session, asset, policy)


# ---- models ---------------------------------------------------------------------------------------------------------


class ModelRequest(Settings):
    """A saved model on the computer of the service."""

    folder: Name = Field(description="Path of its folder.")
    note: Annotated[str, Field(max_length=1000)] = ""


def _describe(service: Any, session: Any, one: ModelVersion) -> ModelAnswer:
    active = versions.active_version(session)
    about = versions.about_model(service.workspace.models / one.checksum)
    known = {name: getattr(one, name) for name in ("id", "checksum", "origin", "author", "note", "created")}
    return ModelAnswer(**known, active=active is not None and active.id == one.id, about=about)


@router.get("/models", tags=["models"])
def list_models(service: ServiceOf, _: Reader) -> list[ModelAnswer]:
    """List model versions, the newest first."""
    with service.workspace.reading() as session:
        found = session.scalars(select(ModelVersion).order_by(ModelVersion.id.desc()).limit(200)).all()
        return [_describe(service, session, one) for one in found]


@router.post("/models", status_code=201, tags=["models"])
def add_model(service: ServiceOf, author: Admin, wanted: ModelRequest) -> ModelAnswer:
    """Register a saved model as a version; it scores once it is promoted."""
    note = wanted.note if is_name(wanted.note[:200] or "-") else ""
    number = versions.register(service.workspace, Path(wanted.folder), "registered", author, note)
    with service.workspace.reading() as session:
        return _describe(service, session, session.get_one(ModelVersion, number))


@router.get("/models/{number}", tags=["models"])
def get_model(service: ServiceOf, _: Reader, number: Id) -> ModelAnswer:
    """Get a model version."""
    with service.workspace.reading() as session:
        return _describe(service, session, cases.require(session.get(ModelVersion, number), "model", number))


@router.post("/models/{number}/promote", status_code=201, tags=["models"])
def promote_model(service: ServiceOf, author: Admin, number: Id) -> PromotionAnswer:
    """Make a version the active one, for the recordings that come from now on."""
    with service.workspace.writing() as session:
        one = cases.require(session.get(ModelVersion, number), "model", number)
        service.workspace.detector(one.checksum)  # that it loads, and is in memory
        return PromotionAnswer.model_validate(versions.promote(session, one, author))


@router.post("/models/rollback", status_code=201, tags=["models"])
def rollback_model(service: ServiceOf, author: Admin) -> PromotionAnswer:
    """Take the last promotion back."""
    with service.workspace.writing() as session:
        return PromotionAnswer.model_validate(versions.rollback(session, author))


@router.get("/promotions", tags=["models"])
def list_promotions(service: ServiceOf, _: Reader) -> list[PromotionAnswer]:
    """List the history of the active version, the newest first."""
    with service.workspace.reading() as session:
        found = session.scalars(select(Promotion).order_by(Promotion.id.desc()).limit(500)).all()
        return [PromotionAnswer.model_validate(one) for one in found]


# ---- sinks and jobs -------------------------------------------------------------------------------------------------


class SinkRequest(Settings):
    """Where events are to be sent."""

    kind: Literal["webhook", "folder"]
    target: Name = Field(description="An address, or the name of a folder in the workspace's folder of events.")


@router.get("/sinks", tags=["sinks"])
def list_sinks(service: ServiceOf, _: Admin) -> list[SinkAnswer]:
    """List sinks, with the number of events that wait."""
    with service.workspace.reading() as session:
        found = session.scalars(select(Sink).where(Sink.removed.is_(None)).order_by(Sink.id)).all()
        return [SinkAnswer(**sink_facts(session, one)) for one in found]


@router.post("/sinks", status_code=201, tags=["sinks"])
def add_sink(service: ServiceOf, author: Admin, wanted: SinkRequest) -> NewSink:
    """Add a sink; the secret that signs its events is shown only now."""
    check_target(wanted.kind, wanted.target)
    secret = secrets.token_urlsafe(32) if wanted.kind == "webhook" else None
    with service.workspace.writing() as session:
        one = Sink(kind=wanted.kind, target=wanted.target, secret=secret, author=author)
        session.add(one)
        session.flush()
        return NewSink(**sink_facts(session, one), secret=secret)


@router.delete("/sinks/{number}", status_code=204, tags=["sinks"])
def remove_sink(service: ServiceOf, _: Admin, number: Id) -> None:
    """Remove a sink; its events are not sent any more."""
    with service.workspace.writing() as session:
        one = cases.require(session.get(Sink, number), "sink", number)
        one.removed = one.removed or now()


@router.get("/jobs", tags=["jobs"])
def list_jobs(service: ServiceOf, _: Reader) -> list[JobAnswer]:
    """List jobs, the newest first."""
    with service.workspace.reading() as session:
        found = session.scalars(select(Job).order_by(Job.id.desc()).limit(200)).all()
        return [JobAnswer.model_validate(one) for one in found]


@router.post("/jobs", status_code=202, tags=["jobs"])
def start_job(
    service: ServiceOf,
    author: Admin,
    wanted: Annotated[jobs.TrainRequest | jobs.CommissionRequest, Field(discriminator="kind")],
) -> JobAnswer:
    """Train a candidate from feedback, or learn the baseline of an asset; the result is a version to promote."""
    with service.workspace.writing() as session:
        answer = JobAnswer.model_validate(jobs.add_job(session, wanted, author))
    service.jobs.wake()
    return answer


@router.get("/jobs/{number}", tags=["jobs"])
def get_job(service: ServiceOf, _: Reader, number: Id) -> JobAnswer:
    """Get the progress and the result of a job."""
    with service.workspace.reading() as session:
        return JobAnswer.model_validate(cases.require(session.get(Job, number), "job", number))


@router.post("/jobs/{number}/cancel", tags=["jobs"])
def cancel(service: ServiceOf, _: Admin, number: Id) -> JobAnswer:
    """Cancel a job that has not ended."""
    with service.workspace.writing() as session:
        one = cases.require(session.get(Job, number, with_for_update=True), "job", number)
        jobs.cancel_job(session, one)
        return JobAnswer.model_validate(one)
