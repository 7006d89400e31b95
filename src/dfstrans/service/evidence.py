"""What a page shows of a recording: its signals, reduced to what a screen can show, with normal ranges and moments."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

import anyio
import numpy as np
from anyio import to_thread
from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select, union
from sqlalchemy.orm import Session

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.ranking import runs_of
from dfstrans.diagnosis.schema import RankedSegment
from dfstrans.errors import DfstransError
from dfstrans.report.views import Span, named, spans_of, thinned
from dfstrans.service.alarms import Name
from dfstrans.service.api import Id, Reader, ServiceOf
from dfstrans.service.cases import feedback_on, require
from dfstrans.service.database import Case, Feedback, Job, Promotion, Recording
from dfstrans.service.workspace import Workspace

MOST_STREAMS = 100  # pages that listen at a time
EVERY = 1.0  # seconds between looks for changes
SPARK_POINTS = 120
SPARK = (120, 28)  # width and height
router = APIRouter(prefix="/api/v1")


# ---- queries --------------------------------------------------------------------------------------------------------


def strongest(session: Session, cases: Sequence[int]) -> dict[int, Recording]:
    """Return the most probable recording of each case, which the case is described by."""
    found = (
        select(Recording)
        .join(Case, (Recording.case_id == Case.id) & (Recording.probability == Case.probability))
        .where(Case.id.in_(cases))
        .order_by(Recording.id.desc())
    )
    return {one.case_id: one for one in session.scalars(found) if one.case_id is not None}


def fault_codes(session: Session) -> Sequence[str]:
    """Return the fault codes that people have used."""
    said = union(select(Case.fault_code), select(Recording.fault_code)).subquery()
    return [one for one in session.scalars(select(said.c[0]).order_by(said.c[0]).limit(500)) if one]


def feedback_on_recording(session: Session, number: int) -> Sequence[Feedback]:
    """Return what people said about a recording, latest first."""
    return feedback_on(session, require(session.get(Recording, number), "recording", number))


def latest(session: Session) -> dict[str, Any]:
    """Return what changes whenever cases, models or jobs change."""
    numbers = {
        kind.__tablename__: session.scalar(select(func.max(kind.id))) for kind in (Recording, Feedback, Promotion)
    }
    job = session.execute(select(Job.id, Job.state, Job.progress, Job.message).order_by(Job.id.desc()).limit(1)).first()
    return {**numbers, "job": None if job is None else list(job)}


# ---- the signals of a recording -------------------------------------------------------------------------------------


def spans_to_look_at(content: dict[str, Any]) -> list[Span]:
    """Return the moments to look at of a diagnosis in its JSON form, as its report does."""
    marked = [RankedSegment(**one) for one in content["segments"][: content["marked_segments"]]]
    return spans_of(runs_of(marked))


def plot_content(
    workspace: Workspace, row: Recording, sensors: Sequence[str], start: float, end: float | None, most: int
) -> dict[str, Any]:
    """Return the signals of a recording from `start` to `end` with at most `most` values each, and what lies behind."""
    one = workspace.signal(row.content, row.episode)
    unknown = sorted(set(sensors) - set(one.sensors))
    if unknown:
        raise DfstransError(f"expected sensors of the recording, got {', '.join(unknown[:5])}; choose from its sensors")
    step, length = one.interval or 1.0, int(one.lengths[0])
    first = min(int(start / step), length - 1)
    last = length if end is None else max(first + 2, min(length, int(np.ceil(end / step)) + 1))
    normal, series = normal_range(workspace, row, one), []
    for name in sensors or one.sensors:
        sensor = one.sensors.index(name)
        line = thinned(np.asarray(one.values)[0, sensor, first:last], step, most)
        time = line.time + first * step
        band = normal.get(name)
        edges = [] if band is None else [np.interp(time, band[0], edge) for edge in band[1].T]
        series.append(
            {
                "sensor": name,
                "title": named(name, one.units[sensor]),
                "start": float(time[0]),
                "step": line.step,
                "values": _rounded(line.values),
                "low": _rounded(edges[0]) if edges else None,
                "high": _rounded(edges[1]) if edges else None,
            }
        )
    return {
        "time_title": f"time in {one.time_unit or '?'}" if one.interval else "time in points",
        "length": length * step,
        "whole": first == 0 and last == length,
        "moments": [] if row.diagnosis is None else [[one.start, one.end] for one in spans_to_look_at(row.diagnosis)],
        "faults": row.faults or [],
        "sensors": list(one.sensors),
        "series": series,
    }


def normal_range(workspace: Workspace, row: Recording, one: Episodes) -> dict[str, tuple[Any, Any]]:
    """Return, for each sensor, the times and the lowest and highest values of normal recordings; {} if unknown."""
    detector: Any = None if row.version is None else workspace.detector(row.version.checksum)
    reference = getattr(detector, "reference_", None)
    if reference is None:
        return {}
    step, length, segment = one.interval or 1.0, int(one.lengths[0]), detector.network_settings_.segment_length
    course = reference.fleet.of(row.asset.name).course.of_length(length, segment, reference.n_segments)
    per_segment = len(course) // count_segments(length, segment)
    times = (np.arange(len(course)) + 0.5) / per_segment * segment * step
    return {name: (times, course[:, sensor]) for sensor, name in enumerate(detector.sensors_)}


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def spark_line(workspace: Workspace, row: Recording, sensor: str | None) -> str:
    """Draw the signal of a sensor, small, with the moments to look at."""
    one = workspace.signal(row.content, row.episode)
    values = np.asarray(one.values)[0, one.sensors.index(sensor) if sensor in one.sensors else 0, : int(one.lengths[0])]
    line = thinned(values, 1.0, SPARK_POINTS).values
    low, high = (np.nanmin(line), np.nanmax(line)) if np.isfinite(line).any() else (0.0, 1.0)
    width, height = SPARK
    x = np.linspace(0, width, len(line))
    y = height - 2 - (line - low) / ((high - low) or 1.0) * (height - 4)
    pieces, pen = [], "M"
    for at, value in zip(x, y, strict=True):
        if np.isfinite(value):
            pieces.append(f"{pen}{at:.1f} {value:.1f}")
        pen = "L" if np.isfinite(value) else "M"
    whole = len(values) * (one.interval or 1.0)
    marks = "".join(
        f'<rect x="{start / whole * width:.1f}" y="0" width="{max(2, (end - start) / whole * width):.1f}" '
        f'height="{height}" fill="#d1495b" fill-opacity=".35"/>'
        for _, _, start, end, *_ in (spans_to_look_at(row.diagnosis) if row.diagnosis else ())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'{marks}<path d="{"".join(pieces)}" fill="none" stroke="#6a8caf" stroke-width="1.3"/></svg>'
    )


# ---- routes ---------------------------------------------------------------------------------------------------------


@router.get("/recordings/{number}/plot", tags=["recordings"])
def get_plot(
    service: ServiceOf,
    _: Reader,
    number: Id,
    sensor: Annotated[list[Name] | None, Query(description="Sensors; by default all.")] = None,
    start: Annotated[float, Query(ge=0, le=1e12, description="From the start of the recording.")] = 0.0,
    end: Annotated[float | None, Query(gt=0, le=1e12)] = None,
    most: Annotated[
        int, Query(ge=10, le=16_000, description="Values of a signal: lowest and highest of each part.")
    ] = 2000,
) -> dict[str, Any]:
    """Get the signals of a recording as a screen shows them, the range of normal ones and the moments to look at."""
    with service.workspace.reading() as session:
        row = require(session.get(Recording, number), "recording", number)
    return plot_content(service.workspace, row, sensor or [], start, end, most)


@router.get("/cases/{number}/spark.svg", include_in_schema=False)
def get_spark_line(service: ServiceOf, _: Reader, number: Id) -> Response:
    """Get a small picture of the first sensor of a case."""
    with service.workspace.reading() as session:
        case = require(session.get(Case, number), "case", number)
        row = require(strongest(session, [number]).get(number), "case with recordings", number)
    headers = {"Cache-Control": "private, max-age=86400", "Content-Security-Policy": "default-src 'none'"}
    return Response(spark_line(service.workspace, row, case.top_sensor), media_type="image/svg+xml", headers=headers)


@router.get("/recordings/{number}/report", tags=["recordings"], response_class=Response)
def get_report(service: ServiceOf, _: Reader, number: Id) -> Response:
    """Get the one-file report of a recording, as `dfstrans diagnose --html` writes it."""
    from dfstrans.diagnosis.recordings import recordings_of
    from dfstrans.report.diagnosis_page import write_diagnosis

    with service.workspace.reading() as session:
        row = require(session.get(Recording, number), "recording", number)
    detector = None if row.version is None else service.workspace.detector(row.version.checksum)
    if detector is None or not hasattr(detector, "diagnose"):
        raise DfstransError(f"expected a recording that a model can explain, got {number}, which none does")
    one = service.workspace.signal(row.content, row.episode)
    one = detector.check_input(replace(one, groups=np.array([row.asset.name])))
    diagnosis = next(detector.diagnose(one, trust=True))
    with service.workspace.temporary_folder() as folder:
        page = write_diagnosis(folder / "report.html", diagnosis, recordings_of(detector, one)(0)).read_bytes()
    name = quote(f"{row.asset.name}-{row.episode}.html")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(page, media_type="text/html", headers=headers)


@router.get("/events", include_in_schema=False)  # it does not end
async def listen(service: ServiceOf, _: Reader) -> StreamingResponse:
    """Tell a page, by server-sent events, whenever cases, models or jobs change."""
    if service.streams >= MOST_STREAMS:
        raise HTTPException(503, "expected fewer pages that listen; close some", {"Retry-After": "30"})
    return StreamingResponse(_changes(service), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _changes(service: Any) -> AsyncIterator[str]:
    def look() -> dict[str, Any]:
        with service.workspace.reading() as session:
            return latest(session)

    service.streams += 1
    try:
        before: dict[str, Any] | None = None
        while not service.leaving():
            found = await to_thread.run_sync(look)
            if found != before:
                yield f"data: {json.dumps(found)}\n\n"
                before = found
            await anyio.sleep(EVERY)
    finally:
        service.streams -= 1
