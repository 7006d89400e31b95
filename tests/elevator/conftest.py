"""What several tests of the elevator need and what takes seconds to make."""

from __future__ import annotations

import pytest

from dfstrans.elevator.truth import NormalChange, measure_normal_change
from tests.elevator.journeys import FLOORS, N_INSTALLATIONS, N_SAMPLES, SEED, member


@pytest.fixture(scope="session")
def rough_normal_change() -> NormalChange:
    """From fewer pairs than the simulator takes: enough for effects that are not at the edge."""
    return _normal_change(24)


@pytest.fixture(scope="session")
def normal_change() -> NormalChange:
    """As the simulator measures it; for slow proofs."""
    return _normal_change(190)


def _normal_change(n_pairs: int) -> NormalChange:
    fleet = [member(number) for number in range(N_INSTALLATIONS)]
    return measure_normal_change(SEED, fleet, FLOORS, N_SAMPLES, n_pairs)
