"""Fixtures that take seconds to compute, shared by the tests of the elevator."""

from __future__ import annotations

import pytest

from dfstrans.lab.elevator.truth import NormalVariation, measure_normal_variation
from tests.lab.elevator.journeys import FLOORS, N_INSTALLATIONS, N_SAMPLES, SEED, member


@pytest.fixture(scope="session")
def rough_variation() -> NormalVariation:
    """From fewer pairs than the simulator uses; enough for clear effects."""
    return measure_normal_variation(SEED, member, N_INSTALLATIONS, FLOORS, N_SAMPLES, n_pairs=24)


@pytest.fixture(scope="session")
def variation() -> NormalVariation:
    """As the simulator measures it; for slow proofs."""
    return measure_normal_variation(SEED, member, N_INSTALLATIONS, FLOORS, N_SAMPLES)
