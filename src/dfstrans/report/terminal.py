"""Diagnoses for a terminal: one in full sentences, many as a table with a line each."""

from __future__ import annotations

from typing import Any

from dfstrans.diagnosis.diagnosis import in_time

MOST_ROWS = 30


def diagnoses_text(found: list[dict[str, Any]], most: int = MOST_ROWS) -> str:
    """What `Diagnosis.to_dict` gives, for people: the summary of one, a table of several, the surest anomaly first."""
    if len(found) == 1:
        return str(found[0]["summary"])
    ranked = sorted(found, key=lambda content: -content["severity"])
    rows = [_cells(content) for content in ranked[:most]]
    columns = [name for name in rows[0] if any(row[name] for row in rows)]  # nobody asked for trust, no cause is known
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    lines = ["  ".join(f"{row[name]:<{widths[name]}}" for name in columns) for row in [_heading(columns), *rows]]
    if len(ranked) > most:
        lines.append(f"… {len(ranked) - most} more, see --html or --json")
    return "\n".join(line.rstrip() for line in lines)


def _heading(columns: list[str]) -> dict[str, str]:
    return {name: name for name in columns}


def _cells(content: dict[str, Any]) -> dict[str, str]:
    """One line of the table, by column."""
    moment, trust = content["segments"][0], content["trust"]
    unhealthy = " (instrument?)" if content["instrument_suspected"] else ""
    return {
        "episode": str(content["episode_id"]),
        "probability": f"{content['severity']:.3f}",
        "verdict": "anomalous" if content["is_anomaly"] else "not anomalous",
        "sensor": content["interpretation"][0]["sensor"] + unhealthy,
        "when": in_time(moment["start"], moment["end"], content["time_unit"]),
        "attention": "" if trust is None else trust["support"],
        "likely cause": content["resembles"][0]["kind"] if content["resembles"] and content["is_anomaly"] else "",
    }
