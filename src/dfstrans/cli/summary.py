"""`dfstrans summary`: what a network, or a saved model, consists of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.options import options_from
from dfstrans.cli.output import AsJson, print_figures, print_json
from dfstrans.errors import DfstransError
from dfstrans.settings import NetworkSettings, Preset

EXAMPLE = "Example: dfstrans summary --sensors 20 --segment-length 100 --segments 80"

app = typer.Typer()


@app.command(epilog=EXAMPLE)
@options_from(NetworkSettings, into="network", exclude=("n_sensors",), panel="The network")
def summary(
    network: dict[str, Any],
    model: Annotated[Path | None, typer.Argument(help="A saved model's folder.", show_default=False)] = None,
    sensors: Annotated[int | None, typer.Option(help="Number of sensors.", show_default=False)] = None,
    segments: Annotated[int | None, typer.Option(help="Number of segments.", show_default=False)] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(help="Whose network: the paper's (default), or ours, as train builds it.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a network, or a saved model, consists of."""
    from dfstrans.detectors.summary import model_summary, network_for, network_summary

    if model is not None:
        if sensors or segments or network or preset:
            raise DfstransError("expected a saved model or the shape of a network, got both; give one of them")
        content = model_summary(model)
    else:
        if sensors is None or segments is None or "segment_length" not in network:
            raise DfstransError(
                "expected a saved model's folder, or --sensors, --segment-length and --segments, got neither; "
                "for example: dfstrans summary --sensors 20 --segment-length 100 --segments 80"
            )
        counts = {"--sensors": sensors, "--segments": segments, "--segment-length": network["segment_length"]}
        for option, count in counts.items():
            if count < 1:
                raise DfstransError(f"expected {option} to be a whole number of at least 1, got {count}; correct it")
        content = network_summary(network_for(preset or "paper", sensors, segments, network), segments)
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
        print_figures(content["metrics"])
