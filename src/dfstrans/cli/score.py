"""`dfstrans score`: score the recordings of a fleet on many processes or computers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dfstrans.cli.options import range_warnings, reading, warn_of_guessing
from dfstrans.cli.output import AsJson, print_json, progress, remark
from dfstrans.errors import counted, list_few, require_package
from dfstrans.progress import duration, pace

if TYPE_CHECKING:
    from dfstrans.data.scaling import SensorScaler
    from dfstrans.scale.fleet import Summary

FAILED = 1  # exit code if nothing could be scored
SHOWN = 10  # messages of workers
app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans score model 's3://plant/2026-11/*.parquet' --out results --diagnose")
@reading
def score(
    model: Annotated[Path, typer.Argument(help="A saved model's folder, or an exported file.", show_default=False)],
    data: Annotated[
        list[str],
        typer.Argument(help="Files, folders, globs or addresses (s3://, gs://, abfs://, …).", show_default=False),
    ],
    read: dict[str, Any],
    out: Annotated[
        str, typer.Option("--out", help="Folder or address of the Parquet data set to write.", show_default=False)
    ],
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Address of a Dask scheduler. Default: processes of this computer."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of local processes (default: one per core).")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory limit of each local process, such as 1GB.")
    ] = None,
    engine: Annotated[
        Literal["torch", "onnx"] | None,
        typer.Option(help="Inference engine; with onnx, workers need no torch (default: that of the model)."),
    ] = None,
    diagnose: Annotated[bool, typer.Option("--diagnose", help="Diagnose each anomalous recording.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue in the folder of results; finished files are not read again.")
    ] = False,
    machine: Annotated[
        str | None,
        typer.Option("--machine", help="Machine that all these recordings come from. Default: the group of each."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score many files of recordings, with one row of results for each recording.

    Files and recordings that cannot be scored are listed in the table of rejects, OUT/_rejects, with the reason.
    """
    for package in ("dask", "distributed"):
        require_package(package, "scale", "scoring a fleet")
    from dfstrans.scale.fleet import connected, score_fleet
    from dfstrans.scale.results import REJECTS, ResultsFolder
    from dfstrans.scale.scoring import Scorer
    from dfstrans.scale.sources import find_sources, in_this_process

    scorer = Scorer.load(model, engine, read=read, machine=machine, diagnose=diagnose)
    sources = find_sources(data, scorer.options, out)
    results = ResultsFolder.of(out, scorer, resume=resume)
    if scorer.engine == "torch":
        warn_of_guessing(scorer.detector.chance_check)
    here = any(map(in_this_process, (*data, out)))
    try:
        with connected(
            scheduler, scorer.engine, workers=workers, memory=memory, here=here, most=len(sources)
        ) as client:
            found = score_fleet(sources, scorer, results, client, progress)
    except KeyboardInterrupt:
        remark("what is finished is kept; continue with --resume")
        raise
    without_baseline = sorted(found.machines - {*scorer.machines}) if scorer.machines else None
    outside = _out_of_range(found, scorer.scaler)
    _remark_on(found, without_baseline)
    rejects = f"{out.rstrip('/')}/{REJECTS}"
    if as_json:
        this_run = {"files": found.pieces, "rows": found.rows, "anomalous": found.anomalous, "out_of_range": outside}
        print_json(
            {
                **found.counts._asdict(),
                "this_run": {**this_run, "seconds": round(found.seconds, 3)},
                "finished_before": found.earlier,
                "without_baseline": without_baseline,
                "model": scorer.version,
                "results": out,
                "rejects": rejects,
            }
        )
    else:
        print(
            f"scored    {counted(found.rows, 'recording')} of {counted(found.pieces, 'file')} in "
            f"{duration(found.seconds)} ({pace(found.rows, found.seconds)})"
        )
        if found.earlier:
            print(f"before    {counted(found.earlier, 'file')} finished earlier")
        print(f"anomalous {found.anomalous}")
        print(f"rejected  {found.counts.rejected}" + (f": see {rejects}" if found.counts.rejected else ""))
        print(f"results   {counted(found.counts.rows, 'row')} in {out}")
    if not found.counts.rows:
        raise typer.Exit(FAILED)


def _out_of_range(found: Summary, scaler: SensorScaler) -> dict[str, float]:
    """Return the share of values outside the training range by sensor, with the warnings of `dfstrans predict`."""
    points, outside = found.in_range
    shares = {name: n / points for name, n in zip(scaler.sensors, outside, strict=True) if n} if points else {}
    shares = dict(sorted(shares.items(), key=lambda one: -one[1]))
    advice = "do not rely on the decisions: check these sensors with one of the files (dfstrans predict)"
    for text in range_warnings(shares, scaler, lambda far: [advice] if far else []):
        remark(f"warning: {text}")
    return shares


def _remark_on(found: Summary, without_baseline: list[str] | None) -> None:
    """Print what workers had to say, and what a user should know about the recordings as a whole."""
    for message, files in found.messages.most_common(SHOWN):
        remark(f"{message} ({counted(files, 'file')})")
    if len(found.messages) > SHOWN:
        remark(f"… and {len(found.messages) - SHOWN} other notes and warnings")
    for one in found.rejects:
        remark(f"rejected {one}")
    if found.repeated:
        remark(
            f"{counted(found.repeated, 'recording')} with the id (and machine) of one in another file: the column "
            "`file` tells them apart"
        )
    if without_baseline:
        remark(
            f"machines without a baseline are compared with the fleet: {list_few(without_baseline)}; commission them "
            "(`dfstrans commission`)"
        )
