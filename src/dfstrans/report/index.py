"""Lists of diagnoses, one row each: a table for the terminal and an index page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.words import callers
from dfstrans.report.page import SCRIPT_FILE, as_div, page_name, write_page
from dfstrans.report.timeline import Piece, long_recordings, timeline_figure

MOST_ROWS = 30
NUMBERS = {"probability", "distance", "drop in score"}  # all other columns hold words


def diagnoses_table(found: list[dict[str, Any]], most: int = MOST_ROWS) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return titles and rows for dicts of `Diagnosis.to_dict`, most probable anomaly first, without empty columns."""
    rows = [row_of(content) for content in _ranked(found)[:most]]
    titles = tuple(name for name in rows[0] if any(row[name] for row in rows))
    return titles, [[row[name] for name in titles] for row in rows]


def write_index(path: Path, found: list[dict[str, Any]], pieces: Sequence[Piece] = ()) -> Path:
    """Write a page that links to the pages of diagnoses, most probable anomaly first.

    Recordings of several `pieces` are shown over time; their figures need plotly's code next to the page.
    """
    chance_check = next((content["detector"] for content in found if content["detector"]), None)
    timelines = {
        name: (sum(one.is_anomaly for one in own), len(own), as_div(timeline_figure(own)))
        for name, own in long_recordings(pieces).items()
    }
    return write_page(
        path,
        "index.html",
        found=found,
        chance_check=chance_check,
        timelines=timelines,
        truth_known=any(one.faults for one in pieces),
        script_file=SCRIPT_FILE,
        **table_content(found),
    )


def remove_earlier_pages(index: Path, found: list[dict[str, Any]]) -> list[Path]:
    """Remove the pages that an earlier index links to and the next one will not, and return their paths."""
    pages = {page_name(content["episode_id"]) for content in found}
    earlier = set(re.findall(r'href="([^"/]+\.html)"', index.read_text(encoding="utf-8"))) if index.exists() else set()
    removed = [page for name in sorted(earlier - pages) if (page := index.parent / name).is_file()]
    for page in removed:
        page.unlink()
    return removed


def table_content(found: list[dict[str, Any]], folder: str = "") -> dict[str, Any]:
    """Return the content of `diagnoses_table.html`, with links into `folder`."""
    rows = [
        {
            **row_of(content),
            "is_anomaly": content["is_anomaly"],
            "percent": f"{100 * content['probability']:.0f}",
            "link": folder + page_name(content["episode_id"]),
        }
        for content in _ranked(found)
    ]
    optional = ("called by", "baseline", "likely cause", "attention")
    return {"rows": rows, "shown": [name for name in optional if any(row[name] for row in rows)]}


def _ranked(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda content: -content["probability"])


def row_of(content: dict[str, Any]) -> dict[str, str]:
    """Return one row by column name; a distance or a drop in the score, and the last columns, may be empty."""
    sensor, moment, trust = content["interpretation"][0], content["segments"][0], content["trust"]
    instrument = [content["suspected_instrument"]] if content["suspected_instrument"] else []
    by_distance = content["ranked_by"] == "deviation"
    return {
        "episode": str(content["episode_id"]),
        "probability": f"{content['probability']:.3f}",
        "verdict": content["verdict"],
        "sensor": ", ".join(dict.fromkeys([sensor["sensor"], *instrument])) + (" (instrument?)" if instrument else ""),
        "distance": f"{sensor['value']:.1f}" if by_distance else "",
        "drop in score": "" if by_distance else f"{sensor['value']:.2f}",
        "when": Clock.of_content(content).span(moment["start"], moment["end"]),
        "called by": _called_by(content),
        "baseline": "none" if content["baseline"] == "fleet" else "",
        "attention": "" if trust is None else trust["support"],
        "likely cause": _likely_cause(content),
    }


def _called_by(content: dict[str, Any]) -> str:
    """Return who in the committee calls an episode anomalous."""
    members = content["members"]
    called = callers(members, content["threshold"])
    if len(called) == 1 and content["members_disagree"]:
        return f"{called[0]} only"
    if members and not called and content["is_anomaly"]:
        return "neither alone"
    return "both" if len(called) == 2 else " + ".join(called)


def _likely_cause(content: dict[str, Any]) -> str:
    """Return the most similar known kind of fault, and how many of the nearest known cases had it."""
    if not content["resembles"] or not content["is_anomaly"]:
        return ""
    first = content["resembles"][0]
    return f"{first['kind']} ({first['cases']} of {first['of']})"
