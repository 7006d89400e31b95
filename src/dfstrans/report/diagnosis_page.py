"""The HTML page of a diagnosis, for the people who maintain the machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.diagnosis.words import LEARNED_LITTLE, RANKED_BY_DROP, STILL_BY_DISTANCE, named_machine
from dfstrans.errors import counted
from dfstrans.report.figures import (
    KNOWN,
    MARKED,
    NEAREST,
    NORMAL_RANGE,
    attention_figure,
    cells_figure,
    lanes_figure,
    panel_tops,
    signals_figure,
)
from dfstrans.report.index import write_index
from dfstrans.report.page import as_div, page_name, write_page, write_script
from dfstrans.report.timeline import piece_of
from dfstrans.report.views import (
    between_moments,
    between_sensors,
    chosen_moments,
    named,
    ranking_scale,
    ranking_title,
    shaded,
    spans,
)

NAMED = 3  # maximum number of sensors listed for a known fault
TOP_SENSORS = 5
MOST_BEYOND = 8  # maximum number of sensor pairs listed, and of sensors or moments with unusual attention


def write_diagnosis(path: Path, diagnosis: Diagnosis, recording: Recording, script_file: str | None = None) -> Path:
    """Write the page of one diagnosis; it includes plotly's code unless `script_file` next to it does."""
    figures = {
        "signals": signals_figure(diagnosis, recording),
        "cells": cells_figure(diagnosis, recording),
        "lanes": lanes_figure(diagnosis, recording),
    }
    at_moments, by_network = {}, diagnosis.explained_by == "network"
    if by_network:
        figures["temporal"] = attention_figure(between_moments(diagnosis), None, "segment")
        figures["spatial"] = attention_figure(between_sensors(diagnosis), diagnosis.sensors, "sensor")
        at_moments = {
            title: attention_figure(between_sensors(diagnosis, segment), diagnosis.sensors, "sensor")
            for segment, title in chosen_moments(diagnosis).items()
        }
    end = recording.episode.values.shape[1] * recording.step
    moments, sensors, beyond = spans(diagnosis), diagnosis.top_sensors(TOP_SENSORS), diagnosis.beyond_band
    return write_page(
        path,
        "diagnosis.html",
        diagnosis=diagnosis,
        chance_check=diagnosis.chance_check,
        sensors=sensors,
        first=diagnosis.top_segments(1)[0],
        moments=moments,
        zooms=[
            (
                diagnosis.clock.span(*one, within=end),
                diagnosis.clock.at(np.clip([2 * one[0] - one[1], 2 * one[1] - one[0]], 0, end)),
            )
            for one in shaded(diagnosis)
        ],
        red={sensor for moment in moments for sensor in moment.sensors},
        titles=dict(zip(diagnosis.sensors, map(named, diagnosis.sensors, recording.units), strict=True)),
        ranking_title=ranking_title(diagnosis),
        pairs=[one for one in beyond if len(one.sensors) == 2][:MOST_BEYOND],
        beyond=[one for one in beyond if len(one.sensors) < 2][:MOST_BEYOND],
        known_fault=describe_known_faults(recording, diagnosis.clock),
        recording=recording,
        behind=describe_compared(diagnosis),
        machine=named_machine(diagnosis.machine or ""),
        span=diagnosis.clock.span,
        brief=partial(diagnosis.clock.span, within=end),
        whole=diagnosis.clock.at([0, end]),
        share=ranking_scale(diagnosis).share,
        words=diagnosis.leading_words,
        symptoms=diagnosis.symptoms,
        learned_little=LEARNED_LITTLE,
        by_network=by_network,
        ranked_by_drop=RANKED_BY_DROP,
        still_by_distance=STILL_BY_DISTANCE,
        colours={"normal": NORMAL_RANGE, "nearest": NEAREST, "marked": MARKED, "known": KNOWN},
        script_file=script_file,
        panels=panel_tops(figures["signals"])[: len(sensors)],
        figures={name: as_div(figure) for name, figure in figures.items()},
        at_moments={title: as_div(figure) for title, figure in at_moments.items()},
    )


def write_pages(folder: Path, shown: Iterable[tuple[Diagnosis, Recording]]) -> Path:
    """Write one page per diagnosis and their index into a folder, and return the path of the index."""
    script, found, pieces = write_script(folder), [], []
    for diagnosis, recording in shown:
        write_diagnosis(folder / page_name(diagnosis.episode_id), diagnosis, recording, script)
        found.append(diagnosis.to_dict())
        pieces.append(piece_of(diagnosis, recording.episode, has_page=True))
    return write_index(folder / "index.html", found, pieces)


def describe_compared(diagnosis: Diagnosis) -> str:
    """Describe the normal recordings that this one is compared with."""
    compared = diagnosis.compared_with
    whose = compared.machine or ("all machines" if compared.why_all else "")
    return counted(compared.recordings, "normal recording") + (f" of {whose}" if whose else "")


def describe_known_faults(recording: Recording, clock: Clock) -> str:
    """Describe the known faults of an episode; empty if there are none."""
    return "; ".join(
        f"{fault.kind or 'fault'} in {_few(fault.sensors) or 'unknown sensors'}, {_when(fault, recording, clock)}"
        for fault in recording.episode.faults or ()
    )


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _when(fault: Fault, recording: Recording, clock: Clock) -> str:
    if fault.start <= 0 and fault.stop >= recording.episode.values.shape[1]:
        return "throughout"
    return clock.span(fault.start * recording.step, fault.stop * recording.step)
