"""The truth: what a fault changed, against what changes from day to day anyway."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.faults import SENSOR_FAULTS, ElevatorFault, draw_fault, on_signals
from dfstrans.lab.elevator.journey import PHASES, phases
from dfstrans.lab.elevator.sensors import NAMES
from dfstrans.lab.elevator.settings import LIMITS
from dfstrans.lab.elevator.truth import NormalChange, segment_centres, segment_rms
from tests.lab.elevator.journeys import N_SAMPLES, NOISE, SEED, column, journey, trip
from tests.lab.elevator.measurements import labels_that_depend_on_the_step, pairs, relevance

IQ, AX, AY, FRICTION = (NAMES.index(name) for name in ("Iq", "Ax", "Ay", "FrictionCabin"))


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_a_change_is_measured_by_its_rms_in_each_segment() -> None:
    change = np.zeros((300, 2))
    change[100:200, 0] = 3.0
    change[:, 1] = -2.0
    rms = segment_rms(change)
    assert rms.shape == (3, 2)
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
    scale = NormalChange(np.array([[1.0, 2.0], [4.0, 8.0]]), np.ones(2))
    change = np.full((200, 2), 8.0)
    np.testing.assert_allclose(scale.relevance(segment_rms(change), np.array([0, 1], dtype=np.int8)), [[8, 4], [2, 1]])


def test_phases_follow_the_schedule() -> None:
    setup = journey(0)
    times, curve = setup.schedule, setup.curve
    moments = {
        times.on - 0.01: "idle",
        times.on + 0.01: "start",
        times.go + 0.34: "start",
        times.go + 0.36: "accelerating",
        times.go + curve.speeding_up - 0.01: "accelerating",
        times.go + curve.speeding_up + 0.01: "cruising",
        times.end - curve.speeding_up - 0.01: "cruising",
        times.end - curve.speeding_up + 0.01: "decelerating",
        times.end - 0.31: "decelerating",
        times.end - 0.29: "stop",
        times.off + 0.09: "stop",
        times.off + 0.11: "idle",
        19.9: "idle",
    }
    found = phases(setup, np.array(list(moments)))
    assert [PHASES[phase] for phase in found] == list(moments.values())


# ---- normal change --------------------------------------------------------------------------------------------------


def test_the_scale_is_never_below_noise_nor_a_thousandth_of_the_range(rough_normal_change: NormalChange) -> None:
    scale = rough_normal_change.scale
    assert scale.shape == (len(PHASES), len(NAMES))
    assert (scale >= NOISE).all()
    assert scale[:, NAMES.index("Zc")].min() > 0.02  # of 25.2 m
    assert scale[:, NAMES.index("Phi")].min() > 0.18  # of up to ±112 rad


def test_the_scale_at_cruise_is_as_specified(rough_normal_change: NormalChange) -> None:
    """Within ±50 %: from few pairs, of another fleet."""
    cruise = dict(zip(NAMES, rough_normal_change.scale[PHASES.index("cruising")], strict=True))
    specified = {
        "FrictionCabin": 41, "FrictionCw": 31, "Fc": 90, "Fsupport": 219, "Iq": 0.68, "Id": 0.10, "Vd": 2.1, "Vq": 7.7,
        "Ax": 0.015, "Ay": 0.015, "Az": 0.015, "Vc": 0.0032, "Phi": 0.22, "Zc": 0.025,
    }  # fmt: skip
    for name, value in specified.items():
        assert cruise[name] == pytest.approx(value, rel=0.5), name


@pytest.mark.slow
def test_fresh_normal_pairs_are_as_rarely_affected_as_those_of_the_null(normal_change: NormalChange) -> None:
    """By construction 5 % of cells in the null, less where the scale is the noise or the range: 2.5 % in all."""
    null, fresh = pairs(normal_change, (2, 3), 190), pairs(normal_change, (20, 21), 150)
    assert 0.02 < (null >= 1).mean() < 0.05
    assert (fresh >= 1).mean() == pytest.approx((null >= 1).mean(), rel=0.5)
    assert (fresh >= 2).mean() < 0.005
    by_sensor = (fresh >= 1).mean(axis=(0, 1))
    assert by_sensor.max() < 0.12, dict(zip(NAMES, by_sensor, strict=True))
    assert by_sensor[[FRICTION, IQ]].min() > 0.015


def test_the_truth_of_a_faulty_sensor_is_finite_up_to_the_limits(rough_normal_change: NormalChange) -> None:
    """r is a float16, which ends at 65 504."""
    clean = journey(0).run(N_SAMPLES)
    during = phases(journey(0), segment_centres(80))
    for name in NAMES:
        for kind in SENSOR_FAULTS:
            fault = ElevatorFault(kind, LIMITS[kind], (0,), sensor=name)
            change = on_signals(fault, clean, 1000, rough_normal_change.spread) - clean
            assert np.isfinite(rough_normal_change.relevance(segment_rms(change), during)).all(), (name, kind)


# ---- faults ---------------------------------------------------------------------------------------------------------


def test_bumps_show_in_lateral_acceleration_when_a_shoe_meets_them_and_not_in_the_current(
    rough_normal_change: NormalChange,
) -> None:
    for number in range(4):
        found, _ = relevance(rough_normal_change, number, "bump")
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


def test_lost_lubrication_shows_most_while_speeding_up_and_slowing_down(rough_normal_change: NormalChange) -> None:
    by_phase: list[list[float]] = [[] for _ in PHASES]
    for number in range(10):
        found, during = relevance(rough_normal_change, number, "lubrication", side="cabin")
        for segment, phase in enumerate(during):
            by_phase[phase].append(found[segment, FRICTION])
    mean = {name: float(np.mean(values)) for name, values in zip(PHASES, by_phase, strict=True)}
    assert mean["accelerating"] > 1.3 * mean["cruising"], mean
    assert mean["decelerating"] > 1.3 * mean["cruising"], mean


@pytest.mark.slow
def test_labels_hardly_depend_on_the_step(normal_change: NormalChange) -> None:
    differing, cells = labels_that_depend_on_the_step(normal_change, 24)
    assert cells == 38_400
    assert differing <= 20


@pytest.mark.slow
def test_nearly_every_bump_is_true_in_ax_or_ay_and_none_in_the_current(normal_change: NormalChange) -> None:
    found = [relevance(normal_change, number, "bump")[0] for number in range(60)]
    assert np.mean([(each[:, [AX, AY]] >= 1).any() for each in found]) >= 0.95
    assert max(each[:, IQ].max() for each in found) < 1
    assert np.mean([(each >= 1).mean() for each in found]) == pytest.approx(0.013, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cells", "peak"), [("lubrication", 0.093, 3.3), ("misalignment", 0.152, 5.7)])
def test_friction_faults_are_as_visible_as_specified(
    normal_change: NormalChange, kind: str, cells: float, peak: float
) -> None:
    found = [relevance(normal_change, number, kind)[0] for number in range(48)]
    assert all(each.max() >= 1 for each in found)
    assert np.mean([(each >= 1).mean() for each in found]) == pytest.approx(cells, rel=0.4)
    assert np.median([each.max() for each in found]) == pytest.approx(peak, rel=0.4)
