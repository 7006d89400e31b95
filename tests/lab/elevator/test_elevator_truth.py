"""The truth: what a fault changes against what changes from day to day, and when its cause acts."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Fault
from dfstrans.lab.elevator.faults import SENSOR_FAULTS, Bump, ElevatorFault, apply_to_signals, draw_fault
from dfstrans.lab.elevator.journey import PHASES, phases
from dfstrans.lab.elevator.machine import NOISE, SENSOR_NAMES
from dfstrans.lab.elevator.motion import Schedule
from dfstrans.lab.elevator.settings import MAX_SEVERITIES
from dfstrans.lab.elevator.truth import (
    NormalVariation,
    cause_windows,
    fault_labels,
    segment_centres,
    segment_rms,
    sensor_fault_start,
)
from tests.lab.elevator.journeys import N_SAMPLES, SEED, column, journey, trip
from tests.lab.elevator.measurements import labels_that_depend_on_the_step, pairs, relevance

IQ, AX, AY, FRICTION = (SENSOR_NAMES.index(name) for name in ("Iq", "Ax", "Ay", "FrictionCabin"))


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_a_change_is_measured_by_its_rms_in_each_segment() -> None:
    change = np.zeros((300, 2))
    change[100:200, 0] = 3.0
    change[:, 1] = -2.0
    rms = segment_rms(change)
    np.testing.assert_allclose(rms[:, 1], 2)
    assert rms[1, 0] == pytest.approx(3, rel=0.02)
    assert 0 < rms[0, 0] < 0.5  # smoothing over five samples carries a little across the border
    assert rms[2, 0] == pytest.approx(rms[0, 0])


def test_ripple_that_is_only_shifted_is_smoothed_away() -> None:
    time = np.arange(800) / 400
    slow, ripple = np.sin(2 * np.pi * 2 * time), np.sin(2 * np.pi * 153 * time)
    rms = segment_rms(np.stack([slow, ripple], axis=1))[1:-1]
    np.testing.assert_allclose(rms[:, 0], 0.5**0.5, rtol=0.01)
    assert (rms[:, 1] < 0.25).all()


def test_relevance_is_the_change_in_units_of_the_scale_of_its_phase() -> None:
    scale = NormalVariation(np.array([[1.0, 2.0], [4.0, 8.0]]), np.ones(2))
    change = np.full((200, 2), 8.0)
    np.testing.assert_allclose(scale.relevance(segment_rms(change), np.array([0, 1], dtype=np.int8)), [[8, 4], [2, 1]])


# ---- when a cause acts ----------------------------------------------------------------------------------------------

TIMES = Schedule(on=0.5, brake_opens=0.8, go=1.1, end=11.1, brake_closes=11.45, release=11.7, off=11.95)
SAMPLE = np.arange(N_SAMPLES)
UP = 8.0 + 0.004 * np.minimum(SAMPLE, 2000)  # 1.6 m/s at 400 Hz
LOW, HIGH, OUT_OF_REACH = (Bump(centre, 0.16, 1e-3, 0.0) for centre in (10.001, 13.201, 4.0))


def bumps(*found: Bump) -> ElevatorFault:
    return ElevatorFault("bump", 1.0, (0, 1, 0), side="cabin", bumps=found)


def sensor_fault(kind: str, severity: float = 1.0) -> ElevatorFault:
    return ElevatorFault(kind, severity, (0,), sensor="Az", from_share=0.25)


@pytest.mark.parametrize(
    ("fault", "height", "windows"),
    [
        (bumps(LOW), UP, [(481, 521)]),  # 9.921 < 8 + 0.004 n < 10.081, of the lower shoe; the upper one is beyond it
        (bumps(HIGH), UP, [(481, 521), (1281, 1321)]),  # both shoes, two seconds apart
        (bumps(HIGH, LOW), UP, [(481, 521), (481, 521), (1281, 1321)]),
        (bumps(OUT_OF_REACH), UP, []),
        (bumps(LOW), np.minimum(UP, 10.0), [(481, N_SAMPLES)]),  # stops on it
        (bumps(LOW), 10.0 + 0.004 * np.maximum(SAMPLE - 400, 0), [(0, 421)]),  # starts from it
        (bumps(LOW), np.full(N_SAMPLES, 10.0), [(0, N_SAMPLES)]),
        (ElevatorFault("lubrication", 1.0, (0,), side="cabin"), UP, [(200, 4780)]),  # while the drive is on
        (sensor_fault("sensor-stuck"), UP, [(1440, N_SAMPLES)]),  # 1.1 s and a quarter of 10 s
        (sensor_fault("sensor-gain"), UP, [(0, N_SAMPLES)]),
    ],
)
def test_when_a_cause_acts_by_hand(fault: ElevatorFault, height: np.ndarray, windows: list[tuple[int, int]]) -> None:
    assert cause_windows(fault, TIMES, height) == windows


def labels(fault: ElevatorFault, window: tuple[int, int], relevance: dict[int, list[float]], per: int) -> Fault:
    found = np.zeros((80, 3), dtype=np.float16)
    for segment, row in relevance.items():
        found[segment] = row
    (label,) = fault_labels(fault, [window], found, ("Ax", "Ay", "Az"), per)
    return label


@pytest.mark.parametrize(("per", "start", "stop"), [(1, 481, 521), (4, 120, 131), (100, 4, 6)])
def test_a_window_in_points_covers_all_its_samples(per: int, start: int, stop: int) -> None:
    assert labels(bumps(LOW), (481, 521), {}, per) == Fault(start, stop, (), "bump", 1.0)


def test_fault_names_affected_sensors_clearest_first() -> None:
    relevance = {4: [1.5, 0.9, 0.0], 5: [0.0, 0.0, 3.0], 6: [0.0, 9.0, 0.0]}  # in segment 6 the bump rings on
    assert labels(bumps(LOW), (481, 521), relevance, 1).sensors == ("Az", "Ax")


def test_faulty_sensor_is_named_however_small_its_effect() -> None:
    drift = sensor_fault("sensor-drift", 0.51234567)
    assert sensor_fault_start(drift, TIMES) == 1440
    expected = Fault(360, 2000, ("Az",), "sensor-drift", 0.5123)
    assert labels(drift, (1440, N_SAMPLES), {20: [0, 0, 0.4]}, 4) == expected


# ---- normal variation -----------------------------------------------------------------------------------------------


def test_the_scale_is_never_below_noise_nor_a_thousandth_of_the_range(rough_variation: NormalVariation) -> None:
    scale = rough_variation.scale
    assert scale.shape == (len(PHASES), len(SENSOR_NAMES))
    assert (scale >= NOISE).all()
    assert scale[:, SENSOR_NAMES.index("Zc")].min() > 0.02  # of 25.2 m
    assert scale[:, SENSOR_NAMES.index("Phi")].min() > 0.18  # of up to ±112 rad


def test_the_scale_at_cruise_is_as_specified(rough_variation: NormalVariation) -> None:
    """Within ±50 %: from few pairs, of another fleet."""
    cruise = dict(zip(SENSOR_NAMES, rough_variation.scale[PHASES.index("cruising")], strict=True))
    specified = {
        "FrictionCabin": 41, "FrictionCw": 31, "Fc": 90, "Fsupport": 219, "Iq": 0.68, "Id": 0.10, "Vd": 2.1, "Vq": 7.7,
        "Ax": 0.015, "Ay": 0.015, "Az": 0.015, "Vc": 0.0032, "Phi": 0.22, "Zc": 0.025,
    }  # fmt: skip
    for name, value in specified.items():
        assert cruise[name] == pytest.approx(value, rel=0.5), name


@pytest.mark.slow
def test_fresh_normal_pairs_are_rarely_affected(variation: NormalVariation) -> None:
    """By construction 5 % of cells in the null, less where the scale is the noise or the range: 2.5 % in all."""
    null, fresh = pairs(variation, (2, 3), 190), pairs(variation, (20, 21), 150)
    assert 0.02 < (null >= 1).mean() < 0.05
    assert (fresh >= 1).mean() == pytest.approx((null >= 1).mean(), rel=0.5)
    assert (fresh >= 2).mean() < 0.005
    by_sensor = (fresh >= 1).mean(axis=(0, 1))
    assert by_sensor.max() < 0.12, dict(zip(SENSOR_NAMES, by_sensor, strict=True))
    assert by_sensor[[FRICTION, IQ]].min() > 0.015


def test_the_truth_of_a_faulty_sensor_is_finite_up_to_the_limits(rough_variation: NormalVariation) -> None:
    """r is a float16, which ends at 65 504."""
    clean = journey(0).run(N_SAMPLES)
    during = phases(journey(0), segment_centres(80))
    for name in SENSOR_NAMES:
        for kind in SENSOR_FAULTS:
            fault = ElevatorFault(kind, MAX_SEVERITIES[kind], (0,), sensor=name)
            change = apply_to_signals(fault, clean, 1000, rough_variation.spread) - clean
            assert np.isfinite(rough_variation.relevance(segment_rms(change), during)).all(), (name, kind)


# ---- faults ---------------------------------------------------------------------------------------------------------


def test_bumps_are_visible_in_lateral_acceleration_but_not_in_current(
    rough_variation: NormalVariation,
) -> None:
    for number in range(4):
        found, _ = relevance(rough_variation, number, "bump")
        assert found[:, [AX, AY]].max() >= 2
        assert found[:, IQ].max() < 1
        height = column(journey(number).run(N_SAMPLES), "Zc")
        contact = np.zeros(N_SAMPLES, dtype=bool)
        for bump in draw_fault(SEED, (9, number), "bump", trip((9, number))).bumps:
            for shoe in (0.0, 3.2):
                contact |= np.abs(height + shoe - bump.centre) < bump.length / 2
        touched = contact.reshape(80, 100).any(axis=1)
        strongest = int(found[:, [AX, AY]].max(axis=1).argmax())
        assert touched[max(strongest - 1, 0) : strongest + 1].any()  # there, or just before


def test_lost_lubrication_is_clearest_when_accelerating_and_braking(
    rough_variation: NormalVariation,
) -> None:
    by_phase: list[list[float]] = [[] for _ in PHASES]
    for number in range(10):
        found, during = relevance(rough_variation, number, "lubrication", side="cabin")
        for segment, phase in enumerate(during):
            by_phase[phase].append(found[segment, FRICTION])
    mean = {name: float(np.mean(values)) for name, values in zip(PHASES, by_phase, strict=True)}
    assert mean["accelerating"] > 1.3 * mean["cruising"], mean
    assert mean["decelerating"] > 1.3 * mean["cruising"], mean


@pytest.mark.slow
def test_labels_hardly_depend_on_the_step(variation: NormalVariation) -> None:
    differing, cells = labels_that_depend_on_the_step(variation, 24)
    assert cells == 38_400
    assert differing <= 20


@pytest.mark.slow
def test_bumps_affect_ax_or_ay_but_never_the_current(variation: NormalVariation) -> None:
    found = [relevance(variation, number, "bump")[0] for number in range(60)]
    assert np.mean([(each[:, [AX, AY]] >= 1).any() for each in found]) >= 0.95
    assert max(each[:, IQ].max() for each in found) < 1
    assert np.mean([(each >= 1).mean() for each in found]) == pytest.approx(0.013, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cells", "peak"), [("lubrication", 0.093, 3.3), ("misalignment", 0.152, 5.7)])
def test_friction_faults_are_as_visible_as_specified(
    variation: NormalVariation, kind: str, cells: float, peak: float
) -> None:
    found = [relevance(variation, number, kind)[0] for number in range(48)]
    assert all(each.max() >= 1 for each in found)
    assert np.mean([(each >= 1).mean() for each in found]) == pytest.approx(cells, rel=0.4)
    assert np.median([each.max() for each in found]) == pytest.approx(peak, rel=0.4)
