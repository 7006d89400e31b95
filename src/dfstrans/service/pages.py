"""The pages of the service in a browser; each shows what its twin in the REST interface answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import ValidationError
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.ranking import STANDS_OUT
from dfstrans.diagnosis.words import (
    ONLY_TREES_CALL,
    RANKED_BY_DROP,
    STILL_BY_DISTANCE,
    TREES_ALONE,
    TREES_FOR_NETWORK,
    callers,
    describe_baseline,
    describe_members,
    describe_trust,
    reasons_to_doubt,
)
from dfstrans.errors import DfstransError
from dfstrans.report.index import row_of
from dfstrans.report.views import scale_to
from dfstrans.service import api, evidence
from dfstrans.service.api import Id, Reader, ServiceOf
from dfstrans.service.cases import CaseFilter, NotFoundError, RecordingFilter

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
TITLES = {401: "A token is required", 403: "Not allowed", 404: "There is no such page", 422: "That cannot be shown"}
LOADER = PackageLoader(__package__)
TEMPLATES = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(template: str, twin: str, status: int = 200, **content: Any) -> HTMLResponse:
    """Fill a template; `twin` is the address of the same as JSON."""
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-cache"}
    return HTMLResponse(TEMPLATES.get_template(template).render(twin=twin, **content), status, headers)


class Readable(APIRoute):
    """A route whose errors are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handle = super().get_route_handler()

        async def handle_readably(request: Request) -> Response:
            try:
                return await handle(request)
            except HTTPException as error:
                status, detail = error.status_code, str(error.detail)
            except (RequestValidationError, ValidationError) as error:
                status, detail = 422, "; ".join(str(one["msg"]) for one in error.errors()[:3])
            except DfstransError as error:
                status, detail = 404 if isinstance(error, NotFoundError) else 422, str(error)
            return page("error.html", "", status, title=TITLES.get(status, "Something went wrong"), detail=detail)

        return handle_readably


router = APIRouter(include_in_schema=False, route_class=Readable, default_response_class=HTMLResponse)


def add_pages(app: FastAPI) -> None:
    """Add the pages to the service, with their style and script."""
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))


# ---- the inbox ------------------------------------------------------------------------------------------------------


@router.get("/")
def inbox(request: Request, service: ServiceOf, reader: Reader) -> HTMLResponse:
    """Show the cases of a filter; by default the open ones, the most probable first."""
    given = {name: value for name, value in request.query_params.items() if value}
    wanted = CaseFilter.model_validate(given)
    found = api.list_cases(service, reader, wanted)
    with service.workspace.reading() as session:
        shown = evidence.strongest(session, [one.id for one in found.items])
        rows = {number: row_of(one.diagnosis) for number, one in shown.items() if one.diagnosis}
    query = {name: value for name, value in given.items() if name != "offset"}
    return page("inbox.html", f"/api/v1/cases?{request.url.query}", found=found, rows=rows, wanted=wanted, query=query)


# ---- a case, a recording --------------------------------------------------------------------------------------------


@router.get("/cases/{number}")
def case(service: ServiceOf, reader: Reader, number: Id) -> HTMLResponse:
    """Show a case: the verdict on its most probable recording, its evidence, and what people said."""
    found = api.get_case(service, reader, number)
    with service.workspace.reading() as session:
        row = evidence.strongest(session, [number]).get(number)
        shown = None if row is None else api.RecordingAnswer.of(row)
        codes = evidence.fault_codes(session)
    earlier = api.list_cases(service, reader, CaseFilter(status="closed", asset=found.asset, order="newest", limit=6))
    return page(
        "case.html",
        f"/api/v1/cases/{number}",
        case=found,
        earlier=[one for one in earlier.items if one.id != number][:5],
        recording=shown,
        codes=codes,
        feedback=found.feedback,
        about=None if shown is None else about_diagnosis(shown.diagnosis),
    )


@router.get("/recordings/{number}")
def recording(service: ServiceOf, reader: Reader, number: Id) -> HTMLResponse:
    """Show a recording, which can be labelled with or without a model."""
    shown = api.get_recording(service, reader, number)
    with service.workspace.reading() as session:
        codes, said = evidence.fault_codes(session), evidence.feedback_on_recording(session, number)
    return page(
        "case.html",
        f"/api/v1/recordings/{number}",
        case=None,
        earlier=[],
        recording=shown,
        codes=codes,
        feedback=said,
        about=about_diagnosis(shown.diagnosis),
    )


def about_diagnosis(content: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a diagnosis in its JSON form as its report shows it: sentences, sensors and moments."""
    if content is None:
        return None
    clock, by_distance = Clock.of_content(content), content["ranked_by"] == "deviation"
    sensors, moments, trust = content["interpretation"], evidence.spans_to_look_at(content), content["trust"]
    scale = scale_to(sensors[0]["value"], by_distance=by_distance)
    suspected = content["suspected_instrument"]
    stands_out = by_distance and sensors[0]["deviation"] >= STANDS_OUT
    leading = "the decision depends most on"
    if by_distance:
        leading = "furthest from normal:" if stands_out else "nothing stands out; furthest from normal:"
    if content["is_anomaly"] and stands_out:
        leading = "then look at" if suspected not in (None, sensors[0]["sensor"]) else "start with"
    numbers = content["probability"], content["threshold"]
    doubts = reasons_to_doubt(
        content["baseline"],
        content["machine"],
        not_seen_before=content["verdict"] == "not seen before",
        members_disagree=content["members_disagree"],
        learned_little=False,
    )
    by_trees, why_ranked, trees_words = content["explained_by"] == "trees", "", ""
    if not by_distance:
        why_ranked = f"{RANKED_BY_DROP}."
    elif content["is_anomaly"] and (by_trees or (trust or {}).get("support") == "not supported"):
        why_ranked = f"{STILL_BY_DISTANCE}."
    if by_trees:
        both = "network" in callers(content["members"], content["threshold"])
        trees_words = TREES_ALONE if not content["members"] else TREES_FOR_NETWORK if both else ONLY_TREES_CALL
    return {
        "content": content,
        "sensors": [
            {
                **one,
                "share": 100 * scale.share(one["value"]),
                "when": clock.span(one["segments"][0]["start"], one["segments"][0]["end"]),
            }
            for one in sensors
        ],
        "moments": [
            {**one._asdict(), "share": 100 * scale.share(one.value), "when": clock.span(one.start, one.end)}
            for one in moments
        ],
        "leading": leading[0].upper() + leading[1:],
        "when": clock.span(moments[0].start, moments[0].end, " to "),
        "red": {name for one in moments for name in one.sensors},
        "ranking_title": "distance from normal" if by_distance else "drop in score",
        "decimals": 1 if by_distance else 2,
        "members": describe_members(content["members"], *numbers),
        "baseline": describe_baseline(content["baseline"], content["machine"]),
        "why_ranked": why_ranked,
        "trust_words": describe_trust(trust["support"], doubts) if trust else "",
        "trees_words": trees_words,
        "symptoms": [one for one in content["health"] if one["sensor"] == suspected],
    }


# ---- assets and models ----------------------------------------------------------------------------------------------


@router.get("/assets")
def assets(request: Request, service: ServiceOf, reader: Reader, search: str = "", offset: int = 0) -> HTMLResponse:
    """List the assets, and take uploads."""
    found = api.list_assets(service, reader, search[:200] or None, 50, max(0, min(offset, 1_000_000)))
    twin = f"/api/v1/assets?{request.url.query}" if search or offset else "/api/v1/assets"
    return page("assets.html", twin, found=found, search=search, offset=offset)


@router.get("/assets/{number}")
def asset(service: ServiceOf, reader: Reader, number: Id) -> HTMLResponse:
    """Show an asset: its baseline and whether it suffices, its cases and its recordings."""
    found = api.get_asset(service, reader, number)
    models = api.list_models(service, reader)
    baselines = [
        one
        for one in api.list_jobs(service, reader)
        if one.kind == "commission" and one.settings.get("asset") == number
    ]
    return page(
        "asset.html",
        f"/api/v1/assets/{number}",
        asset=found,
        active=next((one for one in models if one.active), None),
        jobs=baselines[:5],
        cases=api.list_cases(service, reader, CaseFilter(status="all", asset=found.name, order="newest", limit=20)),
        recordings=api.list_recordings(service, reader, RecordingFilter(asset=found.name, limit=20)),
    )


@router.get("/models")
def models(service: ServiceOf, reader: Reader) -> HTMLResponse:
    """Show model versions, candidates beside the active one, and the jobs that make them."""
    found, jobs = api.list_models(service, reader), api.list_jobs(service, reader)
    compared = {one.result["version"]: one for one in reversed(jobs) if one.kind == "train" and one.result}
    return page("models.html", "/api/v1/models", models=found, jobs=jobs[:8], compared=compared)
