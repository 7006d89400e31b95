"""`dfstrans watch`: score recordings as they arrive in a folder."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli.options import reading, warn_of_guessing
from dfstrans.cli.output import remark
from dfstrans.errors import DfstransError, counted, option_name, require_package

UNDELIVERED = 1  # exit code of --once if the receiver did not accept all events
ATTEMPTS = 6  # to deliver an event before --once gives up
app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans watch recordings --model model --webhook https://example.com/alarms")
@reading
def watch(
    folder: Annotated[Path, typer.Argument(help="Folder in which files of recordings arrive.", show_default=False)],
    model: Annotated[
        Path, typer.Option("--model", help="A saved model's folder, or an exported file.", show_default=False)
    ],
    read: dict[str, Any],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of results. Default: FOLDER-results, next to FOLDER.")
    ] = None,
    settle: Annotated[
        float,
        typer.Option("--settle", min=0.1, help="Seconds without a change after which a file counts as complete."),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Score the files that are there, and stop.")] = False,
    early: Annotated[
        Path | None,
        typer.Option("--early", help="Thresholds of early alarms, which `dfstrans evaluate --early` wrote."),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", help="Address to which each alarm is sent as JSON (POST).", metavar="URL")
    ] = None,
    webhook_secret_file: Annotated[
        Path | None, typer.Option("--webhook-secret-file", help="File with the secret that signs what is sent.")
    ] = None,
    webhook_events: Annotated[
        Literal["alarms", "all"], typer.Option("--webhook-events", help="What is sent: alarms, or all results.")
    ] = "alarms",
    diagnose: Annotated[bool, typer.Option("--diagnose", help="Diagnose each anomalous recording.")] = False,
    machine: Annotated[
        str | None,
        typer.Option("--machine", help="Machine that all these recordings come from. Default: the group of each."),
    ] = None,
    new_model: Annotated[
        bool,
        typer.Option("--new-model", help="Continue the results of another model, or of other options."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each row as a JSON line.")] = False,
) -> None:
    """Score recordings as they arrive, each exactly once, also after a crash; stop with Ctrl-C.

    Results are JSON lines in the folder of results; files and recordings that cannot be scored are in rejects.jsonl.
    """
    require_package("fsspec", "scale", "watching a folder")
    if not folder.is_dir():
        raise DfstransError(f"expected a folder to watch, got {folder}, which is none; check the path")
    if webhook_secret_file is not None and webhook is None:
        raise DfstransError(f"expected {option_name('webhook')} with {option_name('webhook_secret_file')}, got none")
    from pyarrow import enable_signal_handlers

    from dfstrans.detectors.early import EarlyWarning
    from dfstrans.scale.journal import Journal, only_watcher
    from dfstrans.scale.results import require_same_run, write_run
    from dfstrans.scale.scoring import Scorer
    from dfstrans.scale.watching import DELIVERED, Watcher
    from dfstrans.scale.webhook import Webhook, read_secret

    enable_signal_handlers(False)  # else a signal would end the reading of a file, as if that were damaged
    out = out or folder.resolve().with_name(f"{folder.resolve().name}-results")
    if folder.resolve().is_relative_to(out.resolve()):
        raise DfstransError(
            f"expected a folder of results beside {folder} or inside it, got {out}, where recordings would count as "
            f"results; choose another {option_name('out')}"
        )
    secret = b"" if webhook_secret_file is None else read_secret(webhook_secret_file)
    scorer = Scorer.load(model, read=read, machine=machine, diagnose=diagnose)
    if scorer.engine == "torch":
        warn_of_guessing(scorer.detector.chance_check)
    elif early is not None:
        raise DfstransError(f"expected a saved model with {option_name('early')}, got the exported file {model}")
    warning = None if early is None else EarlyWarning.load(early, scorer.version)
    for name in ("length", "clip_beyond"):
        value = getattr(scorer.options, name)
        if early is not None and value is not None:
            raise DfstransError(
                f"expected recordings that are neither cut nor clipped with {option_name('early')}, got "
                f"{option_name(name, value)}; omit one of them"
            )
    run = scorer.run() | {"command": "watch"}
    if not new_model:
        of_any_version = {name: value for name, value in run.items() if name != "dfstrans"}
        require_same_run(str(out), of_any_version, f", or continue with these ({option_name('new_model', True)})")
    with only_watcher(out):
        write_run(str(out), run)
        sender = None if webhook is None else Webhook(webhook, secret, Journal(out / DELIVERED), remark)
        watcher = Watcher(
            scorer,
            folder,
            out,
            settle=settle,
            early=warning,
            webhook=sender,
            send_all=webhook_events == "all",
            on_row=(lambda row: print(json.dumps(row), flush=True)) if as_json else _show,
            remark=remark,
        )
        before = {one: signal.signal(one, lambda *_: watcher.stop.set()) for one in (signal.SIGINT, signal.SIGTERM)}
        remark(f"watching {folder}; results in {out}")
        try:
            if sender is not None:
                sender.start()
            watcher.run(once=once)
        finally:
            enable_signal_handlers(True)
            for one, handler in before.items():
                signal.signal(one, handler)
            if sender is not None:
                sender.stop(ATTEMPTS if once and not watcher.stop.is_set() else 0)
    left = 0 if sender is None else sender.waiting
    counts = watcher.counts
    remark(
        f"scored {counted(counts['recordings'], 'recording')}, {counts['anomalous']} anomalous; "
        f"rejected {counts['rejected']}"
        + (f"; {counted(counts['early'], 'early alarm')}" if warning is not None else "")
        + (f"; {left} not delivered, to be sent by the next run" if left else "")
    )
    if once and left:
        raise typer.Exit(UNDELIVERED)


def _show(row: dict[str, Any]) -> None:
    """Print alarms and rejects in a line each."""
    name = f"{row['file']} {row.get('episode_id') or ''}".strip()
    if "reason" in row:
        remark(f"rejected {name}: {row['reason']}")
    elif row["anomalous"]:
        early = f" after {100 * row['share']:.0f} %" if "share" in row else ""
        print(
            f"anomalous {name}{early}: probability {row['probability']:.3g}, threshold {row['threshold']:.3g}",
            flush=True,
        )
