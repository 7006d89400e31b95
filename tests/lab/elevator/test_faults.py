"""Faults: what each changes, that it changes nothing else, and how much of it sensors see."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfstrans.lab.elevator.faults import (
    SENSOR_FAULTS,
    Bump,
    ElevatorFault,
    apply_to_plant,
    apply_to_rails,
    apply_to_signals,
    draw_fault,
)
from dfstrans.lab.elevator.machine import SENSOR_NAMES
from dfstrans.lab.elevator.plant import Plant
from dfstrans.lab.elevator.rails import HEIGHTS, Rails
from dfstrans.lab.elevator.settings import SEVERITIES
from tests.lab.elevator.journeys import MACHINE_FAULTS, N_SAMPLES, SEED, Signals, column, journey, member, trip

FREE: Rails = member(0).rails


def fault_of(kind: str, severity: float = 1.0, number: int = 0, **changes: object) -> ElevatorFault:
    drawn = draw_fault(SEED, (9, number), kind, trip((9, number)), (severity, severity))
    return replace(drawn, **changes)  # type: ignore[arg-type]


def changed(first: tuple, second: tuple) -> set[str]:
    """Names of what differs between two parameters or rails, nested ones by their own names."""
    names = set()
    for name, one, other in zip(first._fields, first, second, strict=True):  # type: ignore[attr-defined]
        if hasattr(one, "_fields"):
            names |= {f"{name}.{inner}" for inner in changed(one, other)}
        elif not np.array_equal(one, other):
            names.add(name)
    return names


# ---- nothing else ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MACHINE_FAULTS)
def test_fault_of_severity_zero_changes_no_bit(kind: str) -> None:
    np.testing.assert_array_equal(journey(1, kind, 0.0).run(N_SAMPLES), journey(1).run(N_SAMPLES))
    assert not np.array_equal(journey(1, kind).run(N_SAMPLES), journey(1).run(N_SAMPLES))


@pytest.mark.parametrize("kind", SENSOR_FAULTS)
def test_sensor_fault_of_severity_zero_changes_no_bit(kind: str) -> None:
    signals = np.random.default_rng(0).normal(size=(500, 20))
    fault = fault_of(kind, 0.0)
    np.testing.assert_array_equal(apply_to_signals(fault, signals, 100, np.ones(20)), signals)


def test_every_kind_of_fault_is_tested_here() -> None:
    assert set(MACHINE_FAULTS) | set(SENSOR_FAULTS) == set(SEVERITIES)


def test_twins_are_the_same_until_a_shoe_first_meets_a_bump() -> None:
    met = 0
    for number in range(6):
        fault = draw_fault(SEED, (9, number), "bump", trip((9, number)))
        twin, faulty = journey(number).run(N_SAMPLES), journey(number, "bump").run(N_SAMPLES)
        reach = 2 * 0.004  # the slope of the grid reaches one point further, reading between points another
        contact = np.zeros(N_SAMPLES, dtype=bool)
        for bump in fault.bumps:
            for shoe in (0.0, 3.2):
                contact |= np.abs(column(twin, "Zc") + shoe - bump.centre) < bump.length / 2 + reach
        first = int(np.flatnonzero(contact)[0])
        np.testing.assert_array_equal(faulty[: first - 1], twin[: first - 1])
        assert not np.array_equal(faulty[first : first + 40], twin[first : first + 40])
        met += first > 100
    assert met == 6


@pytest.mark.parametrize(
    ("kind", "side", "in_plant", "in_rails"),
    [
        ("lubrication", "cabin", {"cabin_friction"}, {"factor_cabin"}),
        ("lubrication", "counterweight", {"weight_friction"}, {"factor_weight"}),
        ("lubrication", "both", {"cabin_friction", "weight_friction"}, {"factor_cabin", "factor_weight"}),
        ("misalignment", "cabin", set(), {"gauge_cabin", "x"}),
        ("misalignment", "counterweight", set(), {"gauge_weight"}),
        ("misalignment", "both", set(), {"gauge_cabin", "gauge_weight", "x"}),
        ("bump", "cabin", set(), {"gauge_cabin", "x", "y"}),
        ("demagnetisation", "", {"motor"}, set()),
        ("inductance", "", {"motor"}, set()),
    ],
)
def test_a_fault_changes_only_its_own_part_of_the_machine(
    kind: str, side: str, in_plant: set[str], in_rails: set[str]
) -> None:
    fault, plant = fault_of(kind, 0.4, side=side), journey(0).plant
    assert {name.partition(".")[0] for name in changed(plant, apply_to_plant(fault, plant))} == in_plant
    assert changed(FREE, apply_to_rails(fault, FREE)) == in_rails


# ---- each by hand ---------------------------------------------------------------------------------------------------


def test_lost_lubrication_by_hand() -> None:
    plant: Plant = journey(0).plant
    before, after = (
        plant.cabin_friction,
        apply_to_plant(fault_of("lubrication", 0.5, side="cabin"), plant).cabin_friction,
    )
    assert after.sliding == pytest.approx(before.sliding * 1.225)
    assert after.static == pytest.approx(before.static * 1.65)
    assert after.stribeck_speed == pytest.approx(before.stribeck_speed * 2.25)
    assert after.viscous == pytest.approx(before.viscous * 0.8)
    assert after.bristle == before.bristle
    patch = apply_to_rails(fault_of("lubrication", 0.5, side="cabin"), FREE).factor_cabin - FREE.factor_cabin
    assert np.sqrt(np.mean(patch**2)) == pytest.approx(0.5 * 0.15)


def test_friction_is_never_negative() -> None:
    """At the top of the range one fault in a hundred has a patch so slippery that the plain sum would be below zero."""
    lowest = []
    for number in range(60):
        fault = fault_of("lubrication", 3.0, number, side="both")
        rails, plant = apply_to_rails(fault, FREE), apply_to_plant(fault, journey(0).plant)
        lowest += [rails.factor_cabin.min(), rails.factor_weight.min()]
        assert min(plant.cabin_friction.viscous, plant.weight_friction.viscous) >= 0
    assert min(lowest) == 0


def test_misalignment_by_hand() -> None:
    after = apply_to_rails(fault_of("misalignment", 2.0, side="both", evenness=0.5), FREE)
    for narrowed in (after.gauge_cabin - FREE.gauge_cabin, after.gauge_weight - FREE.gauge_weight):
        assert narrowed.mean() == pytest.approx(2 * 1.6e-3 * 0.5)
        assert narrowed.std() == pytest.approx(2 * 1.3e-3 * 0.7)
    bent, narrowed = after.x - FREE.x, after.gauge_cabin - FREE.gauge_cabin
    np.testing.assert_allclose(bent, 0.35 * (narrowed - narrowed.mean()), atol=1e-12)


def test_a_bump_by_hand() -> None:
    bump = Bump(centre=10.0, length=0.08, height=-2e-3, angle=math.pi / 6)
    after = apply_to_rails(ElevatorFault("bump", 2.0, (0, 1, 0), bumps=(bump,)), FREE)
    profile = np.interp([9.955, 9.96, 9.98, 10.0, 10.02, 10.04, 10.05], HEIGHTS, bump.profile())
    np.testing.assert_allclose(profile, np.array([0, 0, 1, 2, 1, 0, 0]) * -1e-3, atol=1e-9)
    np.testing.assert_allclose(after.x - FREE.x, bump.profile() * math.cos(math.pi / 6), atol=1e-15)
    np.testing.assert_allclose(after.y - FREE.y, bump.profile() * 0.5, atol=1e-15)
    np.testing.assert_allclose(after.gauge_cabin - FREE.gauge_cabin, bump.profile() * 3**0.5 / 2, atol=1e-15)


def test_motor_faults_by_hand() -> None:
    plant: Plant = journey(0).plant
    weak = apply_to_plant(fault_of("demagnetisation", 0.1), plant)
    assert changed(plant, weak) == {"motor.flux"}
    assert weak.motor.flux == pytest.approx(0.9 * plant.motor.flux)
    lost = apply_to_plant(fault_of("inductance", 0.2), plant).motor
    assert lost.inductance_d == pytest.approx(0.8 * plant.motor.inductance_d)
    assert lost.inductance_q == pytest.approx(0.8 * plant.motor.inductance_q)
    assert lost.resistance == pytest.approx(0.92 * plant.motor.resistance)
    assert lost.asymmetry == pytest.approx(0.016)


@pytest.mark.parametrize("kind", ["demagnetisation", "inductance"])
def test_the_drive_knows_nothing_of_the_fault(kind: str) -> None:
    assert journey(0, kind).drive == journey(0).drive


def test_sensor_faults_by_hand() -> None:
    signals = np.random.default_rng(0).normal(size=(501, 20))
    spread = np.arange(1.0, 21.0)
    iq = SENSOR_NAMES.index("Iq")

    def after(kind: str, severity: float, **changes: object) -> Signals:
        fault = fault_of(kind, severity, sensor="Iq", from_share=0.5, sign=-1, **changes)
        found = apply_to_signals(fault, signals, 200, spread)
        np.testing.assert_array_equal(np.delete(found, iq, axis=1), np.delete(signals, iq, axis=1))
        return found[:, iq] - signals[:, iq]

    stuck = after("sensor-stuck", 1.0)
    np.testing.assert_array_equal(stuck[:200], 0)
    np.testing.assert_allclose(stuck[200:] + signals[200:, iq], signals[200, iq])
    drift = after("sensor-drift", 2.0)
    np.testing.assert_array_equal(drift[:200], 0)
    np.testing.assert_allclose(drift[200:], np.linspace(0, -2 * spread[iq], 301), atol=1e-12)
    np.testing.assert_allclose(after("sensor-gain", 0.2), -0.2 * signals[:, iq])


# ---- drawn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in SEVERITIES if kind != "sensor-stuck"])
def test_severities_are_log_uniform_in_their_range(kind: str) -> None:
    low, high = SEVERITIES[kind]
    drawn = [draw_fault(0, (1, number), kind, trip((9, 0))).severity for number in range(400)]
    shares = np.log(np.array(drawn) / low) / math.log(high / low)
    np.testing.assert_allclose(np.quantile(shares, [0, 0.25, 0.5, 0.75, 1]), [0, 0.25, 0.5, 0.75, 1], atol=0.08)
    assert shares.min() >= 0
    assert shares.max() <= 1


def test_severities_are_uniform_in_a_range_that_begins_at_zero() -> None:
    drawn = [draw_fault(0, (1, number), "bump", trip((9, 0)), (0.0, 2.0)).severity for number in range(400)]
    np.testing.assert_allclose(np.quantile(drawn, [0, 0.25, 0.5, 0.75, 1]), [0, 0.5, 1, 1.5, 2], atol=0.16)


def test_sides_and_bumps_are_drawn_as_specified() -> None:
    faults = [draw_fault(0, (1, number), "lubrication", trip((9, 0))) for number in range(600)]
    shares = [np.mean([fault.side == side for fault in faults]) for side in ("cabin", "counterweight", "both")]
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.3], atol=0.06)
    counts, beyond = [], []
    for number in range(600):
        where = trip((9, number))
        fault = draw_fault(0, (1, number), "bump", where)
        counts.append(len(fault.bumps))
        for bump in fault.bumps:
            assert 0.06 <= bump.length <= 0.24
            assert 0.6 * fault.severity <= abs(bump.height) * 1e3 <= fault.severity
            reached = min(where.start_floor, where.stop_floor) * 2.8, max(where.start_floor, where.stop_floor) * 2.8
            assert reached[0] + 0.8 <= bump.centre <= reached[1] - 0.8 + 3.2  # some shoe gets there
            beyond.append(bump.centre > reached[1] - 0.8)
    np.testing.assert_allclose(np.bincount(counts)[1:] / 600, [0.5, 0.3, 0.2], atol=0.06)
    assert 0 < np.mean(beyond) < 0.3


def test_severity_can_be_set() -> None:
    drawn = [draw_fault(0, (1, number), "bump", trip((9, 0)), (2.0, 3.0)).severity for number in range(50)]
    assert 2 <= min(drawn) < max(drawn) <= 3


# ---- dose and response ----------------------------------------------------------------------------------------------

DOSES: list[tuple[str, float, dict[str, float]]] = [  # docs/reference/elevator.md: median change at cruise
    ("lubrication", 0.4, {"FrictionCabin": 16, "Iq": 0.12}),
    ("lubrication", 0.8, {"FrictionCabin": 39, "Iq": 0.27}),
    ("lubrication", 1.5, {"FrictionCabin": 99, "Iq": 0.67}),
    ("misalignment", 1.2, {"FrictionCabin": 55, "Iq": 0.41, "Vd": 1.3}),
    ("misalignment", 2.0, {"FrictionCabin": 92, "Iq": 0.69, "Vd": 2.1}),
    ("misalignment", 4.0, {"FrictionCabin": 185, "Iq": 1.37, "Vd": 4.2}),
    ("demagnetisation", 0.1, {"Iq": 1.0, "Vq": 17.7}),
    ("inductance", 0.2, {"Vd": 5.7}),
]
BUMP_DOSES = [(0.5, 0.10, 0.006), (1.0, 0.20, 0.011), (2.0, 0.41, 0.026), (4.0, 0.90, 0.083)]  # mm, Ax, Az


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "severity", "expected"), DOSES)
def test_the_response_at_cruise_is_as_specified(kind: str, severity: float, expected: dict[str, float]) -> None:
    """Within ±50 %: the medians are over few journeys of mixed sides, of another fleet."""
    changes = []
    for number in range(32):
        setup = journey(number, kind, severity)
        change = setup.run(N_SAMPLES) - journey(number).run(N_SAMPLES)
        begin = setup.schedule.go + setup.curve.ramp_time + 0.5
        end = setup.schedule.end - setup.curve.ramp_time - 0.2
        changes.append(np.abs(change[round(begin * 400) : round(end * 400)].mean(axis=0)))
    medians = np.median(changes, axis=0)
    for name, value in expected.items():
        assert medians[SENSOR_NAMES.index(name)] == pytest.approx(value, rel=0.5), name


@pytest.mark.slow
@pytest.mark.parametrize(("height", "a_x", "a_z"), BUMP_DOSES)
def test_the_response_to_a_bump_is_as_specified(height: float, a_x: float, a_z: float) -> None:
    """The worst segment's rms, within ±50 %."""
    worst = []
    for number in range(32):
        change = journey(number, "bump", height).run(N_SAMPLES) - journey(number).run(N_SAMPLES)
        worst.append(np.sqrt((change.reshape(80, 100, 20) ** 2).mean(axis=1)).max(axis=0))
    medians = np.median(worst, axis=0)
    assert medians[SENSOR_NAMES.index("Ax")] == pytest.approx(a_x, rel=0.5)
    assert medians[SENSOR_NAMES.index("Az")] == pytest.approx(a_z, rel=0.5)
