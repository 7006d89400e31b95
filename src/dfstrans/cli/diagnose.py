"""`dfstrans diagnose`: which sensors deviate from normal, and when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
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
from dfstrans.cli.output import AsJson, print_columns, print_json, progress, remark
from dfstrans.data.episodes import Episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.workflow import part_of, scorable, select_ids, trained_from
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.diagnosis.trust import attention_trust_score
from dfstrans.errors import DfstransError, counted
from dfstrans.files import atomic_fill, atomic_write
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.report.index import NUMBERS, diagnoses_table, remove_earlier_pages, write_index
from dfstrans.report.page import page_name, write_script
from dfstrans.report.print_figures import FigureFolder
from dfstrans.report.timeline import Piece, piece_of

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
    detector = Diagnoser.load(model)
    beside = with_or_without_labels(detector, data, read)
    warn_of_guessing(detector.chance_check)
    episodes = beside if part == "all" else part_of(detector, beside, part)
    if episode:
        episodes = select_ids(episodes, episode)
    elif part == "all" and trained_from(detector, beside):
        remark("the model was trained on most of these episodes, so results look too good; use --part test")
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


def print_diagnoses(found: list[dict[str, Any]]) -> None:
    """Print one diagnosis as sentences, several as a table."""
    if len(found) == 1:
        print(found[0]["summary"])
        return
    titles, rows = diagnoses_table(found)
    print_columns(titles, rows, words=set(titles) - NUMBERS)
    remark(f"anomalous: probability of at least {found[0]['threshold']:.3f}; a distance from normal of 1 is typical")
    if len(found) > len(rows):
        print(f"… {len(found) - len(rows)} more, see --html or --json")


def diagnose_table(
    detector: Diagnoser,
    episodes: Episodes,
    out: Path | None = None,
    *,
    pages: Path | None = None,
    figures: Path | None = None,
    beside: Episodes | None = None,
    keep_normal: bool = False,
    trust: bool = True,
    raw: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Diagnose the episodes predicted anomalous, or all of them with `keep_normal`, and write the requested outputs.

    `out` is a CSV table of all cells; `pages` a file for a single episode, or a folder for one page each and an index;
    `figures` a folder for print-quality figures. Figures compare each episode with the most similar episode of
    `beside` that is labelled normal. Only one episode is in memory at a time.
    """
    found: list[dict[str, Any]] = []
    pieces: list[Piece] = []
    script = write_script(pages) if pages is not None and pages.suffix != ".html" else None
    recordings = recordings_of(detector, episodes, beside) if pages is not None or figures is not None else None
    with ExitStack() as stack:
        temporary = None if out is None else stack.enter_context(atomic_write(out))
        prints = None
        if figures is not None:
            folder = stack.enter_context(atomic_fill(figures))
            prints = FigureFolder(folder, partial(attention_trust_score, detector))
        for row, diagnosis in enumerate(detector.diagnose(episodes, trust=trust)):
            advance(1)
            shown = diagnosis.is_anomaly or keep_normal
            if script is not None:
                pieces.append(piece_of(diagnosis, next(iter(episodes[row])), has_page=shown))
            if not shown:
                continue
            if recordings is not None:
                recording = recordings(row)
                if pages is not None:
                    write_diagnosis(_page(pages, diagnosis.episode_id), diagnosis, recording, script)
                if prints is not None:
                    prints.add(diagnosis, recording)
            if temporary is not None:
                diagnosis.to_frame().to_csv(temporary, mode="a", header=not found, index=False)
            found.append(diagnosis.to_dict(raw=raw))
        if temporary is not None and not found:
            temporary.write_text("")
        if prints is not None:
            prints.add_comparisons(episodes)
    if pages is not None and script is not None:
        removed = remove_earlier_pages(pages / "index.html", found)
        write_index(pages / "index.html", found, pieces)
        if removed:
            remark(f"removed {counted(len(removed), 'page')} of an earlier diagnose from {pages}")
    return found


def _page(pages: Path, episode_id: str) -> Path:
    """Return the path of an episode's page: the given file, or a file named after the episode in the given folder."""
    return pages if pages.suffix == ".html" else pages / page_name(episode_id)
