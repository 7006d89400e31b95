"""A page of simulated journeys: every sensor, the phases, and the effect of each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.diagnosis.scores import runs
from dfstrans.lab.elevator.journey import PHASES
from dfstrans.lab.elevator.machine import SENSOR_NAMES, SENSORS
from dfstrans.lab.elevator.motion import SAMPLING_RATE
from dfstrans.lab.elevator.settings import SEGMENT_SECONDS
from dfstrans.lab.elevator.simulation import Fleet, Journey
from dfstrans.report.figures import ANOMALOUS, INK, NORMAL, styled
from dfstrans.report.page import as_div, write_page
from dfstrans.report.views import thinned

PHASE_COLOURS = {
    "start": "rgba(120,120,120,0.16)",
    "accelerating": "rgba(102,161,130,0.20)",
    "cruising": "rgba(255,255,255,0)",
    "decelerating": "rgba(230,170,80,0.20)",
    "stop": "rgba(120,120,120,0.16)",
}
AFFECTED = "rgba(214,72,72,0.28)"
POINTS_SHOWN = 1600  # per signal
ROW_HEIGHT = 70  # pixels
COLUMN_WIDTH = 450
LEFT_MARGIN = 160  # for the sensor names


def write_journeys(path: Path, fleet: Fleet) -> Path:
    """Write a page with a normal journey up and one down, and one journey of each kind of fault."""
    normal, faulty = _rows_to_show(fleet)
    sections = []
    if normal:
        figure = normal_figure({_title(fleet, row): fleet.journey(row) for row in normal})
        sections.append({"title": "normal journeys", "figure": as_div(figure)})
    for row in faulty:
        sections.append({"title": _title(fleet, row), "figure": as_div(fault_figure(fleet.journey(row)))})
    seed, colours = fleet.settings.seed, PHASE_COLOURS
    content: dict[str, Any] = {"seed": seed, "sections": sections, "colours": colours, "affected": AFFECTED}
    return write_page(path, "journeys.html", package="dfstrans.lab", **content)


def normal_figure(journeys: dict[str, Journey]) -> go.Figure:
    """Normal journeys side by side, by title."""
    sensors = next(iter(journeys.values())).sensors
    signals = {title: _recorded(journey.clean, sensors) for title, journey in journeys.items()}
    figure = _signals_figure(sensors, signals, [NORMAL] * len(journeys))
    for column, journey in enumerate(journeys.values(), start=1):
        _shade_phases(figure, journey.phases, column)
    return figure


def fault_figure(journey: Journey) -> go.Figure:
    """A faulty journey, its twin without the fault, and their difference; the truth is marked."""
    twin, clean = (_recorded(signals, journey.sensors) for signals in (journey.twin, journey.clean))
    columns = {"without the fault": twin, "with the fault": clean, "difference": clean - twin}
    figure = _signals_figure(journey.sensors, columns, [NORMAL, NORMAL, ANOMALOUS])
    for column in (1, 2, 3):
        _shade_phases(figure, journey.phases, column)
    both = np.concatenate([twin, clean])
    lowest, highest = both.min(axis=0), both.max(axis=0)
    margin = 0.06 * (highest - lowest)
    unchanged = (clean == twin).all(axis=0)
    for sensor in range(len(journey.sensors)):
        limits = [lowest[sensor] - margin[sensor], highest[sensor] + margin[sensor]]
        for column in (1, 2):  # on the same scale
            figure.update_yaxes(range=limits, row=sensor + 1, col=column)
        if unchanged[sensor]:  # a flat line needs no scale
            figure.update_yaxes(range=[-1, 1], tickvals=[0], row=sensor + 1, col=3)
    _mark_affected(figure, journey)
    _mark_contacts(figure, journey)
    return figure


def _recorded(signals: npt.NDArray[np.float64], sensors: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Those of the 20 signals that are recorded: (n_samples, n_sensors)."""
    return signals[:, [SENSOR_NAMES.index(name) for name in sensors]]


def _signals_figure(
    sensors: tuple[str, ...], columns: dict[str, npt.NDArray[np.float64]], colours: list[str]
) -> go.Figure:
    """One row per sensor, one column per set of signals (n_samples, n_sensors)."""
    figure = make_subplots(
        rows=len(sensors),
        cols=len(columns),
        shared_xaxes=True,
        vertical_spacing=0.01,
        horizontal_spacing=0.05,
        column_titles=list(columns),
    )
    for column, (signals, colour) in enumerate(zip(columns.values(), colours, strict=True), start=1):
        for sensor, name in enumerate(sensors):
            shown = thinned(signals[:, sensor], 1 / SAMPLING_RATE, POINTS_SHOWN)
            line = {"color": colour, "width": 1}
            figure.add_scatter(x=shown.time, y=shown.values, line=line, name=name, row=sensor + 1, col=column)
    figure.update_annotations(font_size=14)  # column titles
    for sensor, name in enumerate(sensors):
        _name_row(figure, f"<b>{name}</b><br>{SENSORS[SENSOR_NAMES.index(name)].unit}", sensor * len(columns) + 1)
    figure.update_yaxes(nticks=4, tickfont={"size": 10}, tickformat="~g")
    duration = max(len(signals) for signals in columns.values()) / SAMPLING_RATE
    figure.update_xaxes(range=[0, duration], tick0=0, dtick=5)
    figure.update_xaxes(title={"text": "time in s", "standoff": 6}, row=len(sensors))
    width = COLUMN_WIDTH * len(columns) + LEFT_MARGIN
    styled(figure, height=120 + ROW_HEIGHT * len(sensors), width=width, showlegend=False)
    return figure.update_layout(margin_l=LEFT_MARGIN)


def _name_row(figure: go.Figure, text: str, axis: int) -> None:
    """Write names horizontally next to each row; vertical names would overlap."""
    low, high = figure.layout[f"yaxis{axis if axis > 1 else ''}"].domain
    figure.add_annotation(
        text=text, xref="paper", x=0, xanchor="right", xshift=-52, yref="paper", y=(low + high) / 2, yanchor="middle",
        align="right", font_size=12, showarrow=False,
    )  # fmt: skip


def _shade_phases(figure: go.Figure, phases: npt.NDArray[np.int8], column: int) -> None:
    for number, name in enumerate(PHASES):
        for first, last in runs(phases == number):
            if name in PHASE_COLOURS:
                start, end = first * SEGMENT_SECONDS, (last + 1) * SEGMENT_SECONDS
                _over_all_rows(figure, column, start, end, fillcolor=PHASE_COLOURS[name], line_width=0, layer="below")


def _mark_affected(figure: go.Figure, journey: Journey) -> None:
    """Mark red, in the column of differences, where a sensor changes by more than it does from day to day."""
    for column in range(len(journey.sensors)):
        for first, last in runs(journey.relevance[:, column] >= 1):
            start, end = first * SEGMENT_SECONDS, (last + 1) * SEGMENT_SECONDS
            figure.add_vrect(start, end, fillcolor=AFFECTED, line_width=0, layer="below", row=column + 1, col=3)


def _mark_contacts(figure: go.Figure, journey: Journey) -> None:
    """Draw a dotted line where a guide shoe meets a bump."""
    for fault in journey.faults:
        if fault.kind == "bump":
            middle = (fault.start + fault.stop) / 2 * journey.interval
            for column in (2, 3):
                _over_all_rows(figure, column, middle, middle, line={"color": INK, "width": 1, "dash": "dot"})


def _over_all_rows(figure: go.Figure, column: int, start: float, end: float, **look: object) -> None:
    kind = "line" if start == end else "rect"
    axis = f"x{column if column > 1 else ''}"
    figure.add_shape(type=kind, xref=axis, yref="paper", x0=start, x1=end, y0=0, y1=1, **look)


def _rows_to_show(fleet: Fleet) -> tuple[list[int], list[int]]:
    """The first normal journey up and the first down, and the first journey of each kind of fault."""
    settings = fleet.settings
    by_direction = {fleet.trip(row).direction: row for row in reversed(range(min(settings.normal, 50)))}
    normal = [by_direction[way] for way in (1, -1) if way in by_direction]
    return normal, [settings.normal + number for number in range(min(settings.faulty, len(settings.faults)))]


def _title(fleet: Fleet, row: int) -> str:
    trip = fleet.trip(row)
    way = "up" if trip.direction > 0 else "down"
    people = f"{trip.passengers or 'no'} passenger{'' if trip.passengers == 1 else 's'}"
    floors = f"{way} from floor {trip.start_floor} to {trip.stop_floor}"
    fault = fleet.fault(row)
    if fault is None:
        return f"{floors}, {people}, installation {trip.installation}"
    where = f", {fault.sensor}" if fault.sensor else f", {fault.side}" if fault.side and not fault.bumps else ""
    return f"{fault.kind} (severity {fault.severity:.2g}{where}): {floors}, {people}, installation {trip.installation}"
