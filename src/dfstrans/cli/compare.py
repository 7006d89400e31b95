"""`dfstrans compare`: train and test several models on the same splits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli.compare_progress import RunProgress
from dfstrans.cli.options import Data, reading, setting_options
from dfstrans.cli.output import INTERRUPTED, AsJson, print_columns, print_json, remark
from dfstrans.errors import counted, list_few
from dfstrans.files import atomic_write
from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable
from dfstrans.lab.compare.figures import write_comparison, write_print_comparison
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.compare.leakage import LEAKAGE
from dfstrans.lab.compare.protocols import recordings_on_both_sides
from dfstrans.lab.compare.runs import require_some
from dfstrans.lab.compare.significance import is_leakage_baseline
from dfstrans.training.run_folder import can_resume, epochs_of

STORE = "runs.jsonl"  # in the results folder
WORDS = ("data", "model", "figure", "rival", "taken away", "note", "sensors")  # text columns of result tables
EXAMPLE = "Example: dfstrans compare recordings.csv --models dfstrans,boosting --folds 5 --out results"

app = typer.Typer(add_completion=False)

Jobs = Annotated[int, typer.Option(min=1, help="Number of parallel processes; each reads the recordings.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads per process (default: an equal share of torch's threads).", show_default=False),
]
Finished = Annotated[bool, typer.Option("--finished", help="Show only finished runs; compute nothing.")]


@app.command(epilog=EXAMPLE)
@reading
@setting_options()
def compare(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.", show_default=False)],
    read: dict[str, Any],
    settings: dict[str, Any],
    models: Annotated[
        str,
        typer.Option(
            "--models",
            help="Comma-separated names, optionally with settings (dfstrans+mixup=0); the first with a finished run is "
            "tested against the others.",
        ),
    ] = "dfstrans,boosting",
    folds: Annotated[int, typer.Option("--folds", min=1, help="Number of different 70/15/15 splits.")] = 5,
    split: Annotated[
        Literal["random", "grouped"], typer.Option(help="How to split; grouped keeps each group in one part.")
    ] = "random",
    jobs: Jobs = 1,
    threads: Threads = None,
    finished: Finished = False,
    as_json: AsJson = False,
) -> None:
    """Train and test several models on the same splits, and show which differences are significant.

    Every finished run (one model on one split) is kept in OUT. Repeat the command to resume an interrupted
    comparison or to add models or splits. The exit code is 1 if a run failed.
    """
    names = names_in(models)
    grid = Grid(Comparison(data, out / STORE, names, folds, split, read, settings))
    remark(repr(grid.episodes))
    _suggest_leakage_baseline(grid)
    failed = {} if finished else compute_with_progress(grid, jobs, threads)
    result = ComparisonResult(names, tuple(grid.finished()), folds)
    if finished:
        require_some(out, result.runs)
    written = [] if not result.runs or _is_partial(grid, out) else write_result(out, result)
    if as_json:
        print_json({**result.to_dict(), "failed": failed, "written": [str(path) for path in written]})
    else:
        for table in result.tables():
            print_table(table)
        for path in written:
            print(f"written   {path}")
    end_with(failed)


def names_in(text: str) -> tuple[str, ...]:
    """Split comma-separated names.

    >>> names_in("dfstrans, tapnet")
    ('dfstrans', 'tapnet')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def compute_with_progress(grid: Grid, jobs: int, threads: int | None) -> dict[str, str]:
    """Compute the unfinished runs and show progress; return error messages by run."""
    try:
        with RunProgress(grid, jobs) as shown:
            return compute_runs(grid, shown.begin, shown.end, jobs, threads)
    except KeyboardInterrupt:
        done = f"{len(grid.finished())} of {len(grid.keys)} runs{_epochs_kept(grid)}"
        place = grid.comparison.store.parent
        remark(f"dfstrans: interrupted; {done} are kept in {place}; repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None


def print_table(table: ResultTable) -> None:
    """Print a table with its title and notes."""
    print(table.title)
    print_columns(table.columns, table.rows, words=WORDS)
    for note in table.notes:
        print(note)
    print()


def end_with(failed: dict[str, str]) -> None:
    """Report failed runs, and exit with code 1 if there are any."""
    for label, message in failed.items():
        remark(f"failed: {label}: {message}")
    raise typer.Exit(1 if failed else 0)


def write_result(folder: Path, result: ComparisonResult) -> list[Path]:
    """Write the page, the tables as Markdown, and the figure if matplotlib is installed."""
    written = [write_comparison(folder / "comparison.html", result), folder / "comparison.md"]
    write_tables(folder / "comparison.md", result.tables())
    if find_spec("matplotlib") is None:
        remark("figures in SVG and PNG were skipped: they need matplotlib; pip install 'dfstrans[paper]'")
    else:
        written += write_print_comparison(folder, result)
    return written


def write_tables(path: Path, tables: list[ResultTable]) -> None:
    """Write tables as Markdown."""
    with atomic_write(path) as temporary:
        temporary.write_text("\n".join(table.to_markdown() for table in tables), encoding="utf-8")


def _suggest_leakage_baseline(grid: Grid) -> None:
    """Warn about leakage between the parts of a split if the leakage baseline is not among the models."""
    shared = recordings_on_both_sides(grid.episodes, grid.splits)
    if shared and not any(map(is_leakage_baseline, grid.comparison.models)):
        remark(
            f"pieces of {counted(shared, 'recording')} are in both the training and the test part of a split, so "
            f"scores may be too high; add {LEAKAGE} to --models to measure how much of a score is data leakage, or "
            "use --split grouped to prevent it"
        )


def _epochs_kept(grid: Grid) -> str:
    """The epochs of interrupted training runs, as part of a sentence."""
    folders = {key.label: grid.training_folder(key) for key in grid.keys}
    begun = {label: epochs for label, at in folders.items() if can_resume(at) and (epochs := epochs_of(at))}
    kept = [f"{epochs.done} of {epochs.of} epochs of {label}" for label, epochs in begun.items()]
    return f" and {list_few(kept)}" if kept else ""


def _is_partial(grid: Grid, out: Path) -> bool:
    """Return whether the store has more runs than requested, in which case the written result must not be replaced."""
    beyond = grid.beyond()
    if beyond:
        remark(
            f"shown but not written: {out} also has finished runs of {list_few(beyond)}; request these as well to "
            "write the result, or choose another folder"
        )
    return bool(beyond)
