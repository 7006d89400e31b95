"""`dfstrans compare`: models beside each other on the same splits of anybody's recordings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dfstrans.cli.options import Data, reading, setting_options
from dfstrans.cli.output import INTERRUPTED, AsJson, print_columns, print_json, remark
from dfstrans.errors import counted, shortlist

if TYPE_CHECKING:
    from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable
    from dfstrans.lab.compare.grid import Grid


WORDS = ("data", "model", "figure", "rival", "taken away", "note", "sensors")  # columns of tables of results
EXAMPLE = "Example: dfstrans compare recordings.csv --models dfstrans,boosting --folds 5 --out results"

app = typer.Typer()

Jobs = Annotated[int, typer.Option(min=1, help="Processes that compute cells side by side; each reads the recordings.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads of each process (default: its share of what torch uses).", show_default=False),
]
Finished = Annotated[bool, typer.Option("--finished", help="Only show what is finished; compute nothing.")]


@app.command(epilog=EXAMPLE)
@reading
@setting_options()
def compare(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.", show_default=False)],
    read: dict[str, Any],
    settings: dict[str, Any],
    models: Annotated[
        str,
        typer.Option(
            "--models",
            help="Names with commas between, also with settings (dfstrans+mixup=0); each is tested against the first "
            "that has a finished cell.",
        ),
    ] = "dfstrans,boosting",
    folds: Annotated[int, typer.Option("--folds", min=1, help="Different 70/15/15 splits.")] = 5,
    split: Annotated[
        Literal["random", "grouped"], typer.Option(help="How the parts are cut; grouped: no group in two.")
    ] = "random",
    jobs: Jobs = 1,
    threads: Threads = None,
    finished: Finished = False,
    as_json: AsJson = False,
) -> None:
    """Train and test several models on the same splits, and tell which differences are more than luck.

    Every finished cell (one model on one split) is kept in OUT. An interrupted comparison goes on where it was when the
    same command is given again, also with more models or more splits. The exit code is 1 when a cell could not be
    computed.
    """
    from dfstrans.lab.compare.variants import check_models

    names = check_models(names_in(models))  # before what follows is imported, which takes seconds
    from dfstrans.lab.compare.comparison import ComparisonResult
    from dfstrans.lab.compare.grid import Comparison, Grid
    from dfstrans.lab.compare.runs import require_some

    grid = Grid(Comparison(data, out, names, folds, split, read, settings))
    remark(repr(grid.episodes))
    _ask_for_the_gauge(grid)
    failed = {} if finished else run_with_progress(grid, jobs, threads)
    result = ComparisonResult(names, tuple(grid.finished()), folds)
    if finished:
        require_some(out, result.cells)
    written = [] if not result.cells or _is_a_part(grid) else write_result(out, result)
    if as_json:
        print_json({**result.to_dict(), "failed": failed, "written": [str(path) for path in written]})
    else:
        for table in result.tables():
            print_table(table)
        for path in written:
            print(f"written   {path}")
    for label, message in failed.items():
        remark(f"not computed: {label}: {message}")
    raise typer.Exit(1 if failed else 0)


def _ask_for_the_gauge(grid: Grid) -> None:
    """Say that figures may be leak where nothing among the models shows how much."""
    from dfstrans.lab.compare.leakage import NEIGHBOURS
    from dfstrans.lab.compare.protocols import recordings_on_both_sides
    from dfstrans.lab.compare.significance import is_gauge

    shared = recordings_on_both_sides(grid.episodes, grid.splits)
    if shared and not any(map(is_gauge, grid.comparison.models)):
        remark(
            f"pieces of {counted(shared, 'recording')} stand on both sides of a split, so the figures may flatter; "
            f"{NEIGHBOURS} among --models shows how much of them that alone explains, --split grouped keeps them apart"
        )


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between.

    >>> names_in("dfstrans, tapnet")
    ('dfstrans', 'tapnet')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run_with_progress(grid: Grid, jobs: int, threads: int | None) -> dict[str, str]:
    """Compute what is not there and show how far it is; what went wrong, by cell."""
    from dfstrans.cli.compare_progress import CellProgress
    from dfstrans.lab.compare.grid import run

    try:
        with CellProgress(grid, jobs) as shown:
            return run(grid, shown.tell, shown.begin, jobs, threads)
    except KeyboardInterrupt:
        done = f"{len(grid.finished())} of {len(grid.keys)} cells{_epochs_kept(grid)} are kept in {grid.comparison.out}"
        remark(f"dfstrans: interrupted; {done}: to go on, give the same command again")
        raise typer.Exit(INTERRUPTED) from None


def _epochs_kept(grid: Grid) -> str:
    """What there is of trainings that are not at their end."""
    from dfstrans.training.run_folder import can_resume, epochs_of

    runs = {key.label: grid.run_folder(key) for key in grid.keys}
    begun = {label: epochs for label, run in runs.items() if can_resume(run) and (epochs := epochs_of(run))}
    kept = [f"{epochs.done} of {epochs.of} epochs of {label}" for label, epochs in begun.items()]
    return f" and {shortlist(kept)}" if kept else ""


def _is_a_part(grid: Grid) -> bool:
    """Whether the folder has more than was asked for, so that a written result may hold more, too; says so."""
    beyond = grid.beyond()
    if beyond:
        remark(
            f"only shown, not written: {grid.comparison.out} also has finished cells of {shortlist(beyond)}; ask for "
            "these, too, to write the result, or move them away"
        )
    return bool(beyond)


def write_result(folder: Path, result: ComparisonResult) -> list[Path]:
    """The page, the tables as Markdown, and the figure for print where matplotlib is installed."""
    from dfstrans.files import written_atomically
    from dfstrans.lab.compare.figures import write_comparison, write_print_comparison

    written = [write_comparison(folder / "comparison.html", result)]
    with written_atomically(folder / "comparison.md") as temporary:
        temporary.write_text("\n".join(table.to_markdown() for table in result.tables()), encoding="utf-8")
    written.append(folder / "comparison.md")
    if find_spec("matplotlib") is None:
        remark("figures in SVG and PNG were left out: they need matplotlib; pip install 'dfstrans[paper]'")
    else:
        written += write_print_comparison(folder, result)
    return written


def print_table(table: ResultTable) -> None:
    """Print a table, its title and its notes to stdout."""
    print(table.title)
    print_columns(table.columns, table.rows, words=WORDS)
    for note in table.notes:
        print(note)
    print()
