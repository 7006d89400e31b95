"""`dfstrans compare`: train and test several models on the same splits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli.options import Data, reading, setting_options
from dfstrans.cli.output import AsJson, remark
from dfstrans.errors import DfstransError, list_few, require_package
from dfstrans.lab.compare.variants import check_models

STORE = "runs.jsonl"  # in the results folder
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
    baseline: Annotated[
        Literal["none", "first", "own", "published"],
        typer.Option(
            help="With --split grouped, the recordings of each test machine that are known without labels: none, its "
            "first 30 % (which are not evaluated), all of them (own), or the folder train/ of SMD or telemanom "
            "(published)."
        ),
    ] = "none",
    jobs: Jobs = 1,
    threads: Threads = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Address of a Dask scheduler, whose workers compute the runs."),
    ] = None,
    finished: Finished = False,
    as_json: AsJson = False,
) -> None:
    """Train and test several models on the same splits, and show which differences are significant.

    Every finished run (one model on one split) is kept in OUT. Repeat the command to resume an interrupted
    comparison or to add models or splits. The exit code is 1 if a run failed.
    """
    names = check_models(names_in(models) or ())
    if scheduler is not None:
        require_package("distributed", "scale", "computing on a cluster")
        _require_absolute(data, out, *(Path(read[name]) for name in ("labels", "faults") if read.get(name)))
    from dfstrans.cli.runs import compute_with_progress, show_result  # loads torch and plotly
    from dfstrans.lab.compare.comparison import ComparisonResult
    from dfstrans.lab.compare.figures import write_comparison
    from dfstrans.lab.compare.grid import Comparison, Grid
    from dfstrans.lab.compare.runs import require_some

    grid = Grid(Comparison(data, out / STORE, names, folds, split, read, settings, baseline=baseline))
    remark(repr(grid.episodes))
    if (warning := grid.leakage_warning()) is not None:
        remark(warning)
    if finished:
        failed = {}
    elif scheduler is None:
        failed = compute_with_progress(grid, jobs, threads)
    else:
        from dfstrans.scale.fleet import training_workers

        with training_workers(scheduler) as (cluster, n_workers):
            failed = compute_with_progress(grid, n_workers, threads or 1, cluster)
    result = ComparisonResult(names, tuple(grid.finished()), folds)
    if finished:
        require_some(out, result.runs)
    if beyond := grid.beyond():
        remark(
            f"shown but not written: {out} also has finished runs of {list_few(beyond)}; request these as well to "
            "write the result, or choose another folder"
        )
    written = [] if not result.runs or beyond else write_comparison(out, result)
    show_result(result.to_dict(), result.tables(), failed, written, as_json)


def _require_absolute(*paths: Path) -> None:
    relative = [str(path) for path in paths if not path.is_absolute()]
    if relative:
        raise DfstransError(
            f"expected absolute paths with --scheduler, which all workers can reach, got {list_few(relative)}; write "
            "whole paths"
        )


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Split comma-separated names; None stays None.

    >>> names_in("dfstrans, tapnet")
    ('dfstrans', 'tapnet')
    """
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
