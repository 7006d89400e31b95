"""`dfstrans demo`: the whole workflow on simulated journeys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dfstrans.cli.output import AsJson, print_json, print_metrics, progress, remark

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans demo --out demo")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for everything the demo writes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the journeys and the training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate elevator journeys, train, evaluate and diagnose a detector, commission a new elevator, and report."""
    from dfstrans.lab.elevator.demo import run_demo  # loads torch

    result = run_demo(out, seed=seed, remark=remark, progress=progress)
    if as_json:
        print_json(result)
        return
    print_metrics(result["metrics"])
    for line in result["commissioned"]["lines"]:
        print(line)
    print(f"report    {Path(result['report']).resolve()}")
    print(f"diagnoses {Path(result['diagnoses']).resolve()}")
