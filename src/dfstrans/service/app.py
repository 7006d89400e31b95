"""The application: one process that serves a workspace over HTTP."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dfstrans import __version__
from dfstrans.errors import DfstransError
from dfstrans.service import evidence
from dfstrans.service.api import router
from dfstrans.service.cases import NotFoundError
from dfstrans.service.database import Token
from dfstrans.service.jobs import JobRunner
from dfstrans.service.pages import add_pages
from dfstrans.service.scoring import Scoring
from dfstrans.service.sinks import Sender
from dfstrans.service.uploads import Limits, ReaderPool
from dfstrans.service.workspace import Workspace

PROBLEM = "application/problem+json"
JSON_BYTES = 1 << 20  # of a request that is no upload
LOOPBACK = ("127.0.0.1", "localhost", "::1")
logger = logging.getLogger("dfstrans.service")


class Metrics:
    """What `/metrics` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": "dfstrans"}
        self.requests = Counter("requests", "Answered requests.", ["method", "path", "status"], **made)
        self.seconds = Histogram("request_seconds", "Time until a request is answered.", ["path"], **made)
        self.recordings = Counter("recordings", "Recordings received.", ["outcome"], **made)
        self.uploads = Gauge("uploads_in_progress", "Uploads in progress.", **made)


class Service:
    """Everything that the routes need."""

    def __init__(self, workspace: Workspace, readers: ReaderPool, *, require_tokens: bool, at_once: int) -> None:
        self.workspace, self.readers, self.require_tokens, self.at_once = workspace, readers, require_tokens, at_once
        self.sender = Sender(workspace)
        self.scoring = Scoring(workspace, self.sender.wake)
        self.jobs = JobRunner(workspace)
        self.metrics = Metrics()
        self.uploads = self.streams = 0  # in progress
        self.leaving: Callable[[], bool] = lambda: False  # whether the process is told to stop

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Start what runs beside the requests; at the end, finish what was accepted."""
        with ExitStack() as stack:
            stack.callback(self.readers.close)
            stack.enter_context(self.workspace.only_service())
            for part in (self.sender, self.scoring, self.jobs):
                part.start()
                stack.callback(part.stop)
            self.threads = anyio.CapacityLimiter(self.at_once)  # so that uploads leave threads to others
            yield
        logger.info("stopped")


def create_app(
    workspace: Workspace,
    *,
    readers: ReaderPool | None = None,
    require_tokens: bool = False,
    hosts: tuple[str, ...] | None = None,
    uploads_at_once: int = 32,
) -> FastAPI:
    """Return the application that serves a workspace.

    Without tokens, everybody who reaches it may do everything, so requests must name one of `hosts`, by default those
    of this computer: a page of another site that a browser shows cannot use the service.
    """
    pool = readers or ReaderPool(Limits())
    service = Service(workspace, pool, require_tokens=require_tokens, at_once=uploads_at_once)
    app = FastAPI(
        title="dfstrans",
        version=__version__,
        summary="Recordings in, cases out: what went wrong, when and where.",
        lifespan=service.running,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        separate_input_output_schemas=False,
    )
    app.state.service = service
    app.include_router(router)
    app.include_router(evidence.router)
    add_pages(app)
    _add_probes(app, service)
    for kind, handler in _HANDLERS:
        app.add_exception_handler(kind, handler)
    if hosts is None and not require_tokens:
        hosts = LOOPBACK
    app.add_middleware(Gate, service=service, hosts=hosts)
    return app


def _add_probes(app: FastAPI, service: Service) -> None:
    """Add what monitoring asks for; it needs no token."""

    @app.get("/healthz", tags=["monitoring"], summary="Whether the process answers.")
    def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", tags=["monitoring"], summary="Whether recordings can be accepted.", responses={503: {}})
    def readyz() -> Response:
        checks = {"scoring": service.scoring.alive, "uploads": service.uploads < service.at_once}
        try:
            checks["database"] = workspace_is_current(service.workspace)
        except OperationalError:
            checks["database"] = False
        return JSONResponse({"ready": all(checks.values()), "checks": checks}, 200 if all(checks.values()) else 503)

    @app.get("/metrics", tags=["monitoring"], summary="Metrics for Prometheus.", response_class=PlainTextResponse)
    def metrics() -> Response:
        service.metrics.uploads.set(service.uploads)
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def workspace_is_current(workspace: Workspace) -> bool:
    """Return whether the database answers and has the tables of this version."""
    return workspace.database.is_current()


def has_tokens(workspace: Workspace) -> bool:
    """Return whether there is a token that is not revoked."""
    with workspace.reading() as session:
        return session.scalars(select(Token.id).where(Token.revoked.is_(None)).limit(1)).first() is not None


# ---- errors: RFC 9457 -----------------------------------------------------------------------------------------------

TITLES = {
    400: "Bad request", 401: "Token required", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    409: "Conflict", 413: "Too large", 415: "Unknown format", 422: "Not usable", 500: "Internal error", 503: "Busy",
}  # fmt: skip


def problem(request: Request, status: int, detail: str, headers: Any = None, **more: Any) -> JSONResponse:
    """Return an error in the shape of RFC 9457."""
    content = {
        "type": "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "instance": request.url.path,
        "request_id": request.scope.get("request_id", ""),
        **more,
    }
    return JSONResponse(content, status, headers=headers, media_type=PROBLEM)


def _of_user(request: Request, error: Exception) -> JSONResponse:
    return problem(request, 404 if isinstance(error, NotFoundError) else 422, str(error))


def _of_http(request: Request, error: Any) -> JSONResponse:
    return problem(request, error.status_code, str(error.detail), error.headers)


def _of_validation(request: Request, error: Any) -> JSONResponse:
    errors = [{"where": ".".join(map(str, one["loc"])), "message": str(one["msg"])} for one in error.errors()]
    detail = "; ".join(f"{one['where']}: {one['message']}" for one in errors[:5])
    return problem(request, 422, f"expected a request as the documentation says, got {detail}", errors=errors[:50])


def _of_database(request: Request, error: Exception) -> JSONResponse:
    logger.error("database", extra={"error": str(error).splitlines()[0]})
    return problem(request, 503, "the database does not answer; try again later", {"Retry-After": "5"})


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    return problem(request, 500, "something went wrong; the log has the details under this request_id")


_HANDLERS: tuple[tuple[Any, Any], ...] = (
    (DfstransError, _of_user),
    (HTTPException, _of_http),
    (RequestValidationError, _of_validation),
    (OperationalError, _of_database),
    (Exception, _unexpected),
)


# ---- every request --------------------------------------------------------------------------------------------------


class Gate:
    """Gives each request an id, refuses foreign hosts and sites and large bodies, and logs and counts the answer."""

    def __init__(self, app: ASGIApp, service: Service, hosts: tuple[str, ...] | None) -> None:
        self.app, self.service, self.hosts = app, service, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, began, status, received = Request(scope), time.perf_counter(), 500, 0
        scope["request_id"] = _request_id(request.headers.get("x-request-id"))
        upload = scope["method"] == "POST" and scope["path"] == "/api/v1/recordings"
        most = self.service.readers.limits.bytes if upload else JSON_BYTES

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, f"expected at most {most} bytes in this request, got more; send smaller parts")
            return message

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = {"x-request-id": scope["request_id"], "x-content-type-options": "nosniff"}
                message["headers"] = [
                    *message.get("headers", []),
                    *((k.encode(), v.encode()) for k, v in added.items()),
                ]
            await send(message)

        try:
            refused = self._refusal(request)
            if refused is not None:
                await refused(scope, receive, marked)
            else:
                await self.app(scope, limited, marked)
        except Exception as error:  # the answer was sent by the handler
            logger.error(
                "error", extra={"request_id": scope["request_id"], "error": "".join(traceback.format_exception(error))}
            )
        finally:
            seconds = time.perf_counter() - began
            route = scope.get("route")
            path = getattr(route, "path", "unknown")
            self.service.metrics.requests.labels(scope["method"] if route else "", path, str(status)).inc()
            self.service.metrics.seconds.labels(path).observe(seconds)
            caller = scope.get("caller")
            about = {"method": scope["method"], "path": path, "status": status, "seconds": round(seconds, 4)}
            logger.info(
                "request", extra={"request_id": scope["request_id"], **about, "caller": caller, "bytes": received}
            )

    def _refusal(self, request: Request) -> JSONResponse | None:
        host = (request.url.hostname or "").lower()
        if self.hosts is not None and host not in self.hosts:
            return problem(request, 403, f"expected a request to {', '.join(self.hosts)}, got one to another host")
        origin = request.headers.get("origin")
        same = origin is None or origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
        if request.method not in ("GET", "HEAD", "OPTIONS") and not same and "authorization" not in request.headers:
            return problem(request, 403, "expected a request of this site's own pages, got one of another site")
        return None


def _request_id(given: str | None) -> str:
    usable = (
        given is not None
        and 0 < len(given) <= 64
        and all(one.isascii() and (one.isalnum() or one in "-_.") for one in given)
    )
    return given if usable and given is not None else uuid4().hex


class JsonLines(logging.Formatter):
    """Formats each log record as a line of JSON, without secrets and signals."""

    _standard = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in self._standard and value is not None},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(jsonable_encoder(line))


def log_to_stderr() -> None:
    """Log in lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("dfstrans", "uvicorn"):
        one = logging.getLogger(name)
        one.handlers, one.propagate = [handler], False
        one.setLevel(logging.INFO)
