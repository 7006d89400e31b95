"""The machine obeys its own physics: energy, steady state, modes, and each law by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfstrans.lab.elevator.plant import (
    Friction,
    Inputs,
    Wave,
    cabin_normal_force,
    current_rates,
    electromagnetic_torque,
    friction_bound,
    locate,
    rail_at,
    rope_stiffness,
    shoe_force,
    step,
    stop_element,
)
from tests.lab.elevator.energy import electrical_balance, mechanical_balance
from tests.lab.elevator.journeys import MACHINE_FAULTS, Trace, journey
from tests.lab.elevator.measurements import LATERAL, VERTICAL, closed_loop, modes, torque_error, voltage_errors

# ---- energy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "kind"), [(0, None), (3, "bump")])
def test_no_energy_is_lost_or_made(number: int, kind: str | None) -> None:
    setup = journey(number, kind)
    balance = mechanical_balance(setup, Trace(setup))
    assert balance.turnover > 10_000
    assert balance.worst < 1.0


def test_energy_error_halves_with_the_step() -> None:
    setup = journey(0)
    whole, half = (mechanical_balance(setup, Trace(setup, substeps=n)).worst for n in (1, 2))
    assert whole / half == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("kind", [None, "inductance"])
def test_no_electrical_energy_is_lost_or_made(kind: str | None) -> None:
    setup = journey(1, kind)
    whole, half = (electrical_balance(setup, Trace(setup, substeps=n)) for n in (1, 2))
    assert whole.turnover > 10_000
    assert whole.worst < 0.02
    assert whole.worst / half.worst == pytest.approx(4, abs=0.5)  # the midpoint rule is of second order


@pytest.mark.slow
def test_no_energy_is_lost_or_made_in_many_journeys() -> None:
    for number in range(60):
        kind = (None, *MACHINE_FAULTS)[number % 6]
        setup = journey(number, kind)
        trace = Trace(setup)
        assert mechanical_balance(setup, trace).worst < 1.5, (number, kind)
        assert electrical_balance(setup, trace).worst < 0.02, (number, kind)


# ---- steady state ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, *MACHINE_FAULTS])
@pytest.mark.parametrize("number", [0, 2])
def test_torque_at_constant_speed_is_load_and_friction(number: int, kind: str | None) -> None:
    assert torque_error(journey(number, kind, calm=True)) == pytest.approx(0, abs=0.12)


@pytest.mark.parametrize("kind", [None, *MACHINE_FAULTS])
@pytest.mark.parametrize("number", [0, 1])
def test_voltages_at_constant_speed_obey_the_steady_equations(number: int, kind: str | None) -> None:
    assert voltage_errors(journey(number, kind, calm=True)) == pytest.approx((0, 0), abs=0.02)


# ---- modes ----------------------------------------------------------------------------------------------------------

VERTICAL_BANDS = ((2.6, 3.2), (8.9, 11.7), (12.5, 14.9), (22.0, 28.0))  # Hz, docs/reference/elevator.md
LATERAL_BANDS = ((2.5, 4.3), (2.5, 4.3), (4.7, 8.0), (4.7, 8.0))  # x and y
TOLERANCE = 0.05  # the bands are those of another fleet from the same ranges


@pytest.mark.parametrize(("names", "bands"), [(VERTICAL, VERTICAL_BANDS), (LATERAL, LATERAL_BANDS)])
def test_modes_lie_in_their_bands_and_are_damped(
    names: tuple[str, ...], bands: tuple[tuple[float, float], ...]
) -> None:
    for number, share in ((0, 0.1), (3, 0.5), (5, 0.9), (6, 0.0), (7, 1.0)):
        found = modes(number, share, names)
        assert len(found) == len(bands), found
        for (frequency, damping), (low, high) in zip(found, bands, strict=True):
            assert low * (1 - TOLERANCE) <= frequency <= high * (1 + TOLERANCE), (number, found)
            assert 0.02 < damping < 0.4, (number, found)


def assert_stable(numbers: range, shares: tuple[float, ...]) -> None:
    """Every movement fades away; what does not oscillate may be as slow as the elevator's own progress."""
    least = 1.0
    for number in numbers:
        for share in shares:
            rates = closed_loop(number, share)
            oscillating = rates[np.abs(rates.imag) > 0.1]
            assert (oscillating.real < 0).all(), (number, share, rates)
            assert rates.real.max() < 0.01, (number, share, rates)
            least = min(least, float((-oscillating.real / np.abs(oscillating)).min()))
    assert least > 0.02, least


def test_drive_damps_every_movement() -> None:
    assert_stable(range(4), (0.5,))


@pytest.mark.slow
def test_drive_damps_every_movement_in_many_journeys() -> None:
    assert_stable(range(200), (0.0, 0.5, 1.0))


# ---- each law by hand -----------------------------------------------------------------------------------------------


def test_a_bristle_bends_up_to_its_limit_and_slides_beyond() -> None:
    assert stop_element(0.0, 0.3, 1.0) == 0.3
    assert stop_element(0.9, 0.3, 1.0) == 1.0
    assert stop_element(1.0, -0.3, 1.0) == pytest.approx(0.7)  # at once back from the limit: no sign of the speed
    assert stop_element(-0.9, -0.3, 1.0) == -1.0


def test_friction_falls_from_static_to_sliding_with_speed() -> None:
    friction = Friction(sliding=0.1, static=0.16, stribeck_speed=0.2, viscous=30.0, bristle=4e5)
    assert friction_bound(friction, 1000.0, 1.0, 0.0) == pytest.approx(160)
    assert friction_bound(friction, 1000.0, 1.0, 0.2) == pytest.approx(130)
    assert friction_bound(friction, 1000.0, 1.0, -0.2) == pytest.approx(130)
    assert friction_bound(friction, 1000.0, 1.0, 1e6) == pytest.approx(100)
    assert friction_bound(friction, 1000.0, 1.1, 0.0) == pytest.approx(176)


def test_a_shoe_is_a_hardening_spring_and_a_damper() -> None:
    assert shoe_force(2e5, 1000.0, 0.004, 0.001, 0.0) == pytest.approx(-200 * (1 + 1 / 16))
    assert shoe_force(2e5, 1000.0, 0.004, -0.004, 0.0) == pytest.approx(1600)
    assert shoe_force(2e5, 1000.0, 0.004, 0.0, 0.5) == pytest.approx(-500)


def test_the_rope_and_its_spring_are_in_series() -> None:
    plant = journey(0).plant._replace(rope_tension=12e6, hitch=1e6)
    assert rope_stiffness(plant, 12.0) == pytest.approx(0.5e6)
    assert rope_stiffness(plant, 0.0) == pytest.approx(1e6)


def test_the_rail_is_read_between_two_points() -> None:
    rail = np.zeros((7600, 8))
    rail[250, 3], rail[251, 3] = 2.0, 4.0
    assert rail_at(rail, *locate(1.0), 3) == pytest.approx(2.0)
    assert rail_at(rail, *locate(1.001), 3) == pytest.approx(2.5)
    assert rail_at(rail, *locate(1.004), 3) == pytest.approx(4.0)
    assert locate(-1.0) == (0, 0.0)
    assert locate(100.0)[0] == 7598  # the last point that has a next one


def test_shoes_press_with_preload_gauge_and_lateral_force() -> None:
    plant = journey(0).plant._replace(preload_x=300.0, preload_y=400.0, gauge_cabin=2e5)
    at_rest = cabin_normal_force(plant, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert at_rest == pytest.approx(2 * 300 + 2 * 400)
    assert cabin_normal_force(plant, 0.0, 0.0, 400.0, 0.0, 0.0, -300.0) == pytest.approx(500 + 300 + 400 + 500)
    assert cabin_normal_force(plant, 1e-3, 0.0, 0.0, 0.0, 0.0, 0.0) == pytest.approx(at_rest + 200)
    assert cabin_normal_force(plant, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0) == pytest.approx(at_rest - 300)  # never pulls


def test_the_motor_by_hand() -> None:
    motor = journey(0).plant.motor._replace(
        pole_pairs=10.0, flux=2.0, inductance_d=0.02, inductance_q=0.04, resistance=1.0, dead_time=0.0, asymmetry=0.0
    )
    assert electromagnetic_torque(motor, 0.0, 10.0) == pytest.approx(300)
    assert electromagnetic_torque(motor, -10.0, 10.0) == pytest.approx(330)  # reluctance helps
    rates = current_rates(motor, 0.0, 10.0, 0.0, 170.0, 80.0, 1.0, 0.0)
    assert rates.i_d == pytest.approx(80 * 0.04 * 10 / 0.02)
    assert rates.i_q == pytest.approx((170 - 10 - 160) / 0.04)
    dead = current_rates(motor._replace(dead_time=5.0), 0.0, 9.7, 0.0, 169.7, 80.0, 1.0, 0.0)
    assert dead.i_q == pytest.approx(-5 * 9.7 / 10 / 0.04)


def test_ripple_turns_with_the_pulley() -> None:
    """12 waves of cogging per pair of poles: a twelfth of an electrical turn later it is the same."""
    setup = journey(0)
    silent, none = Wave(0.0, 0.0), Inputs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    motor = setup.plant.motor._replace(cogging=Wave(3.0, 0.0), ripple_1=silent, ripple_6=silent)
    plant = setup.plant._replace(motor=motor)

    def ripple(phi: float) -> float:
        return float(step.py_func(plant, setup.state._replace(phi=phi), setup.rail, none, 1e-4)[1].ripple)

    period = 2 * math.pi / 120
    assert ripple(0.0) == pytest.approx(0, abs=1e-12)
    assert ripple(period / 4) == pytest.approx(3)
    assert ripple(period / 4 + 7 * period) == pytest.approx(3)
    assert ripple(3 * period / 4) == pytest.approx(-3)
