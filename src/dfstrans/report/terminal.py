"""Many diagnoses for a terminal: a table with a line each."""

from __future__ import annotations

from typing import Any

from dfstrans.diagnosis.diagnosis import in_time

MOST_ROWS = 30
NUMBERS = {"probability", "distance"}  # every other column holds words


def diagnoses_table(found: list[dict[str, Any]], most: int = MOST_ROWS) -> tuple[tuple[str, ...], list[list[str]]]:
    """Titles and rows of what `Diagnosis.to_dict` gives, the surest anomaly first; columns without content left out."""
    rows = [_cells(content) for content in sorted(found, key=lambda content: -content["probability"])[:most]]
    titles = tuple(name for name in rows[0] if any(row[name] for row in rows))  # not all were judged, have known causes
    return titles, [[row[name] for name in titles] for row in rows]


def _cells(content: dict[str, Any]) -> dict[str, str]:
    """One line of the table, by column."""
    moment, trust = content["segments"][0], content["trust"]
    unhealthy = " (instrument?)" if content["instrument_suspected"] else ""
    return {
        "episode": str(content["episode_id"]),
        "probability": f"{content['probability']:.3f}",
        "verdict": "anomalous" if content["is_anomaly"] else "not anomalous",
        "sensor": content["interpretation"][0]["sensor"] + unhealthy,
        "distance": f"{content['interpretation'][0]['deviation']:.1f}",
        "when": in_time(moment["start"], moment["end"], content["time_unit"]),
        "attention": "" if trust is None else trust["support"],
        "likely cause": cause(content),
    }


def cause(content: dict[str, Any]) -> str:
    """The kind of fault that an anomaly resembles, with how many of its nearest known cases had it."""
    if not content["resembles"] or not content["is_anomaly"]:
        return ""
    first = content["resembles"][0]
    return f"{first['kind']} ({first['cases']} of {first['of']})"
