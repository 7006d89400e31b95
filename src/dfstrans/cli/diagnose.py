"""`dfstrans diagnose`: which sensors deviate from normal, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli.machines import Machine, OwnBaseline, compared_with_machines
from dfstrans.cli.options import (
    Data,
    Model,
    reading,
    warn_of_guessing,
    warn_out_of_range,
    with_or_without_labels,
)
from dfstrans.cli.output import AsJson, print_json, progress, remark
from dfstrans.errors import DfstransError, counted, require_package

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans diagnose model new_recordings.csv --episode 17")
@reading
def diagnose(
    model: Model,
    data: Data,
    read: dict[str, Any],
    episode: Annotated[
        list[str] | None, typer.Option("--episode", help="Diagnose only the episode with this id. May be repeated.")
    ] = None,
    part: Annotated[
        Literal["all", "train", "validation", "test"],
        typer.Option(help="Diagnose all episodes, or one part of the split the model was trained on."),
    ] = "all",
    trust: Annotated[
        bool,
        typer.Option(
            "--trust/--no-trust", help="Check whether the attention of each anomaly can be trusted. Takes longer."
        ),
    ] = True,
    all_episodes: Annotated[bool, typer.Option("--all", help="Include episodes predicted normal.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file to write, one row per sensor and segment.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Page to write (FILE.html, with one --episode), or folder for one page per episode."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder for print-quality figures, as PDF and SVG.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="With --json: include every score of every sensor, segment and pair.")
    ] = False,
    machine: Machine = None,
    own_baseline: OwnBaseline = False,
    as_json: AsJson = False,
) -> None:
    """Show which sensors deviate from normal, when, and which sensor pairs are coupled unusually.

    Without --episode, every episode predicted anomalous is diagnosed.
    """
    if raw and not as_json:
        raise DfstransError("expected --json with --raw, got --raw alone; add --json, or use --out for a table")
    if figures is not None:
        require_package("matplotlib", "paper", "print-quality figures")
    from dfstrans.cli.diagnoses import diagnose_table, print_diagnoses  # loads torch and plotly
    from dfstrans.detectors.diagnoser import Diagnoser
    from dfstrans.detectors.workflow import part_of, scorable, select_ids, trained_from

    detector = Diagnoser.load(model)
    beside = with_or_without_labels(detector, data, read)
    warn_of_guessing(detector.chance_check)
    episodes = beside if part == "all" else part_of(detector, beside, part)
    if episode:
        episodes = select_ids(episodes, episode)
    elif part == "all" and trained_from(detector, beside):
        remark("the model was trained on most of these episodes, so the results are optimistic; use --part test")
    episodes, _ = scorable(detector, episodes, remark, every=bool(episode))
    detector, episodes, _ = compared_with_machines(detector, episodes, machine, own_baseline, beside)
    if html is not None and html.suffix == ".html" and len(episodes) > 1:
        raise DfstransError(
            f"expected one --episode for the page {html}, got {len(episodes)} episodes; choose one, or give a folder "
            "to get one page per episode"
        )
    with progress("diagnosing", len(episodes)) as advance:
        keep_normal = all_episodes or bool(episode)
        found = diagnose_table(
            detector,
            episodes,
            out,
            pages=html,
            figures=figures,
            beside=beside,
            keep_normal=keep_normal,
            trust=trust,
            raw=raw,
            advance=advance,
        )
    warn_out_of_range(detector, episodes)
    if out is not None:
        remark(f"diagnoses of {counted(len(found), 'episode')} written to {out}")
    if html is not None:
        remark(f"pages written: {html if html.suffix == '.html' else html / 'index.html'}")
    if figures is not None:
        remark(f"figures written: {figures}")
    if as_json:
        print_json(found)
        return
    if not found:
        print(f"none of the {len(episodes)} episodes is predicted anomalous; use --all to diagnose them anyway")
        return
    print_diagnoses(found)
