"""What `dfstrans diagnose` prints and writes: a table of cells, pages, print-quality figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from dfstrans.cli.output import print_columns, remark
from dfstrans.data.episodes import Episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.diagnosis.recordings import recordings_of
from dfstrans.diagnosis.trust import attention_trust_score
from dfstrans.errors import counted
from dfstrans.files import atomic_fill, atomic_write
from dfstrans.model.novelty import NOT_SEEN
from dfstrans.report.diagnosis_page import write_diagnosis
from dfstrans.report.index import NUMBERS, diagnoses_table, remove_earlier_pages, write_index
from dfstrans.report.page import page_name, write_script
from dfstrans.report.print_figures import FigureFolder
from dfstrans.report.timeline import Piece, piece_of


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
    hidden = 0  # not seen before, but not shown
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
                hidden += diagnosis.not_seen_before
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
    if hidden:
        remark(f"{counted(hidden, 'episode')} not shown here: predicted normal, but {NOT_SEEN}; use --all")
    if pages is not None and script is not None:
        removed = remove_earlier_pages(pages / "index.html", found)
        write_index(pages / "index.html", found, pieces)
        if removed:
            remark(f"removed {counted(len(removed), 'page')} of an earlier run from {pages}")
    return found


def _page(pages: Path, episode_id: str) -> Path:
    """Return the path of an episode's page: the given file, or a file named after the episode in the given folder."""
    return pages if pages.suffix == ".html" else pages / page_name(episode_id)
