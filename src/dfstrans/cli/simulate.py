"""`dfstrans simulate`: recordings of machines with known faults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.options import options_from
from dfstrans.cli.output import INTERRUPTED, AsJson, print_result, progress, remark
from dfstrans.errors import DfstransError
from dfstrans.lab.elevator.journey_file import interrupted_run, is_simulated, require_free, simulate_to_file
from dfstrans.lab.elevator.settings import PRESETS, Preset, SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet

MEASURING = "measuring how much normal journeys vary from day to day, for the ground truth"

app = typer.Typer(add_completion=False, no_args_is_help=True)
simulating = options_from(SimulationSettings, into="settings", panel="Journeys")


@app.callback()
def simulate() -> None:
    """Simulate recordings of a machine, with exact ground truth of its faults."""


def _sizes(preset: Preset) -> str:
    """Describe the size of a preset."""
    chosen = SimulationSettings.of(preset, {})
    return f"{chosen.normal} normal and {chosen.faulty} faulty journeys at {chosen.sampling_rate} Hz"


@app.command(epilog="Example: dfstrans simulate elevator --normal 400 --faulty 40 --seed 0 --out journeys.h5")
@simulating
def elevator(
    settings: dict[str, Any],
    out: Annotated[Path | None, typer.Option("--out", help="HDF5 file to write.", show_default=False)] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="; ".join(f"{name}: {_sizes(name)}" for name in PRESETS) + ". Other options override it.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Journeys simulated in parallel.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another file at OUT.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Also write an HTML page of some journeys next to OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate normal and faulty journeys of a fleet of elevators: 20 sensors and the ground truth of each fault.

    Repeat the same command to resume an interrupted run. --plot without --out only writes the page.
    """
    if out is None and not plot:
        raise DfstransError("expected --out FILE.h5, --plot, or both, got neither; add one")
    if out is not None and out.suffix.lower() not in (".h5", ".hdf5"):
        raise DfstransError(f"expected --out to end in .h5 or .hdf5, got {out}; rename the file")
    chosen = SimulationSettings.of(preset, settings)
    fleet = Fleet(chosen)
    if not chosen.faulty and "faults" in settings:
        remark("no journey is faulty, so --faults has no effect")
    result: dict[str, Any] = {}
    if out is not None:
        _simulate(out, fleet, jobs, overwrite)
        result = {"written": str(out), "journeys": chosen.n_journeys, "faulty": chosen.faulty, "seed": chosen.seed}
        result |= {"faults": list(chosen.faults)} if as_json and chosen.faulty else {}
    if plot:
        result["plot"] = str(_draw(Path("elevator_journeys.html") if out is None else out.with_suffix(".html"), fleet))
    print_result(result, as_json)


def _simulate(out: Path, fleet: Fleet, jobs: int, overwrite: bool) -> None:
    """Write the file and report anything unexpected."""
    if is_simulated(out, fleet):
        remark(f"{out} already holds these journeys; nothing to do")
        return
    require_free(out, overwrite)
    earlier, new_folder = interrupted_run(out), not out.parent.exists()
    if earlier is not None:
        remark(f"resuming {earlier.partial}: {earlier.done} of {earlier.total} journeys are done")
    if fleet.settings.faulty:
        remark(MEASURING)
    try:
        with progress("simulating", fleet.settings.n_journeys) as advance:
            simulate_to_file(out, fleet, jobs=jobs, overwrite=overwrite, advance=advance)
    except KeyboardInterrupt:
        left = interrupted_run(out)
        kept = f"{left.done} of {left.total} journeys are kept in {left.partial}" if left else "nothing is kept yet"
        remark(f"dfstrans: interrupted; {kept}; repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None
    if new_folder:
        remark(f"created the folder {out.parent}")


def _draw(page: Path, fleet: Fleet) -> Path:
    from dfstrans.lab.elevator.page import write_journeys  # loads plotly, which a wrong option need not wait for

    if page.exists():
        remark(f"{page} will be replaced")
    if fleet.settings.faulty:
        remark(MEASURING)
    remark("drawing")
    return write_journeys(page, fleet)
