"""`dfstrans experiments`: compute a queue of runs for the paper's tables, or show its progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dfstrans.cli.output import INTERRUPTED, AsJson, print_columns, print_json, remark
from dfstrans.errors import DfstransError, counted
from dfstrans.progress import duration

if TYPE_CHECKING:  # a wrong option is reported before slow libraries load
    from dfstrans.lab.compare.grid import RunOutcome
    from dfstrans.lab.paper.queue import Progress, Wanted

RUN = "Example: dfstrans experiments run results/queue.toml --data DATA"
STATUS = "Example: dfstrans experiments status results/queue.toml"
FIELDS = ("results", "model", "finished", "runs", "hours_left")
COLUMNS = tuple(name.replace("_", " ") for name in FIELDS)

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Compute a queue of runs, or show its progress.")

Queue = Annotated[Path, typer.Argument(help="TOML file that lists the runs, the most informative first.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the results (default: that of the queue).", show_default=False),
]


@app.command("run", epilog=RUN)
def run(
    queue: Queue = Path("results/queue.toml"),
    out: Out = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with the public data, as for reproduce.", show_default=False),
    ] = None,
) -> None:
    """Compute the unfinished runs of a queue, one after the other in one thread.

    Finished runs are stored as by `dfstrans reproduce`. Stop it at any time; the same command resumes it.
    The exit code is 1 if a run failed.
    """
    from dfstrans.lab.paper.queue import compute_queue, progress_of, read_queue
    from dfstrans.lab.paper.request import data_folder

    wanted, place = read_queue(queue), out or queue.parent
    remark(_summary(progress_of(wanted, place)))

    def end(run: Wanted, outcome: RunOutcome) -> None:
        if outcome is None:
            remark(f"{run.label}: another command computes it")
        elif isinstance(outcome, DfstransError):
            remark(f"{run.label} failed: {outcome}")
        else:
            took = duration(outcome.training.seconds)
            remark(f"{run.label}: F1 {outcome.test['f1']:.3f}, PR-AUC {outcome.test['pr_auc']:.3f}, in {took}")

    try:
        failed = compute_queue(wanted, place, data_folder(data), lambda run: remark(f"{run.label}: started"), end)
    except KeyboardInterrupt:
        remark(f"dfstrans: interrupted; finished runs and epochs are kept in {place}; repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None
    remark(_summary(progress_of(wanted, place)))
    raise typer.Exit(1 if failed else 0)


@app.command("status", epilog=STATUS)
def status(queue: Queue = Path("results/queue.toml"), out: Out = None, as_json: AsJson = False) -> None:
    """Show which runs of a queue are finished, and how long the others take, if that is known."""
    from dfstrans.lab.paper.queue import progress_of, read_queue

    wanted = read_queue(queue)
    progress = progress_of(wanted, out or queue.parent)
    groups: dict[tuple[str, str], list[Wanted]] = {}
    for run in wanted:
        groups.setdefault((run.place, run.model), []).append(run)
    rows = []
    for (place, model), runs in groups.items():
        left = [progress.left[run] for run in runs if run in progress.left]
        known = [seconds for seconds in left if seconds is not None]
        hours = round(sum(known) / 3600, 2) if len(known) == len(left) else None
        rows.append((place, model, len(runs) - len(left), len(runs), hours))
    if as_json:
        content = {
            "runs": len(wanted),
            "finished": len(progress.finished),
            "hours_left": round(progress.seconds / 3600, 2),
            "of_unknown_duration": progress.unknown,
            "models": [dict(zip(FIELDS, row, strict=True)) for row in rows],
        }
        print_json(content)
        return
    shown = [(*map(str, row[:4]), "unknown" if row[4] is None else f"{row[4]:.1f}") for row in rows]
    print_columns(COLUMNS, shown, words=COLUMNS[:2])
    for run, epochs in progress.begun.items():
        print(f"unfinished: {run.label}, {epochs.done} of {epochs.of} epochs")
    print(_summary(progress))


def _summary(progress: Progress) -> str:
    """How many runs are finished, and how long the others take."""
    there, left, unknown = len(progress.finished), len(progress.left), progress.unknown
    said = f"{there} of {counted(there + left, 'run')} finished"
    if not left:
        return said
    if unknown == left:
        return f"{said}, {left} left: duration unknown"
    some = f" for {left - unknown}, unknown for {unknown}" if unknown else ""
    return f"{said}, {left} left: about {progress.seconds / 3600:.1f} hours{some}"
