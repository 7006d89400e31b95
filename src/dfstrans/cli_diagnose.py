"""`dfstrans diagnose`: which sensors, at which moments, are unlike normal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli_options import Data, Model, reading
from dfstrans.cli_output import AsJson, print_columns, print_json, progress, remark, warn_of_guessing
from dfstrans.cli_recordings import warn_of_silent_sensors, warn_out_of_range, with_or_without_labels
from dfstrans.errors import DfstransError, counted

EXAMPLE = "Example: dfstrans diagnose model new_recordings.csv --episode 17"


@reading
def diagnose(
    model: Model,
    data: Data,
    read: dict[str, Any],
    episode: Annotated[
        list[str] | None, typer.Option("--episode", help="Only this one, by its id. May be repeated.")
    ] = None,
    part: Annotated[
        Literal["all", "train", "validation", "test"],
        typer.Option(help="All episodes, or a part of the set the model was trained from."),
    ] = "all",
    trust: Annotated[
        bool, typer.Option("--trust/--no-trust", help="Judge the attention of each anomalous episode; takes longer.")
    ] = True,
    all_episodes: Annotated[bool, typer.Option("--all", help="Also those that are not called anomalous.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write a CSV table: one row per sensor and moment.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page (FILE.html, for one --episode), or a folder with a page each."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Write the figures for print into a folder, as PDF and SVG.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="With --json: also every score of each sensor, moment and pair.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell which sensors, at which moments, are unlike normal, and how they hang together.

    Without --episode: of every episode that is called anomalous.
    """
    from dfstrans.diagnoser import Diagnoser
    from dfstrans.pipeline import diagnose_table, part_of, select_ids, trained_from
    from dfstrans.scorable import scorable

    if raw and not as_json:
        raise DfstransError("expected --json with --raw, got --raw alone; add --json, or take --out for a table")
    detector, beside = Diagnoser.load(model), with_or_without_labels(data, read)
    warn_of_guessing(detector.standing)
    episodes = beside if part == "all" else part_of(detector, beside, part)
    if episode:
        episodes = select_ids(episodes, episode)
    elif part == "all" and trained_from(detector, beside):
        remark("the model was trained on most of these episodes, which flatters; --part test has those it never saw")
    episodes, _ = scorable(detector, episodes, remark, every=bool(episode))
    warn_of_silent_sensors(detector, episodes)
    if html is not None and html.suffix == ".html" and len(episodes) > 1:
        raise DfstransError(
            f"expected one --episode for the page {html}, got {len(episodes)} episodes; choose one, or give a folder's "
            "name for a page each"
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
        print(f"none of {len(episodes)} episodes is called anomalous; --all shows them nevertheless")
        return
    print_diagnoses(found)


def print_diagnoses(found: list[dict[str, Any]]) -> None:
    """One in full sentences, several in a table."""
    from dfstrans.report.terminal import NUMBERS, diagnoses_table

    if len(found) == 1:
        print(found[0]["summary"])
        return
    titles, rows = diagnoses_table(found)
    print_columns(titles, rows, words=set(titles) - NUMBERS)
    remark(
        f"called anomalous from a probability of {found[0]['threshold']:.3f} on; a distance from normal of 1 is usual"
    )
    if len(found) > len(rows):
        print(f"… {len(found) - len(rows)} more, see --html or --json")
