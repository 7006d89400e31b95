"""`dfstrans summary`: the parts of a network or of a saved model, and the list of all settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.options import setting_options
from dfstrans.cli.output import AsJson, print_json, print_metrics
from dfstrans.detectors.registry import detector_kind
from dfstrans.errors import DfstransError
from dfstrans.settings import DFSTRANS, Preset

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans summary --sensors 20 --segment-length 100 --segments 80")
@setting_options(only=("segment_length",))
def summary(
    settings: dict[str, Any],
    folder: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A saved model's folder.", show_default=False)
    ] = None,
    sensors: Annotated[int | None, typer.Option(help="Number of sensors.", show_default=False)] = None,
    segments: Annotated[int | None, typer.Option(help="Number of segments.", show_default=False)] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="Network to describe: the paper's (default), or the one that train builds (tuned).", show_default=False
        ),
    ] = None,
    list_settings: Annotated[
        bool, typer.Option("--list-settings", help="List all settings of a kind of detector, with their defaults.")
    ] = False,
    model: Annotated[str, typer.Option("--model", help="The kind of detector for --list-settings.")] = DFSTRANS,
    as_json: AsJson = False,
) -> None:
    """Show the parts of a network or of a saved model, or list all settings."""
    from dfstrans.detectors.summary import model_summary, network_for, network_summary  # loads torch

    if list_settings:
        _print_settings(model, as_json)
        return
    if folder is not None:
        if sensors or segments or settings or preset:
            raise DfstransError("expected a saved model or the shape of a network, got both; give one of them")
        content = model_summary(folder)
    else:
        if sensors is None or segments is None or "segment_length" not in settings:
            raise DfstransError(
                "expected a saved model's folder, or --sensors, --segment-length and --segments, got neither; "
                "for example: dfstrans summary --sensors 20 --segment-length 100 --segments 80"
            )
        for option, count in {"--sensors": sensors, "--segments": segments}.items():
            if count < 1:
                raise DfstransError(f"expected {option} to be a whole number of at least 1, got {count}; correct it")
        content = network_summary(network_for(preset or "paper", sensors, segments, settings), segments)
    if as_json:
        print_json(content)
        return
    if "description" in content:
        print(f"{content['description']}\n")
    for name, count in content["parts"].items():
        print(f"{name:<20}{count:>12,}")
    print(f"{'parameters':<20}{content['parameters']:>12,}")
    if "d_model" in content:
        print(f"{'d_model':<20}{content['d_model']:>12,}")
    if "metrics" in content:
        print_metrics(content["metrics"])


def _print_settings(kind: str, as_json: bool) -> None:
    from dfstrans.detectors.summary import settings_list  # loads torch

    rows = settings_list(detector_kind(kind))
    if as_json:
        print_json({"settings": rows})
        return
    columns = {"name": 22, "default": 17, "paper": 11} if kind == DFSTRANS else {"name": 22, "default": 17}
    for row in [{name: name for name in (*columns, "help")}, *rows]:
        cells = ["–" if row[column] is None else str(row[column]) for column in columns]
        print("".join(cell.ljust(width) for cell, width in zip(cells, columns.values(), strict=True)) + row["help"])
