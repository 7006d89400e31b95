"""What several tests of the elevator need and what takes seconds to make."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from dfstrans.lab.elevator import simulation as simulated
from dfstrans.lab.elevator.truth import NormalChange, measure_normal_change
from tests.lab.elevator.journeys import FLOORS, N_INSTALLATIONS, N_SAMPLES, SEED, member


@pytest.fixture(scope="session")
def rough_normal_change() -> NormalChange:
    """From fewer pairs than the simulator takes: enough for effects that are not at the edge."""
    return _normal_change(24)


@pytest.fixture(scope="session")
def normal_change() -> NormalChange:
    """As the simulator measures it; for slow proofs."""
    return _normal_change(190)


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fleet's own null, from few pairs; forgotten before and after, so that no other test meets it."""
    monkeypatch.setattr(simulated, "measure_normal_change", partial(measure_normal_change, n_pairs=4))
    simulated._normal_change.cache_clear()
    yield
    simulated._normal_change.cache_clear()


def _normal_change(n_pairs: int) -> NormalChange:
    return measure_normal_change(SEED, member, N_INSTALLATIONS, FLOORS, N_SAMPLES, n_pairs)
