"""The constants in the document, and the sensors: the paper's twenty, as noisy and coarse as specified."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dfstrans.lab.elevator import machine
from dfstrans.lab.elevator.machine import SENSOR_NAMES, SENSORS, add_calibration_errors, add_noise
from dfstrans.lab.elevator.settings import MAX_SEVERITIES
from tests.lab.elevator.journeys import column, journey

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "elevator.md").read_text()
CONSTANTS = re.findall(
    r"^([A-Z_]+) = [-\d.e]+.*?(?:  # (.*))?$", Path(machine.__file__).read_text(), flags=re.MULTILINE
)
ORDERS = {"COGGING_ORDER", "RIPPLE_ORDER"}  # stand in the equations


@pytest.mark.parametrize(("name", "comment"), [pair for pair in CONSTANTS if pair[0] not in ORDERS])
def test_every_constant_is_in_the_document_with_its_unit(name: str, comment: str) -> None:
    ((value, unit),) = re.findall(rf"^\| `{name}` \| .* \| (\S+) \| (\S+(?: m²)?) \|$", DOCUMENT, flags=re.MULTILINE)
    assert float(value) == pytest.approx(getattr(machine, name), rel=1e-5)
    assert unit == "1" or comment.partition(",")[0] == unit


def test_the_constants_are_found() -> None:
    assert len(CONSTANTS) == 36


def test_the_document_names_the_largest_severities() -> None:
    text = " ".join(DOCUMENT.split())
    for kind, said in {
        "lubrication": "5 for `lubrication`", "misalignment": "20 for `misalignment` and `bump`",
        "bump": "20 for `misalignment` and `bump`", "demagnetisation": "0.35 for `demagnetisation`",
        "inductance": "0.7 for `inductance`",
    }.items():  # fmt: skip
        assert said in text
        assert said.startswith(f"{MAX_SEVERITIES[kind]:g} ")
    assert [MAX_SEVERITIES[kind] for kind in ("sensor-stuck", "sensor-drift", "sensor-gain")] == [1, 50, 10]
    assert "1, 50 and 10 for stuck, drifting and wrongly scaled sensors" in text


def test_there_are_the_twenty_sensors_of_the_paper() -> None:
    assert " ".join(SENSOR_NAMES) == (
        "Alpha Ax Ay Az Fc Fcw FrictionCabin FrictionCw Fsupport Id Iq Omega Phi PulleyAz Vc Vcw Vd Vq Zc Zcw"
    )


def test_noise_is_white_with_its_deviation_and_rounded_to_the_resolution() -> None:
    values = add_noise(np.zeros((20_000, 20)), np.random.default_rng(0)).astype(float)
    for sensor, found in zip(SENSORS, values.T, strict=True):
        expected = np.hypot(sensor.noise, sensor.resolution / np.sqrt(12))  # rounding adds its own
        assert found.std() == pytest.approx(expected, rel=0.03), sensor.name
        steps = found / sensor.resolution
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.03
    assert np.abs(np.corrcoef(values.T) - np.eye(20)).max() < 0.05


def test_calibration_errors_are_constant_within_a_journey() -> None:
    clean = np.tile(np.linspace(0, 1000, 50)[:, None], (1, 20))
    found = np.stack([add_calibration_errors(clean, np.random.default_rng(seed)) for seed in range(400)])
    offset = found[:, 0]
    gain = (found[:, -1] - found[:, 0]) / 1000
    np.testing.assert_allclose(found, offset[:, None] + gain[:, None] * clean, atol=1e-9)
    for number, sensor in enumerate(SENSORS):
        assert gain[:, number].std() == pytest.approx(sensor.gain_error, rel=0.15, abs=1e-12), sensor.name
        assert offset[:, number].std() == pytest.approx(sensor.offset_error, rel=0.15, abs=1e-12), sensor.name
    named = {sensor.name: (sensor.gain_error, sensor.offset_error) for sensor in SENSORS}
    assert named["Fc"] == named["Fcw"] == named["Fsupport"] == (0.003, 0.0)
    assert named["FrictionCabin"] == named["FrictionCw"] == (0.02, 2.0)
    assert named["Ax"] == named["Ay"] == named["Az"] == (0.0, 0.004)
    assert named["Iq"] == (0.0, 0.0)


def test_each_name_is_on_the_signal_that_it_names() -> None:
    """Signals that belong together by physics do so under their names."""
    setup = journey(0, calm=True)
    signals = setup.run(8000)
    by = {name: column(signals, name) for name in SENSOR_NAMES}
    for speed, place in (("Omega", "Phi"), ("Vc", "Zc"), ("Vcw", "Zcw")):
        np.testing.assert_allclose(np.diff(by[place]) * 400, (by[speed][1:] + by[speed][:-1]) / 2, atol=0.01)
    np.testing.assert_allclose(np.cumsum(by["Alpha"]) / 400, by["Omega"], atol=0.02)
    np.testing.assert_allclose(np.cumsum(by["Az"]) / 400, by["Vc"], atol=0.05)
    np.testing.assert_allclose(np.cumsum(by["PulleyAz"]) / 400, 0, atol=0.02)
    up = setup.drive.direction
    assert up * by["Zc"][-1] > up * by["Zc"][0]
    assert up * by["Zcw"][-1] < up * by["Zcw"][0]
    cruise = slice(3000, 3400)
    assert up * by["FrictionCabin"][cruise].mean() > 50
    assert up * by["FrictionCw"][cruise].mean() < -30
    machine = setup.plant.machine * (9.81 + by["PulleyAz"]) + 9.81 * 2.1 * 33.2 / 2
    np.testing.assert_allclose(by["Fsupport"], by["Fc"] + by["Fcw"] + machine, rtol=1e-6)
    torque = 15 * by["Iq"] * (setup.plant.motor.flux + (setup.plant.motor.inductance_d - 0.038) * by["Id"])
    load = 0.2 * (by["Fc"] - by["Fcw"])
    assert torque[cruise].mean() == pytest.approx(load[cruise].mean(), abs=60)
    power = by["Vd"] * by["Id"] + by["Vq"] * by["Iq"]
    assert 1.5 * power[cruise].mean() == pytest.approx((torque * by["Omega"])[cruise].mean(), rel=0.25)
    for lateral in ("Ax", "Ay"):
        assert 0.002 < by[lateral][cruise].std() < 0.2
