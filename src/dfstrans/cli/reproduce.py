"""`dfstrans reproduce`: the paper's tables and figures, each by its label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dfstrans.cli.compare import Finished, Jobs, Threads, names_in, print_table, run_with_progress
from dfstrans.cli.output import AsJson, print_json, progress, remark
from dfstrans.errors import option_name
from dfstrans.lab.elevator.settings import Preset

if TYPE_CHECKING:
    from dfstrans.lab.compare.grid import Comparison
    from dfstrans.lab.paper.request import Outcome, Request


EXAMPLE = "Example: dfstrans reproduce tab:timeparams --counts-only"

app = typer.Typer()
LOUD = "--quick: one split, one epoch, 60 episodes. These are NO RESULTS; they only show that everything runs."


@app.command(epilog=EXAMPLE)
def reproduce(
    target: Annotated[
        str | None, typer.Argument(help="A label of the paper; without one, all are listed.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the results (default: results).", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder with telemanom/ and ServerMachineDataset/; journeys are simulated into it (default: what "
            "the variable DFSTRANS_DATA names, or else ~/.cache/dfstrans). With --model: the recordings to diagnose.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="Of figures of diagnoses: a trained model, instead of one trained on the simulated elevator and kept "
            "in OUT.",
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
        str | None, typer.Option("--models", help="Other models than the table's, as in compare.", show_default=False)
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=1, help="Different 70/15/15 splits.")] = 5,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Other than each model's own.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of splits and weights (default 0).", show_default=False)
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Of the ablation: this many, each with splits and weights of its own.")
    ] = 1,
    preset: Annotated[Preset, typer.Option("--preset", help="Of the simulated elevator.")] = "small",
    quick: Annotated[
        bool, typer.Option("--quick", help="One split, one epoch, few episodes: to see that it runs.")
    ] = False,
    counts_only: Annotated[
        bool, typer.Option("--counts-only", help="Of tab:timeparams, the parameters without the times.")
    ] = False,
    jobs: Jobs = 1,
    threads: Threads = None,
    finished: Finished = False,
    as_json: AsJson = False,
) -> None:
    """Make a table or a figure of the paper, with the printed figures beside those found here.

    Tables of detection are made from cells as those of `dfstrans compare`, in OUT/<data>_<protocol>; those that are
    there are not computed again. The exit code is 1 when a cell could not be computed.
    """
    from dfstrans.lab.paper.printed import TARGETS, figure_or_table

    if target is None:
        _list_targets(as_json)
        return
    target = figure_or_table(target)
    chosen = _chosen(data_sets, protocol, models)
    from dfstrans.lab.paper import reproduce as run
    from dfstrans.lab.paper.request import Request

    given = {"epochs": epochs, "seed": seed}
    place = Path("results") if out is None else out
    request = Request(
        target,
        place,
        data,
        folds=folds,
        overrides={name: value for name, value in given.items() if value is not None},
        preset=preset,
        quick=quick,
        finished=finished,
        counts_only=counts_only,
        seeds=seeds,
        threads=threads,
        model=model,
        **chosen,
    )
    if quick:
        remark(LOUD)
    only_shown = request.only_shown  # before it is there
    outcome = run(
        request,
        lambda comparison: _compute(comparison, preset, jobs, threads),
        lambda place, of: _simulate(place, of, jobs),
    )
    keep = out is not None or (TARGETS[target].takes != "seconds" and not counts_only)
    if only_shown:
        _say_that_it_is_a_part(request)
    _show(request, outcome, keep and not only_shown, as_json)
    for label, message in outcome.failed.items():
        remark(f"not computed: {label}: {message}")
    raise typer.Exit(1 if outcome.failed else 0)


def _say_that_it_is_a_part(request: Request) -> None:
    options = " and ".join(map(option_name, request.part))
    remark(
        f"only shown, not written: a part of {request.target}, chosen by {options}; --finished without writes all that "
        "is finished"
    )


def _chosen(data_sets: str | None, protocol: str | None, models: str | None) -> dict[str, Any]:
    """What was named, checked."""
    from dfstrans.lab.compare.protocols import PROTOCOLS
    from dfstrans.lab.compare.variants import check_models, check_names
    from dfstrans.lab.paper.datasets import DATA_SETS

    given = {"data_sets": data_sets, "protocol": protocol, "models": models}
    named = {setting: None if text is None else names_in(text) for setting, text in given.items()}
    known_names: dict[str, list[str]] = {"data_sets": [*DATA_SETS], "protocol": [*PROTOCOLS]}
    for setting, known in known_names.items():
        if (names := named[setting]) is not None:
            check_names(setting, names, known)
    if named["models"] is not None:
        check_models(named["models"])
    return {"data_sets": named["data_sets"], "protocols": named["protocol"], "models": named["models"]}


def _compute(comparison: Comparison, preset: Preset, jobs: int, threads: int | None) -> dict[str, str]:
    from dfstrans.lab.compare.grid import Grid

    if comparison.data.name == f"elevator_{preset}.h5":
        _simulate(comparison.data, preset, jobs)
    remark(f"{comparison.out.name}: {', '.join(comparison.models)}")
    return run_with_progress(Grid(comparison), jobs, threads)


def _simulate(place: Path, preset: Preset, jobs: int) -> None:
    from dfstrans.lab.elevator.settings import SimulationSettings
    from dfstrans.lab.paper.datasets import simulate_elevator

    with progress("simulating", SimulationSettings.of(preset, {}).n_journeys) as advance:
        simulate_elevator(place, preset, advance, jobs)


def _show(request: Request, outcome: Outcome, keep: bool, as_json: bool) -> None:
    """Print the tables, and keep them as Markdown."""
    from dfstrans.files import written_atomically

    written = list(outcome.written)
    if outcome.tables and keep:
        with written_atomically(request.table) as temporary:
            temporary.write_text("\n".join(table.to_markdown() for table in outcome.tables), encoding="utf-8")
        written.append(request.table)
    if as_json:
        print_json(
            {
                "target": request.target,
                "quick": request.quick,
                **outcome.content,
                "failed": outcome.failed,
                "written": [str(path) for path in written],
            }
        )
        return
    for table in outcome.tables:
        print_table(table)
    for path in written:
        print(f"written   {path}")


def _list_targets(as_json: bool) -> None:
    from dfstrans.lab.paper.printed import NO_RESULT, PANELS, TARGETS

    if as_json:
        print_json(
            {
                "targets": {
                    name: {**target._asdict(), "panels": PANELS.get(name, ())} for name, target in TARGETS.items()
                },
                "without_result": NO_RESULT,
            }
        )
        return
    for name, target in TARGETS.items():
        print(f"{name:<31}{target.what} ({target.takes})")
    for name, why in NO_RESULT.items():
        print(f"{name:<31}{why}")
