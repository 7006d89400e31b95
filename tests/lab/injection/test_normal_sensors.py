from __future__ import annotations

import numpy as np
import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.injection.faults import NormalSensors
from dfstrans.lab.injection.settings import KINDS
from tests.lab.injection.machines import SENSORS, machine


def names(sensors: NormalSensors, kind: str) -> list[str]:
    return [SENSORS[i] for i in sensors.suited(kind)]


def test_centre_and_deviation_of_a_gaussian_are_its_median_and_standard_deviation() -> None:
    values = 7 + 2 * np.random.default_rng(0).standard_normal((40, 1, 2000))
    found = NormalSensors.measure(Episodes.from_arrays(values))
    assert found.deviation[0] == pytest.approx(2, rel=0.03)
    assert found.centre[0] == pytest.approx(7, abs=0.05)


def test_a_few_wild_values_hardly_change_the_standard_deviation() -> None:
    values = np.random.default_rng(0).standard_normal((40, 1, 1000))
    values[:, :, ::50] = 1e6
    assert NormalSensors.measure(Episodes.from_arrays(values)).deviation[0] == pytest.approx(1, rel=0.15)


def test_only_constant_sensors_have_no_standard_deviation() -> None:
    values = np.zeros((4, 2, 100))
    values[2, 0, :3] = 5.0
    found = NormalSensors.measure(Episodes.from_arrays(values))
    assert found.deviation[0] == pytest.approx(values[:, 0].std())
    assert found.deviation[1] == 0
    assert found.constant == ("sensor_2",)


def test_whole_numbers_switches_and_partners_are_recognised() -> None:
    found = NormalSensors.measure(machine())
    assert dict(zip(SENSORS, found.whole, strict=True)) == {
        **dict.fromkeys(("speed", "current", "gappy"), False),
        **dict.fromkeys(("count", "switch", "fixed"), True),
    }
    assert found.switches.tolist() == [False, False, False, True, True, False]
    assert SENSORS[found.partner[0]] in ("current", "count")
    assert found.coupling[1] > 0.9
    assert abs(found.coupling[5]) < 0.5


def test_each_kind_is_injected_only_where_it_means_something() -> None:
    found = NormalSensors.measure(machine())
    assert names(found, "spike") == ["speed", "current", "count", "gappy"]
    assert names(found, "stuck") == ["speed", "current", "count", "switch", "gappy"]
    assert names(found, "lag") == names(found, "coupling-loss") == ["speed", "current", "count", "switch"]


def test_one_sensor_has_no_partner() -> None:
    alone = NormalSensors.measure(machine().select_sensors(["speed"]))
    assert [kind for kind in KINDS if len(alone.suited(kind)) == 0] == ["lag", "coupling-loss"]


def test_infinite_values_are_refused_by_name() -> None:
    values = np.zeros((2, 1, 10))
    values[1, 0, 3] = np.inf
    with pytest.raises(DfstransError, match="infinite values in episode 'episode_1'"):
        NormalSensors.measure(Episodes.from_arrays(values))
