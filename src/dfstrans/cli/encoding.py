"""`dfstrans encoding`: how well positional encodings keep positions apart, and a check of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dfstrans.cli.output import AsJson, print_columns, print_json, remark
from dfstrans.errors import require_package

if TYPE_CHECKING:  # a wrong option is reported before slow libraries load
    from dfstrans.lab.paper.encodings import EncodingStudy

EXAMPLE = "Example: dfstrans encoding --file my_encoding.npy --out encodings"

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLE)
def encoding(
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the figures.", show_default=False)] = None,
    segments: Annotated[int, typer.Option(help="Number of positions.")] = 80,
    width: Annotated[
        int | None,
        typer.Option(help="Width of the encoding (default: 256 for frequencies, 240 for codes).", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Your own encoding, .npy or .csv, one row per position.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the vanilla and the faithful positional encoding, and check your own.

    The exit code is 1 if your own encoding is not faithful.
    """
    if out is not None:
        require_package("matplotlib", "paper", "print-quality figures")
    from dfstrans.lab.paper.encodings import read_encoding, study_encodings, write_encodings  # loads torch

    study = study_encodings(segments, width, None if file is None else read_encoding(file))
    written = []
    if out is not None:
        remark("drawing")
        written = write_encodings(out, study)
    if as_json:
        print_json({**study.to_dict(), "written": [str(path) for path in written]})
    else:
        _print_study(study)
        for path in written:
            print(f"written   {path}")
    raise typer.Exit(1 if "own" in study.checks and study.checks["own"].verdict != "faithful" else 0)


def _print_study(study: EncodingStudy) -> None:
    width = study.spectrum_width
    print(f"frequencies, width {width}")
    print(
        f"  vanilla   {study.lowest_bin_entries} of {width} entries are slower than 2π/{width}: "
        f"those from l = {study.lowest_bin_crossing:.1f} on"
    )
    print(f"reconstruction of positions {', '.join(map(str, study.positions))}, width {width}")
    for name, blurs in study.blurs.items():
        worst = max(blurs, key=lambda blur: blur.error)
        print(
            f"  {name:<10}height {worst.height:.3f} of 1, {100 * worst.kept:.1f} % of the squared norm in place, "
            f"{worst.reach} positions above a tenth of the peak, error {worst.error:.1g}"
        )
    titles = ("encoding", "positions", "width", "verdict", "condition", "rank", "directions", "nearest / farthest")
    rows = [
        (
            name,
            str(check.n_positions),
            str(check.d_model),
            check.verdict,
            f"{check.condition_number:.3g}" if check.rank == check.n_positions else "infinite",
            str(check.rank),
            f"{check.directions:.1f}",
            f"{check.smallest_distance:.3g} / {check.largest_distance:.3g}",
        )
        for name, check in study.checks.items()
    ]
    print_columns(titles, rows, words=("encoding", "verdict"))
    for name, check in study.checks.items():
        print(f"{name}: {check.explanation}")
