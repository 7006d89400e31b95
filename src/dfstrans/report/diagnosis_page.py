"""The HTML page of a diagnosis, for the people who maintain the machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.diagnosis import STANDS_OUT, Diagnosis, in_time
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.figures import (
    KNOWN,
    MARKED,
    NEAREST,
    NORMAL_RANGE,
    attention_figure,
    cells_figure,
    lanes_figure,
    signals_figure,
)
from dfstrans.report.index import write_index
from dfstrans.report.page import as_div, page_name, write_page, write_script
from dfstrans.report.views import Span, between_moments, between_sensors, chosen_moments, shaded, spans, when

NAMED = 3  # maximum number of sensors listed for a known fault
TOP_SENSORS = 5
MOST_BEYOND = 8  # maximum number of sensor pairs listed, and of sensors or moments with unusual attention
TRUST_WORDS = {
    "supported": "The attention explains the decision: without its largest weights, the recording looks far less "
    "anomalous.",
    "weak": "The attention explains only part of the decision: read the raw attention with care.",
    "not supported": "The attention does not explain the decision: do not rely on the raw attention.",
}


def write_diagnosis(path: Path, diagnosis: Diagnosis, recording: Recording, script_file: str | None = None) -> Path:
    """Write the page of one diagnosis; it includes plotly's code unless `script_file` next to it does."""
    figures = {
        "signals": signals_figure(diagnosis, recording),
        "cells": cells_figure(diagnosis, recording),
        "lanes": lanes_figure(diagnosis, recording),
        "temporal": attention_figure(between_moments(diagnosis), None, "segment"),
        "spatial": attention_figure(between_sensors(diagnosis), diagnosis.sensors, "sensor"),
    }
    at_moments = {
        title: attention_figure(between_sensors(diagnosis, segment), diagnosis.sensors, "sensor")
        for segment, title in chosen_moments(diagnosis).items()
    }
    moments, sensors, beyond = spans(diagnosis), diagnosis.top_sensors(TOP_SENSORS), diagnosis.beyond_band
    largest = np.log10(max(float(diagnosis.deviation.max()), 10.0))
    return write_page(
        path,
        "diagnosis.html",
        diagnosis=diagnosis,
        chance_check=diagnosis.chance_check,
        sensors=sensors,
        first=diagnosis.top_segments(1)[0],
        worst={one.sensor: _worst_moment(diagnosis, one.sensor) for one in sensors},
        moments=moments,
        zooms=shaded(diagnosis),
        top_in={moment: _top_sensors_in(diagnosis, moment) for moment in moments},
        pairs=[one for one in beyond if len(one.sensors) == 2][:MOST_BEYOND],
        beyond=[one for one in beyond if len(one.sensors) < 2][:MOST_BEYOND],
        known_fault=describe_known_faults(recording),
        nearest=None if recording.nearest is None else recording.nearest.id,
        unit=diagnosis.time_unit,
        in_time=in_time,
        end=recording.episode.values.shape[1] * recording.step,
        share=lambda distance: max(0.02, np.log10(max(distance, 1.0)) / largest),
        trust_words=TRUST_WORDS,
        colours={"normal": NORMAL_RANGE, "nearest": NEAREST, "marked": MARKED, "known": KNOWN},
        script_file=script_file,
        figures={name: as_div(figure) for name, figure in figures.items()},
        at_moments={title: as_div(figure) for title, figure in at_moments.items()},
    )


def write_pages(folder: Path, shown: Iterable[tuple[Diagnosis, Recording]]) -> Path:
    """Write one page per diagnosis and their index into a folder, and return the path of the index."""
    script, found = write_script(folder), []
    for diagnosis, recording in shown:
        write_diagnosis(folder / page_name(diagnosis.episode_id), diagnosis, recording, script)
        found.append(diagnosis.to_dict())
    return write_index(folder / "index.html", found)


def describe_known_faults(recording: Recording) -> str:
    """Describe the known faults of an episode; empty if there are none."""
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


def _worst_moment(diagnosis: Diagnosis, sensor: str) -> str:
    """Return the time at which a sensor ranks highest."""
    return when(diagnosis, int(diagnosis.ranking[:, diagnosis.sensors.index(sensor)].argmax()))


def _top_sensors_in(diagnosis: Diagnosis, span: Span) -> list[str]:
    """Return the top-ranked sensor within a span, and the second if it also deviates then."""
    moments = slice(span.first, span.last + 1)
    first, *second = np.argsort(-diagnosis.ranking[moments].max(axis=0), kind="stable")[:2]
    unusual = [sensor for sensor in second if diagnosis.deviation[moments, sensor].max() >= STANDS_OUT]
    return [diagnosis.sensors[sensor] for sensor in (first, *unusual)]
