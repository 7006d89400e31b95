"""`dfstrans simulate`: recordings of machines whose faults are known exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli_options import options_from
from dfstrans.cli_output import AsJson, print_result, progress, remark
from dfstrans.elevator.settings import PRESETS, Preset, SimulationSettings
from dfstrans.errors import DfstransError

app = typer.Typer(no_args_is_help=True, help="Make recordings of a machine, with exact truth of its faults.")
simulating = options_from(SimulationSettings, into="settings", panel="The journeys")


def _sizes(given: dict[str, Any]) -> str:
    """What a preset is, in a few words."""
    chosen = SimulationSettings(**given)
    return f"{chosen.normal} normal and {chosen.faulty} faulty journeys at {chosen.sampling_rate} Hz"


@app.command(epilog="Example: dfstrans simulate elevator --normal 400 --faulty 40 --seed 0 --out journeys.h5")
@simulating
def elevator(
    settings: dict[str, Any],
    out: Annotated[Path | None, typer.Option("--out", help="The HDF5 file to write.", show_default=False)] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="; ".join(f"{name}: {_sizes(given)}" for name, given in PRESETS.items()) + ". Other options go first.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Journeys simulated at the same time.")] = 1,
    plot: Annotated[bool, typer.Option("--plot", help="Also draw some journeys, as an HTML page beside OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate journeys of a fleet of elevators: 20 sensors, normal and faulty, with the truth of each fault.

    An interrupted run goes on where it was when the same command is given again. --plot alone only draws.
    """
    from dfstrans.elevator.simulation import Fleet, simulate_to_file

    if out is None and not plot:
        raise DfstransError("expected --out FILE.h5, --plot, or both, got neither")
    if out is not None and out.suffix.lower() not in (".h5", ".hdf5"):
        raise DfstransError(f"expected --out to end in .h5 or .hdf5, got {out}; choose such a name")
    chosen = SimulationSettings(**{**(PRESETS[preset] if preset else {}), **settings})
    fleet = Fleet(chosen)
    result: dict[str, Any] = {}
    if out is not None:
        if chosen.faulty:
            remark("measuring how much normal journeys differ from day to day, for the truth")
        with progress("simulating", chosen.n_journeys) as advance:
            simulate_to_file(out, fleet, jobs=jobs, advance=advance)
        result = {"written": str(out), "journeys": chosen.n_journeys, "faulty": chosen.faulty}
    if plot:
        from dfstrans.report.journeys import write_journeys

        page = Path("elevator_journeys.html") if out is None else out.with_suffix(".html")
        remark("drawing")
        result["plot"] = str(write_journeys(page, fleet))
    print_result(result, as_json)
