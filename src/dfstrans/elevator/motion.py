"""How a journey goes: the shaft, the ticks, the S-curve of the movement, and what the drive does when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.elevator.units import Acceleration, Jerk, Metre, Second, Speed

N_FLOORS = 10
FLOOR_HEIGHT: Metre = 2.8
TRAVEL: Metre = FLOOR_HEIGHT * (N_FLOORS - 1)
SPEED: Speed = 1.6
ACCELERATIONS: tuple[Acceleration, Acceleration] = (0.75, 0.95)  # from … to, over installations
JERKS: tuple[Jerk, Jerk] = (0.8, 1.2)
LATEST_START: Second = 0.6  # of the drive's switching on

CURRENT_TICK: Second = 0.25e-3  # of the current loop, and the step of the machine
TICKS_PER_SPEED_TICK = 4
SPEED_TICK: Second = CURRENT_TICK * TICKS_PER_SPEED_TICK  # of the speed loop, and the grid of the movement
TICKS_PER_SAMPLE = 10  # each sample is their mean, as of an integrating converter
SAMPLING_RATE = round(1 / (CURRENT_TICK * TICKS_PER_SAMPLE))  # Hz, the simulator's own

PRE_TORQUE_RAMP: Second = 0.25
BRAKE_DELAY: Second = 0.30  # from power on to the opening of the brake
BRAKE_TIME: Second = 0.12  # that the brake takes to open or close
START_DELAY: Second = 0.30  # from the opening of the brake to the start
HOLD: Second = 0.35  # from standstill to the closing of the brake
RELEASE_DELAY: Second = 0.25  # from the closing of the brake to the end of the torque
RELEASE_RAMP: Second = 0.25


class Schedule(NamedTuple):
    """The moments of a journey, in s from the start of the recording."""

    on: Second
    brake_opens: Second
    go: Second
    end: Second
    brake_closes: Second
    release: Second
    off: Second


class SCurve(NamedTuple):
    """A movement with bounded jerk, on a grid of 1 ms: position, speed, acceleration (n, 3), and its parts in s."""

    path: npt.NDArray[np.float64]
    jerking: Second  # T_j
    accelerating: Second  # T_a, at constant acceleration
    cruising: Second  # T_v

    @property
    def duration(self) -> Second:
        """From standstill to standstill."""
        return 4 * self.jerking + 2 * self.accelerating + self.cruising

    @property
    def speeding_up(self) -> Second:
        """From standstill to full speed."""
        return 2 * self.jerking + self.accelerating


def s_curve(distance: Metre, speed: Speed, acceleration: Acceleration, jerk: Jerk) -> SCurve:
    """Seven parts of constant jerk, each a whole number of ms; the jerk is adapted so that the distance is exact."""
    t_j = round(acceleration / jerk, 3)
    t_a = round(speed / acceleration - acceleration / jerk, 3)
    t_v = round(distance / speed - speed / acceleration - acceleration / jerk, 3)
    if min(t_j, t_a, t_v) < 0:
        raise ValueError(f"{distance} m are too short to reach {speed} m/s at {acceleration} m/s² and {jerk} m/s³")
    exact = distance / (t_j * (t_j + t_a) * (2 * t_j + t_a + t_v))
    steps = [round(t / SPEED_TICK) for t in (t_j, t_a, t_j, t_v, t_j, t_a, t_j)]
    jerks = np.repeat(exact * np.array([1, 0, -1, 0, -1, 0, 1]), steps)
    dt = SPEED_TICK
    a = np.concatenate([[0.0], np.cumsum(jerks) * dt])
    v = np.concatenate([[0.0], np.cumsum(a[:-1] * dt + jerks * dt**2 / 2)])
    s = np.concatenate([[0.0], np.cumsum(v[:-1] * dt + a[:-1] * dt**2 / 2 + jerks * dt**3 / 6)])
    return SCurve(np.stack([s, v, a], axis=1), t_j, t_a, t_v)


def schedule(on: Second, moving: Second) -> Schedule:
    """The moments that follow from switching on and from how long the movement takes."""
    opens = on + BRAKE_DELAY
    go = opens + START_DELAY
    end = go + moving
    closes = end + HOLD
    release = closes + RELEASE_DELAY
    return Schedule(on, opens, go, end, closes, release, release + RELEASE_RAMP)


def longest_duration(floors: int) -> Second:
    """How long a recording has to be for a journey over some floors in any installation."""
    slowest = max(s_curve(floors * FLOOR_HEIGHT, SPEED, a, j).duration for a in ACCELERATIONS for j in JERKS)
    return schedule(LATEST_START, slowest).off
