"""`dfstrans reproduce`: the paper's tables and figures, selected by their labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dfstrans.cli.compare import Finished, Jobs, Threads, names_in
from dfstrans.cli.output import AsJson, print_json, progress, remark
from dfstrans.errors import option_name
from dfstrans.lab.elevator.settings import Preset, SimulationSettings
from dfstrans.lab.paper.targets import TARGETS, WITHOUT_RESULT, table_path, target_of, would_replace
from dfstrans.lab.paper.targets import reproduce as make

if TYPE_CHECKING:  # a wrong option or label is reported before torch loads
    from dfstrans.lab.compare.grid import Comparison

EXAMPLE = "Example: dfstrans reproduce tab:timeparams --counts-only"
QUICK = "--quick: one split, one epoch, 60 episodes. These are NOT RESULTS; they only check that everything works."

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLE)
def reproduce(
    target: Annotated[
        str | None, typer.Argument(help="A label of the paper; omit it to list all labels.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results (default: results).", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder with telemanom/ and ServerMachineDataset/; journeys are simulated into it (default: the "
            "environment variable DFSTRANS_DATA, or ~/.cache/dfstrans). With --model: the recordings to diagnose.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="For figures of diagnoses: a trained model, instead of one trained on the simulated elevator and "
            "kept in OUT.",
            show_default=False,
        ),
    ] = None,
    data_sets: Annotated[
        str | None, typer.Option("--data-sets", help="Only these: elevator,smd,msl,smap.", show_default=False)
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", help="Only these: paper-like,no-overlap,grouped.", show_default=False),
    ] = None,
    models: Annotated[
        str | None, typer.Option("--models", help="Models instead of the table's, as in compare.", show_default=False)
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=1, help="Number of different 70/15/15 splits.")] = 5,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="Number of epochs, instead of each model's own.", show_default=False),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of splits and weights (default 0).", show_default=False)
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="For the ablation: number of seeds, each with its own splits.")
    ] = 1,
    preset: Annotated[Preset, typer.Option("--preset", help="Preset of the simulated elevator.")] = "small",
    quick: Annotated[
        bool, typer.Option("--quick", help="One split, one epoch, few episodes: checks that everything works.")
    ] = False,
    counts_only: Annotated[
        bool, typer.Option("--counts-only", help="For tab:timeparams: only parameter counts, no training times.")
    ] = False,
    jobs: Jobs = 1,
    threads: Threads = None,
    finished: Finished = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce a table or figure of the paper, next to the printed numbers.

    Detection tables are built from runs like those of `dfstrans compare`, stored in OUT/<data>_<protocol>.jsonl;
    finished runs are not computed again. The exit code is 1 if a run failed.
    """
    if target is None:
        _list_targets(as_json)
        return
    label = target_of(target)
    from dfstrans.cli.runs import show_result  # loads torch and plotly
    from dfstrans.lab.compare.figures import write_tables
    from dfstrans.lab.paper.request import Request

    given = {"epochs": epochs, "seed": seed}
    request = Request(
        label,
        Path("results") if out is None else out,
        data,
        data_sets=names_in(data_sets),
        protocols=names_in(protocol),  # type: ignore[arg-type]  # checked by `reproduce`
        models=names_in(models),
        folds=folds,
        overrides={name: value for name, value in given.items() if value is not None},
        preset=preset,
        quick=quick,
        finished=finished,
        counts_only=counts_only,
        seeds=seeds,
        threads=threads,
        model=model,
        compute=lambda comparison: _compute(comparison, preset, jobs, threads),
        simulate=lambda path, of: _simulate(path, of, jobs),
    )
    if quick:
        remark(QUICK)
    only_shown = would_replace(request)  # must be checked before anything is written
    outcome = make(request)
    keep = out is not None or (TARGETS[request.target].takes != "seconds" and not counts_only)
    if only_shown:
        options = " and ".join(map(option_name, request.part))
        remark(
            f"shown but not written: a part of {request.target}, selected by {options}; --finished without it writes "
            "everything that is finished"
        )
    written = list(outcome.written)
    if outcome.tables and keep and not only_shown:
        written.append(write_tables(table_path(request), outcome.tables))
    content = {"target": request.target, "quick": quick, **outcome.content}
    show_result(content, outcome.tables, outcome.failed, written, as_json)


def _compute(comparison: Comparison, preset: Preset, jobs: int, threads: int | None) -> dict[str, str]:
    from dfstrans.cli.runs import compute_with_progress
    from dfstrans.lab.compare.grid import Grid

    if comparison.data.name == f"elevator_{preset}.h5":
        _simulate(comparison.data, preset, jobs)
    remark(f"{comparison.store.stem}: {', '.join(comparison.models)}")
    return compute_with_progress(Grid(comparison), jobs, threads)


def _simulate(path: Path, preset: Preset, jobs: int) -> None:
    from dfstrans.lab.paper.request import simulate_elevator

    with progress("simulating", SimulationSettings.of(preset, {}).n_journeys) as advance:
        simulate_elevator(path, preset, advance, jobs)


def _list_targets(as_json: bool) -> None:
    if as_json:
        targets = {
            name: {"what": target.what, "takes": target.takes, "panels": target.panels}
            for name, target in TARGETS.items()
        }
        print_json({"targets": targets, "without_result": WITHOUT_RESULT})
        return
    for name, target in TARGETS.items():
        print(f"{name:<31}{target.what} ({target.takes})")
    for name, why in WITHOUT_RESULT.items():
        print(f"{name:<31}{why}")
