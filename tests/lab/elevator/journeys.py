"""Journeys for tests: any trip of a small fleet, with any fault."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.faults import draw_fault
from dfstrans.lab.elevator.fleet import FleetMember, Trip, draw_conditions, draw_installation, draw_trip
from dfstrans.lab.elevator.journey import set_up
from dfstrans.lab.elevator.kernel import TRACE_COLUMNS, Setup
from dfstrans.lab.elevator.machine import SENSOR_NAMES

SEED = 5
N_INSTALLATIONS = 8
FLOORS = (5, 8)
N_SAMPLES = 8000
MACHINE_FAULTS = ("lubrication", "misalignment", "bump", "demagnetisation", "inductance")

Signals = npt.NDArray[np.float64]


@cache
def member(number: int) -> FleetMember:
    return draw_installation(SEED, number)


def trip(key: tuple[int, ...]) -> Trip:
    return draw_trip(SEED, key, N_INSTALLATIONS, FLOORS)


def journey(
    number: int,
    kind: str | None = None,
    severity: float | None = None,
    *,
    side: str | None = None,
    calm: bool = False,
    on: float | None = None,
) -> Setup:
    """Journey `number` of the tests; `calm` with nobody moving, `on` with another moment of switching on."""
    key = (9, number)
    where = trip(key)
    if on is not None:
        where = where._replace(on=on)
    day = draw_conditions(SEED, key, 0 if calm else where.passengers)
    fault = None
    if kind is not None:
        fault = draw_fault(SEED, key, kind, where, None if severity is None else (severity, severity))
        if side is not None:
            fault = replace(fault, side=side)
    return set_up(member(where.installation), where, day, fault)


def column(signals: Signals, name: str) -> Signals:
    """One sensor of (n_samples, 20)."""
    return signals[:, SENSOR_NAMES.index(name)]


class Trace:
    """The steps of a journey by name; `before` is the state that a step starts from."""

    def __init__(self, setup: Setup, n_samples: int = N_SAMPLES, substeps: int = 1) -> None:
        rows = setup.trace(n_samples, substeps)
        self.step = 0.25e-3 / substeps
        self.time = np.arange(len(rows)) * self.step
        for name, values in zip(TRACE_COLUMNS, rows.T, strict=True):
            setattr(self, name, values)
        self._start = setup.state

    def __getattr__(self, name: str) -> Signals:
        raise AttributeError(f"expected one of {', '.join(TRACE_COLUMNS)}, got {name}")

    def before(self, name: str) -> Signals:
        return np.concatenate([[getattr(self._start, name)], getattr(self, name)[:-1]])
