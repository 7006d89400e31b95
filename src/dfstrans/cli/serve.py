"""`dfstrans serve`: serve a workspace over HTTP, and make its tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dfstrans.cli.output import progress, remark
from dfstrans.errors import DfstransError, require_package

app = typer.Typer(add_completion=False)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WorkspaceFolder = Annotated[
    Path, typer.Option("--workspace", help="Folder that keeps everything; created if absent.", show_default=False)
]
DatabaseAddress = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="DFSTRANS_DATABASE",
        help="PostgreSQL, such as postgresql://user@host/name. Default: SQLite in the workspace.",
    ),
]


@app.callback(invoke_without_command=True, epilog="Example: dfstrans serve --workspace plant --model model")
def serve(
    context: typer.Context,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", help="Folder that keeps everything; created if absent.")
    ] = None,
    database: DatabaseAddress = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="Saved model to register; it is promoted if none is active.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than this need tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8000,
    tokens: Annotated[bool, typer.Option("--tokens", help="Require tokens on 127.0.0.1, too.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Fill a workspace without recordings with simulated elevators.")
    ] = False,
) -> None:
    """Serve a workspace over HTTP: recordings in, cases out.

    On 127.0.0.1, everybody on this computer may do everything. On another address, tokens are required; put a proxy
    with TLS in front.
    """
    if context.invoked_subcommand is not None:
        return
    for package in ("fastapi", "uvicorn", "sqlalchemy", "alembic", "psycopg", "prometheus_client"):
        require_package(package, "serve", "the service")
    if workspace is None:
        raise DfstransError("expected a folder for --workspace, got none; name one, which is created if absent")
    import uvicorn

    from dfstrans.service.app import create_app, has_tokens, log_to_stderr
    from dfstrans.service.database import ModelVersion
    from dfstrans.service.versions import active_version, promote, register
    from dfstrans.service.workspace import Workspace

    opened = Workspace(workspace, database)
    require_tokens = tokens or host not in LOOPBACK
    if require_tokens and not has_tokens(opened):
        raise DfstransError(
            f"expected a token for {host}, got none; make one with dfstrans serve token --workspace {workspace} --name "
            "NAME --scope admin"
        )
    if model is not None:
        number = register(opened, model, "registered", "command line")
        with opened.writing() as session:
            if active_version(session) is None:
                promote(session, session.get_one(ModelVersion, number), "command line")
    if demo:
        from dfstrans.lab.elevator.demo_workspace import fill_workspace

        fill_workspace(opened, remark=remark, progress=progress)
    log_to_stderr()
    remark(f"serving {workspace} on http://{host}:{port} (Ctrl-C stops)")
    service = create_app(opened, require_tokens=require_tokens)
    config = uvicorn.Config(
        service,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=30,
        server_header=False,
    )
    server = uvicorn.Server(config)
    service.state.service.leaving = lambda: server.should_exit
    try:
        server.run()
    finally:
        opened.close()


@app.command("token", epilog="Example: dfstrans serve token --workspace plant --name plc-7 --scope write")
def token(
    workspace: WorkspaceFolder,
    name: Annotated[str, typer.Option("--name", help="Who or what uses the token.", show_default=False)],
    scope: Annotated[
        Literal["read", "write", "admin"],
        typer.Option("--scope", help="read, write (recordings and feedback as well) or admin (everything)."),
    ] = "read",
    revoke: Annotated[bool, typer.Option("--revoke", help="Make the token of this name unusable.")] = False,
    database: DatabaseAddress = None,
) -> None:
    """Make a token of the API, which is printed once, or revoke it."""
    require_package("sqlalchemy", "serve", "the service")
    from dfstrans.service.tokens import make_token, revoke_token
    from dfstrans.service.uploads import is_name
    from dfstrans.service.workspace import Workspace

    if not is_name(name):
        raise DfstransError(f"expected a name of 1 to 200 characters without control characters, got {name!r}")
    opened = Workspace(workspace, database)
    try:
        with opened.writing() as session:
            if revoke:
                revoke_token(session, name)
            else:
                made = make_token(session, name, scope)
    finally:
        opened.close()
    if not revoke:
        print(made)
    remark(f"{'revoked' if revoke else 'made'} the token {name}")
