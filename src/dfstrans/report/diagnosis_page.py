"""The page of a diagnosis, for those who look after the machine, and the index of many."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.diagnosis import STANDS_OUT, Diagnosis, in_time
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.scores import SCORES
from dfstrans.files import written_atomically
from dfstrans.report.diagnosis_figures import (
    KNOWN,
    MARKED,
    NEAREST,
    USUAL,
    attention_figure,
    cells_figure,
    lanes_figure,
    moment_figures,
    signals_figure,
)
from dfstrans.report.page import as_div, plotly_script, write_page
from dfstrans.report.terminal import cause
from dfstrans.report.views import Span, between_moments, between_sensors, shaded, spans, worst_moment

SYMBOLS = dict(zip(SCORES, ("A^(s)", "a^(s)", "A^G", "a^G", "B^(τ)", "b^(τ)", "B^G", "b^G"), strict=True))
SCRIPT_FILE = "plotly.min.js"
NAMED = 3  # sensors of a known fault that are named
TRUST_WORDS = {
    "supported": "The decision rests on what the network attends to: without that, it looks far less anomalous.",
    "weak": "The decision rests only in part on what the network attends to: take the raw attention with care.",
    "not supported": "The decision does not rest on what the network attends to: do not rely on the raw attention.",
}


def write_diagnosis(path: Path, diagnosis: Diagnosis, recording: Recording, script_file: str | None = None) -> Path:
    """Write one episode's diagnosis as a page; it holds plotly's code itself unless that is in a file beside it."""
    figures = {
        "signals": signals_figure(diagnosis, recording),
        "cells": cells_figure(diagnosis, recording),
        "lanes": lanes_figure(diagnosis, recording),
        "temporal": attention_figure(between_moments(diagnosis), None, "segment"),
        "spatial": attention_figure(between_sensors(diagnosis), diagnosis.sensors, "sensor"),
    }
    moments, sensors = spans(diagnosis), diagnosis.top_sensors(5)
    largest = np.log10(max(float(diagnosis.deviation.max()), 10.0))
    return write_page(
        path,
        "diagnosis.html",
        diagnosis=diagnosis,
        chance_check=diagnosis.chance_check,
        sensors=sensors,
        first=diagnosis.top_segments(1)[0],
        worst={one.sensor: worst_moment(diagnosis, one.sensor) for one in sensors},
        moments=moments,
        zooms=shaded(diagnosis),
        strangest={moment: _strangest(diagnosis, moment) for moment in moments},
        pairs=[one for one in diagnosis.beyond_band if len(one.sensors) == 2][:8],
        beyond=[one for one in diagnosis.beyond_band if len(one.sensors) < 2][:8],
        truth=known_truth(recording),
        nearest=None if recording.nearest is None else recording.nearest.id,
        unit=diagnosis.time_unit,
        in_time=in_time,
        end=recording.episode.values.shape[1] * recording.step,
        shares=lambda distance: max(0.02, np.log10(max(distance, 1.0)) / largest),
        trust_words=TRUST_WORDS,
        bands_lacking=", ".join(SYMBOLS[score] for score in SCORES if score not in diagnosis.bands),
        colours={"usual": USUAL, "nearest": NEAREST, "marked": MARKED, "truth": KNOWN},
        script_file=script_file,
        figures={name: as_div(figure) for name, figure in figures.items()},
        at_moments={title: as_div(figure) for title, figure in moment_figures(diagnosis).items()},
    )


def write_pages(folder: Path, shown: Iterable[tuple[Diagnosis, Recording]]) -> Path:
    """Write a page each and their index into a folder; where the index is."""
    script, found = write_script(folder), []
    for diagnosis, recording in shown:
        write_diagnosis(folder / page_name(diagnosis.episode_id), diagnosis, recording, script)
        found.append(diagnosis.to_dict())
    return write_index(folder / "index.html", found)


def write_index(path: Path, found: list[dict[str, Any]]) -> Path:
    """Write a page that leads to the diagnoses, the surest anomaly first."""
    return write_page(path, "index.html", **index_content(found))


def index_content(found: list[dict[str, Any]], folder: str = "") -> dict[str, Any]:
    """What a table of diagnoses shows, ranked by probability; their pages are in `folder`."""
    return {
        "diagnoses": sorted(found, key=lambda content: -content["probability"]),
        "anomalous": sum(content["is_anomaly"] for content in found),
        "chance_check": next((content["detector"] for content in found if content["detector"]), None),
        "causes": any(content["resembles"] for content in found),
        "judged": any(content["trust"] for content in found),
        "folder": folder,
        "in_time": in_time,
        "cause": cause,
        "page_name": page_name,
    }


def write_script(folder: Path) -> str:
    """Put plotly's code into a folder of pages, once for all of them; its file name."""
    with written_atomically(folder / SCRIPT_FILE) as temporary:
        temporary.write_text(plotly_script(), encoding="utf-8")
    return SCRIPT_FILE


def page_name(episode_id: str) -> str:
    """The file name of an episode's page."""
    return f"{file_stem(episode_id)}.html"


def file_stem(episode_id: str) -> str:
    """An episode's id, with what a file system might not take replaced."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", episode_id)[:80]
    return f"{plain}-{zlib.crc32(episode_id.encode()):08x}"


def known_truth(recording: Recording) -> str:
    """The known faults of an episode in a few words; nothing where none are."""
    return "; ".join(
        f"{fault.kind or 'fault'} in {_few(fault.sensors) or 'unknown sensors'}, {_when(fault, recording)}"
        for fault in recording.episode.faults or ()
    )


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _when(fault: Fault, recording: Recording) -> str:
    if fault.start <= 0 and fault.stop >= recording.episode.values.shape[1]:
        return "throughout"
    return in_time(fault.start * recording.step, fault.stop * recording.step, recording.time_unit)


def _strangest(diagnosis: Diagnosis, span: Span, n: int = 2) -> list[str]:
    """The sensors that the ranking puts first within some moments, those that are normal then left out."""
    moments = slice(span.first, span.last + 1)
    first, *others = np.argsort(-diagnosis.ranking[moments].max(axis=0), kind="stable")[:n]
    strange = [sensor for sensor in others if diagnosis.deviation[moments, sensor].max() >= STANDS_OUT]
    return [diagnosis.sensors[sensor] for sensor in (first, *strange)]
