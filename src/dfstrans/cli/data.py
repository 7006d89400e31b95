"""`dfstrans data`: what recordings hold, and the same in another format."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dfstrans.cli.options import Data, reading
from dfstrans.cli.output import AsJson, print_json, print_result, progress

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes


app = typer.Typer(no_args_is_help=True, help="Look at recordings, and convert them.")


@app.command("check", epilog="Example: dfstrans data check recordings.csv")
@reading
def check(data: Data, read: dict[str, Any], as_json: AsJson = False) -> None:
    """Tell what was read and what is suspicious about it.

    The exit code is 1 when something keeps one from training; recordings without labels are exempt: they can be
    predicted.
    """
    from dfstrans.data.check import Finding, check_episodes

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
    """The recordings, and what reading them warned of, each once; where they cannot be read, it is said aloud.

    So is what is no finding: a remark, or a warning of a library.
    """
    from dfstrans.data.readers import load_episodes
    from dfstrans.errors import Remark

    read_well, found = False, []
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            episodes = load_episodes(data, **read)
            read_well = True
    finally:
        for warning in warned:
            kind = warning.category
            if read_well and issubclass(kind, UserWarning) and not issubclass(kind, Remark):
                found.append(str(warning.message))
            else:
                warnings.showwarning(warning.message, kind, warning.filename, warning.lineno)
    return episodes, list(dict.fromkeys(found))


@app.command("convert", epilog="Example: dfstrans data convert recordings.csv recordings.h5")
@reading
def convert(
    data: Data,
    out: Annotated[Path, typer.Argument(help="Where to write: .h5, .parquet or .npz.", show_default=False)],
    read: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Read recordings of any known format and write them as HDF5, Parquet or npz."""
    from dfstrans.data.readers import load_episodes
    from dfstrans.data.writers import save_episodes

    episodes = load_episodes(data, **read)
    save_episodes(episodes, out)
    print_result({"written": str(out), "episodes": len(episodes), "anomalous": episodes.n_anomalous}, as_json)
