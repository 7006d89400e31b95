"""`dfstrans data`: check recordings, and convert them to another format."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.options import Data, Model, reading
from dfstrans.cli.output import AsJson, print_json, print_result, progress
from dfstrans.data.check import Finding, check_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import Note

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check recordings, or convert them.")


@app.command("check", epilog="Example: dfstrans data check recordings.csv")
@reading
def check(data: Data, read: dict[str, Any], as_json: AsJson = False) -> None:
    """Report what was read from recordings and what looks suspicious.

    The exit code is 1 if the recordings cannot be used for training. Missing labels alone do not count, since
    unlabelled recordings are fine for prediction.
    """
    episodes, warned = _read_with_warnings(data, read)
    with progress("checking", len(episodes)) as advance:
        found = check_episodes(episodes, advance)
    found = replace(found, findings=(*(Finding("warning", message) for message in warned), *found.findings))
    if as_json:
        print_json(found.to_dict())
    else:
        print(episodes)
        print(f"  missing   {found.missing:.2%} of the values")
        if found.fault_kinds:
            print("  kinds     " + ", ".join(f"{kind} {n}" for kind, n in found.fault_kinds.items()))
        for finding in found.findings:
            print(f"{finding.level}: {finding.message}")
        if not found.findings:
            print("nothing suspicious was found")
    raise typer.Exit(0 if found.ok else 1)


def _read_with_warnings(data: Path, read: dict[str, Any]) -> tuple[Episodes, list[str]]:
    """Read recordings and collect the reader's warnings as findings.

    Notes and library warnings are shown as usual; if reading fails, so is every other warning.
    """
    read_well, found = False, []
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            episodes = load_episodes(data, **read)
            read_well = True
    finally:
        for warning in warned:
            kind = warning.category
            if read_well and issubclass(kind, UserWarning) and not issubclass(kind, Note):
                found.append(str(warning.message))
            else:
                warnings.showwarning(warning.message, kind, warning.filename, warning.lineno)
    return episodes, list(dict.fromkeys(found))


@app.command("convert", epilog="Example: dfstrans data convert recordings.csv recordings.h5")
@reading
def convert(
    data: Data,
    out: Annotated[Path, typer.Argument(help="File to write: .h5, .parquet or .npz.", show_default=False)],
    read: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Read recordings in any supported format and write them as HDF5, Parquet or npz."""
    episodes = load_episodes(data, **read)
    save_episodes(episodes, out)
    print_result({"written": str(out), "episodes": len(episodes), "anomalous": episodes.n_anomalous}, as_json)


@app.command("recipe", epilog="Example: dfstrans data recipe model > recipe.toml")
def recipe(model: Model, as_json: AsJson = False) -> None:
    """Print how the recordings of a model were read, as TOML; --recipe of other commands takes it."""
    from dfstrans.detectors.recipe import recipe_as_toml  # other commands need no saved model
    from dfstrans.detectors.saved_model import read_record

    found = read_record(model).reading
    if as_json:
        print_json(found)
    else:
        print(recipe_as_toml(found) or "# no options were set\n", end="")
