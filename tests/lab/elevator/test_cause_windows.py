"""When a cause acts: by hand, and in journeys of any sampling rate."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Fault
from dfstrans.lab.elevator.faults import SENSOR_FAULTS, Bump, ElevatorFault
from dfstrans.lab.elevator.motion import Schedule
from dfstrans.lab.elevator.sensors import NAMES
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.lab.elevator.truth import cause_windows, known_faults, sensor_fault_begin

TIMES = Schedule(on=0.5, brake_opens=0.8, go=1.1, end=11.1, brake_closes=11.45, release=11.7, off=11.95)
N_SAMPLES = 8000
SAMPLE = np.arange(N_SAMPLES)
# 0.004 m per sample: 1.6 m/s at 400 Hz
UP = 8.0 + 0.004 * np.minimum(SAMPLE, 2000)
BUMP = Bump(centre=10.001, length=0.16, height=1e-3, angle=0.0)


def bumps(*found: Bump) -> ElevatorFault:
    return ElevatorFault("bump", 1.0, (0, 1, 0), side="cabin", bumps=found)


# ---- windows by hand ------------------------------------------------------------------------------------------------


def test_a_bump_acts_while_a_shoe_is_less_than_half_its_length_from_its_centre() -> None:
    """9.921 < 8 + 0.004 n < 10.081: the lower shoe is there from sample 481 to sample 520, the upper one never."""
    assert cause_windows(bumps(BUMP), TIMES, UP) == [(481, 521)]


def test_both_shoes_meet_a_bump_two_seconds_apart() -> None:
    higher = Bump(centre=13.201, length=0.16, height=1e-3, angle=0.0)
    assert cause_windows(bumps(higher), TIMES, UP) == [(481, 521), (1281, 1321)]
    assert cause_windows(bumps(higher, BUMP), TIMES, UP) == [(481, 521), (481, 521), (1281, 1321)]


def test_a_bump_that_no_shoe_reaches_does_not_act() -> None:
    assert cause_windows(bumps(Bump(4.0, 0.16, 1e-3, 0.0)), TIMES, UP) == []


@pytest.mark.parametrize(
    ("height", "window"),
    [
        (np.minimum(UP, 10.0), (481, N_SAMPLES)),  # stops on it
        (10.0 + 0.004 * np.maximum(SAMPLE - 400, 0), (0, 421)),  # starts from it
        (np.full(N_SAMPLES, 10.0), (0, N_SAMPLES)),
    ],
)
def test_a_bump_acts_as_long_as_a_shoe_rests_on_it(height: np.ndarray, window: tuple[int, int]) -> None:
    assert cause_windows(bumps(BUMP), TIMES, height) == [window]


def test_other_causes_act_while_the_drive_is_on_and_a_faulty_sensor_from_its_beginning() -> None:
    assert cause_windows(ElevatorFault("lubrication", 1.0, (0,), side="cabin"), TIMES, UP) == [(200, 4780)]
    stuck = ElevatorFault("sensor-stuck", 1.0, (0,), sensor="Iq", from_share=0.25)
    assert sensor_fault_begin(stuck, TIMES) == 1440  # 1.1 s and a quarter of 10 s
    assert cause_windows(stuck, TIMES, UP) == [(1440, N_SAMPLES)]
    gain = ElevatorFault("sensor-gain", 0.1, (0,), sensor="Iq", from_share=0.25)
    assert cause_windows(gain, TIMES, UP) == [(0, N_SAMPLES)]


# ---- in points of the recording -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("per", "start", "stop"), [(1, 481, 521), (4, 120, 131), (100, 4, 6)])
def test_a_window_in_points_covers_every_sample_of_it(per: int, start: int, stop: int) -> None:
    relevance = np.zeros((80, 3), dtype=np.float16)
    (found,) = known_faults(bumps(BUMP), [(481, 521)], relevance, ("Ax", "Ay", "Az"), per)
    assert found == Fault(start, stop, (), "bump", 1.0)


def test_a_fault_names_the_sensors_that_show_it_during_its_window_the_clearest_first() -> None:
    relevance = np.zeros((80, 3), dtype=np.float16)
    relevance[4] = [1.5, 0.9, 0.0]
    relevance[5] = [0.0, 0.0, 3.0]
    relevance[6] = [0.0, 9.0, 0.0]  # later: the bump rings on
    (found,) = known_faults(bumps(BUMP), [(481, 521)], relevance, ("Ax", "Ay", "Az"), 1)
    assert found.sensors == ("Az", "Ax")


def test_a_faulty_sensor_is_named_however_little_it_shows() -> None:
    relevance = np.zeros((80, 3), dtype=np.float16)
    relevance[20, 2] = 0.4
    drift = ElevatorFault("sensor-drift", 0.51234567, (0,), sensor="Az", from_share=0.25)
    found = known_faults(drift, [(1440, N_SAMPLES)], relevance, ("Ax", "Ay", "Az"), 4)
    assert found == (Fault(360, 2000, ("Az",), "sensor-drift", 0.5123),)


# ---- in journeys ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("sensors", ["all", "no-friction"])
def test_the_truth_of_a_sensor_fault_names_that_sensor_alone(sensors: str) -> None:
    for seed in range(2):
        settings = SimulationSettings(normal=0, faulty=6, faults=SENSOR_FAULTS, seed=seed, sensors=sensors)
        fleet = Fleet(settings)
        for row in range(settings.faulty):
            journey = fleet.journey(row)
            (found,) = journey.faults
            assert found.sensors == (journey.recipe["fault"]["sensor"],)
            others = [column for column, name in enumerate(journey.sensors) if name not in found.sensors]
            assert (journey.relevance[:, others] == 0).all()


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("rate", [100, 20])
def test_a_sensor_errs_from_the_point_that_the_truth_says(rate: int) -> None:
    options = {"normal": 0, "faulty": 6, "faults": ("sensor-stuck",), "sampling_rate": rate, "n_timepoints": 20 * rate}
    fleet = Fleet(SimulationSettings(**options))
    sound = Fleet(SimulationSettings(**options, severity=(0.0, 0.0)))
    for row in range(6):
        journey, twin = fleet.journey(row), sound.journey(row)
        (found,) = journey.faults
        column = NAMES.index(found.sensors[0])
        np.testing.assert_array_equal(journey.values[column, : found.start + 1], twin.values[column, : found.start + 1])
        np.testing.assert_array_equal(journey.values[column, found.start :], twin.values[column, found.start])
