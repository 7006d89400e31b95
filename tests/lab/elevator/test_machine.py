"""The numbers that all elevators share stand in the document, with their units."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from dfstrans.lab.elevator import machine
from dfstrans.lab.elevator.settings import LIMITS

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "elevator.md").read_text()
UNITS = {name: hint.__metadata__[0] for name, hint in get_type_hints(machine, include_extras=True).items()}


@pytest.mark.parametrize("name", UNITS)
def test_every_number_of_the_machine_stands_in_the_document(name: str) -> None:
    ((value, unit),) = re.findall(rf"^\| `{name}` \| .* \| (\S+) \| (\S+(?: m²)?) \|$", DOCUMENT, flags=re.MULTILINE)
    assert float(value) == pytest.approx(getattr(machine, name), rel=1e-5)
    assert unit == UNITS[name]


def test_the_document_names_the_largest_severities() -> None:
    text = " ".join(DOCUMENT.split())
    for kind, said in {
        "lubrication": "5 for `lubrication`", "misalignment": "20 for `misalignment` and `bump`",
        "bump": "20 for `misalignment` and `bump`", "demagnetisation": "0.35 for `demagnetisation`",
        "inductance": "0.7 for `inductance`",
    }.items():  # fmt: skip
        assert said in text
        assert said.startswith(f"{LIMITS[kind]:g} ")
    assert [LIMITS[kind] for kind in ("sensor-stuck", "sensor-drift", "sensor-gain")] == [1, 50, 10]
    assert "1, 50 and 10 for sensors that are stuck, drift or have a wrong gain" in text
