"""Cases: one open case per asset, with its evidence and what people said; and the queries on cases and recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, model_validator
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from dfstrans.errors import DfstransError
from dfstrans.service.alarms import TOO_FEW, Name
from dfstrans.service.database import Asset, Case, Delivery, Feedback, Policy, Recording, Sink, now
from dfstrans.service.uploads import is_name
from dfstrans.settings import Settings

Label = Literal["anomaly", "no anomaly", "neutral"]
MAX_ID = 2**31 - 1


def _printable(text: str) -> str:
    lines = text.splitlines() or [""]
    if not all(is_name(line[i : i + 200]) for line in lines for i in range(0, len(line), 200)):
        raise ValueError("expected text without control characters")
    return "\n".join(lines)


class FaultLocation(Settings):
    """A true moment of a fault, and the sensors that show it; without sensors, they are unknown."""

    start: float = Field(ge=0, description="From the start of the recording, in its time unit; or a point without one.")
    end: float = Field(gt=0)
    sensors: tuple[Name, ...] = Field(default=(), max_length=500)

    @model_validator(mode="after")
    def _is_period(self) -> FaultLocation:
        if self.start >= self.end:
            raise ValueError("expected `start` before `end`")
        return self


class Verdict(Settings):
    """What a person says about a case or a recording."""

    label: Label
    fault_code: Name | None = None
    faults: tuple[FaultLocation, ...] = Field(default=(), max_length=100)
    note: Annotated[str, Field(max_length=10_000), AfterValidator(_printable)] = ""


# ---- alarms become cases --------------------------------------------------------------------------------------------


def open_case(session: Session, asset_id: int) -> Case | None:
    """Return the open case of an asset."""
    return session.scalars(select(Case).where(Case.asset_id == asset_id, Case.closed.is_(None))).first()


def join_case(session: Session, recording: Recording, before: Sequence[Recording]) -> None:
    """Let an anomalous recording join the open case of its asset; an alarm opens one, and brings its run along.

    `before` are the recordings before it, latest first.
    """
    case = open_case(session, recording.asset_id)
    if case is None and not recording.alarm:
        return
    kind, joining = "case.evidence", [recording]
    if case is None:
        kind = "case.opened"
        case = Case(asset_id=recording.asset_id, evidence=0, probability=-1.0)
        session.add(case)
        for one in before:
            if one.case_id is not None or one.held_back != TOO_FEW:
                break
            joining.insert(0, one)
    for one in joining:
        _add_evidence(case, one)
    session.flush()
    for one in joining:
        one.case_id = case.id
    session.flush()
    name = f"{case.id}" if kind == "case.opened" else f"{case.id}/{recording.id}"
    announce(session, kind, name, {"case": case_facts(case), "recording": recording.id})


def _add_evidence(case: Case, recording: Recording) -> None:
    case.evidence += 1
    case.updated = now()
    if (recording.probability or 0.0) <= case.probability:
        return
    case.probability, case.trust = recording.probability or 0.0, recording.trust
    diagnosis = recording.diagnosis or {}
    sensors, segments = diagnosis.get("interpretation") or [], diagnosis.get("segments") or []
    case.top_sensor = sensors[0]["sensor"] if sensors else None
    case.moment_start, case.moment_end = (segments[0]["start"], segments[0]["end"]) if segments else (None, None)


def case_facts(case: Case) -> dict[str, Any]:
    """Return what is known of a case, for JSON."""
    names = (
        *("id", "asset_id", "evidence", "probability", "top_sensor", "moment_start", "moment_end", "trust"),
        *("label", "fault_code"),
    )
    times = {name: getattr(case, name) for name in ("created", "updated", "closed")}
    return {name: getattr(case, name) for name in names} | {
        name: None if value is None else value.isoformat() for name, value in times.items()
    }


def announce(session: Session, kind: str, name: str, content: dict[str, Any]) -> None:
    """Queue an event for each sink, in the transaction that caused it."""
    event = f"{kind}/{name}"
    message = {"event": event, "kind": kind, "time": now().isoformat(), **content}
    for sink in session.scalars(select(Sink).where(Sink.removed.is_(None))):
        session.add(Delivery(sink_id=sink.id, event=event, content=message))


# ---- feedback -------------------------------------------------------------------------------------------------------


def give_feedback(session: Session, about: Case | Recording, verdict: Verdict, author: str, *, close: bool) -> Feedback:
    """Record what a person says; it becomes the label of the recording, or of those that joined the case.

    Recordings with feedback of their own keep that. With `close`, the case is closed.
    """
    said = Feedback(
        case_id=about.id if isinstance(about, Case) else None,
        recording_id=about.id if isinstance(about, Recording) else None,
        author=author,
        **verdict.model_dump(mode="json"),
    )
    session.add(said)
    if isinstance(about, Recording):
        _label(about, verdict)
        session.flush()
        return said
    session.get(Asset, about.asset_id, with_for_update=True)  # a detection that comes now waits
    session.refresh(about)
    about.label, about.fault_code, about.updated = verdict.label, verdict.fault_code, now()
    own = select(Feedback.recording_id).where(Feedback.recording_id.is_not(None))
    strongest: Recording | None = None
    for one in session.scalars(select(Recording).where(Recording.case_id == about.id, Recording.id.not_in(own))):
        _label(one, verdict.model_copy(update={"faults": ()}))
        if strongest is None or (one.probability or 0) > (strongest.probability or 0):
            strongest = one
    if strongest is not None:  # moments were marked on what the case shows
        _label(strongest, verdict)
    session.flush()
    if close and about.closed is None:
        about.closed = now()
        announce(session, "case.closed", f"{about.id}", {"case": case_facts(about)})
    session.flush()
    return said


def _label(recording: Recording, verdict: Verdict) -> None:
    recording.label, recording.fault_code = verdict.label, verdict.fault_code
    recording.faults = [one.model_dump(mode="json") for one in verdict.faults] or None


def feedback_on(session: Session, about: Case | Recording) -> Sequence[Feedback]:
    """Return what people said about a case or a recording, latest first."""
    column = Feedback.case_id if isinstance(about, Case) else Feedback.recording_id
    return session.scalars(select(Feedback).where(column == about.id).order_by(Feedback.id.desc())).all()


# ---- queries --------------------------------------------------------------------------------------------------------


class Page(NamedTuple):
    """Some rows of a list, and how many there are in all."""

    items: Sequence[Any]
    total: int


class CaseFilter(Settings):
    """Which cases to list, and in what order."""

    status: Literal["open", "closed", "all"] = "open"
    asset: Name | None = None
    label: Label | None = None
    search: Name | None = Field(default=None, description="In the asset, the sensor, the fault code and the notes.")
    order: Literal["rank", "newest"] = Field(default="rank", description="Rank: the most probable first.")
    limit: int = Field(default=50, ge=1, le=500)
    offset: int = Field(default=0, ge=0, le=1_000_000)


class RecordingFilter(Settings):
    """Which recordings to list; the newest first."""

    asset: Name | None = None
    case: int | None = Field(default=None, ge=1, le=MAX_ID)
    label: Label | None = None
    anomalous: bool | None = None
    limit: int = Field(default=50, ge=1, le=500)
    offset: int = Field(default=0, ge=0, le=1_000_000)


def find_cases(session: Session, wanted: CaseFilter) -> Page:
    """Return the cases of a filter."""
    found = select(Case)
    if wanted.asset is not None or wanted.search is not None:
        found = found.join(Asset, Case.asset_id == Asset.id)
    if wanted.status != "all":
        found = found.where(Case.closed.is_(None) if wanted.status == "open" else Case.closed.is_not(None))
    if wanted.asset is not None:
        found = found.where(Asset.name == wanted.asset)
    if wanted.label is not None:
        found = found.where(Case.label == wanted.label)
    if wanted.search is not None:
        noted = select(Feedback.case_id).where(_contains(Feedback.note, wanted.search), Feedback.case_id.is_not(None))
        texts = (Asset.name, Case.top_sensor, Case.fault_code)
        found = found.where(or_(*(_contains(one, wanted.search) for one in texts), Case.id.in_(noted)))
    order = (Case.probability.desc(), Case.id.desc()) if wanted.order == "rank" else (Case.id.desc(),)
    return _page(session, Case, found, order, wanted.limit, wanted.offset)


def find_recordings(session: Session, wanted: RecordingFilter) -> Page:
    """Return the recordings of a filter."""
    found = select(Recording)
    if wanted.asset is not None:
        asset = select(Asset.id).where(Asset.name == wanted.asset).scalar_subquery()
        found = found.where(Recording.asset_id == asset)
    for column, value in (
        (Recording.case_id, wanted.case),
        (Recording.label, wanted.label),
        (Recording.anomalous, wanted.anomalous),
    ):
        if value is not None:
            found = found.where(column == value)
    return _page(session, Recording, found, (Recording.id.desc(),), wanted.limit, wanted.offset)


def find_assets(session: Session, search: str | None, limit: int, offset: int) -> Page:
    """Return assets by name, each with its number of recordings and its open case."""
    found = select(Asset)
    if search is not None:
        found = found.where(_contains(Asset.name, search))
    total = session.scalar(select(func.count()).select_from(found.subquery())) or 0
    chosen = session.scalars(found.order_by(Asset.name).limit(limit).offset(offset)).all()
    return Page([asset_facts(session, one) for one in chosen], total)


def asset_facts(session: Session, asset: Asset) -> dict[str, Any]:
    """Return what is known of an asset, for JSON."""
    mine = select(func.count(), func.max(Recording.created)).where(Recording.asset_id == asset.id)
    recordings, last = session.execute(mine).one()
    case = open_case(session, asset.id)
    closed = select(func.count()).where(Case.asset_id == asset.id, Case.closed.is_not(None))
    policy = session.scalars(select(Policy.id).where(Policy.asset_id == asset.id).limit(1)).first()
    return {
        "id": asset.id,
        "name": asset.name,
        "created": asset.created,
        "recordings": recordings,
        "last_recording": last,
        "open_case": None if case is None else case.id,
        "closed_cases": session.scalar(closed) or 0,
        "own_policy": policy is not None,
    }


def require(found: Any, what: str, number: int) -> Any:
    """Return what was found; raise an error if that is nothing."""
    if found is None:
        raise NotFoundError(f"expected the number of a {what}, got {number}, which none has; list them")
    return found


class NotFoundError(DfstransError):
    """There is no such thing."""


def _contains(column: Any, text: str) -> ColumnElement[bool]:
    return func.lower(column).contains(text.lower(), autoescape=True)


def _page(session: Session, kind: Any, found: Any, order: tuple[Any, ...], limit: int, offset: int) -> Page:
    numbers = found.with_only_columns(kind.id)
    total = session.scalar(select(func.count()).select_from(numbers.subquery()))
    chosen = session.scalars(numbers.order_by(*order).limit(limit).offset(offset)).all()  # rows before it are not read
    return Page(session.scalars(select(kind).where(kind.id.in_(chosen)).order_by(*order)).all(), total or 0)
