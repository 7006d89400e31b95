"""A journey begins at rest: nothing moves before the drive is switched on."""

from __future__ import annotations

import numpy as np
import pytest

from dfstrans.lab.elevator.plant import Inputs, step
from tests.lab.elevator.journeys import MACHINE_FAULTS, NOISE, journey

BRAKE_CLOSED = Inputs(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("kind", [None, *MACHINE_FAULTS])
@pytest.mark.parametrize("number", range(3))
def test_every_acceleration_is_zero_at_the_start(number: int, kind: str | None) -> None:
    setup = journey(number, kind)
    after, readings = step.py_func(setup.plant, setup.state, setup.rail, BRAKE_CLOSED, 1.0)  # velocity = acceleration
    accelerations = [getattr(readings, name) for name in ("alpha", "a_x", "a_roll", "a_y", "a_pitch", "a_body", "a_p")]
    np.testing.assert_allclose(accelerations, 0, atol=1e-10)
    velocities = [value for name, value in after._asdict().items() if name.startswith("v_")]
    np.testing.assert_allclose(velocities, 0, atol=1e-10)


@pytest.mark.parametrize("kind", [None, "lubrication", "misalignment"])
def test_no_sensor_moves_before_the_drive_is_on(kind: str | None) -> None:
    for number in range(4):
        setup = journey(number, kind)
        n_still = int(setup.schedule.on * 400)
        assert n_still >= 100
        still = setup.run(n_still)
        np.testing.assert_allclose((still - still[0]) / NOISE, 0, atol=1e-8)


def test_a_start_out_of_balance_is_seen() -> None:
    """The two tests above can fail: a tenth of a newton of rope force too much moves the machine."""
    setup = journey(0)
    disturbed = setup._replace(state=setup.state._replace(e_c=setup.state.e_c + 0.1 / 0.5e6))
    still = disturbed.run(100)
    assert np.abs((still - still[0]) / NOISE).max() > 1e-4


def test_the_start_holds_the_locked_friction_and_the_load() -> None:
    setup = journey(1)
    plant, state = setup.plant, setup.state
    first = dict(zip(("cabin", "weight"), (setup.run(1)[0, 6], setup.run(1)[0, 7]), strict=True))
    assert first["cabin"] == pytest.approx(plant.cabin_friction.bristle * state.xi_c)
    assert first["weight"] == pytest.approx(plant.weight_friction.bristle * state.xi_w)
    assert abs(first["cabin"]) > 1
    hanging = 9.81 * (plant.sling + plant.body + plant.rope * (29.2 - state.z_s) / 2)
    hanging += 9.81 * (plant.compensation + plant.cable / 2) * state.z_s
    assert setup.run(1)[0, 4] == pytest.approx(hanging + first["cabin"], abs=2)  # the rest: rails that lean


def test_an_eccentric_load_tilts_the_cabin_and_loads_the_shoes() -> None:
    setup = journey(0)
    straight = setup.rail.copy()
    straight[:, :4] = 0
    from dfstrans.lab.elevator.equilibrium import at_rest

    plant = setup.plant._replace(offset_x=100.0, offset_y=0.0)
    state = at_rest(plant, straight, 5.0, 0.0, 0.0)
    upper, lower = state.x + plant.above * state.roll, state.x - plant.below * state.roll
    force = 9.81 * 100 / 3.2
    for deflection, pressed in ((upper, force), (lower, -force)):
        assert plant.guide_x * deflection * (1 + (deflection / 0.004) ** 2) == pytest.approx(pressed)
    assert (state.y, state.pitch) == (0.0, 0.0)
