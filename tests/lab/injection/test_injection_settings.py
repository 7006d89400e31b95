from __future__ import annotations

from typing import Any

import pytest

from dfstrans.errors import DfstransError
from dfstrans.lab.injection.settings import KINDS, InjectionSettings


def test_every_kind_has_strengths_in_its_own_unit_unless_others_are_given() -> None:
    conditions = InjectionSettings.of().conditions
    assert len(conditions) == sum(len(kind.strengths) for kind in KINDS.values()) == 27
    chosen = InjectionSettings.of("stuck,spike", ["5,2", "stuck=50"])
    assert chosen.conditions == (("stuck", 50.0), ("spike", 2.0), ("spike", 5.0))


def test_unnamed_strengths_also_apply_to_gain() -> None:
    assert KINDS["gain"].unit == "added swings"
    assert InjectionSettings.of("gain,spike", ["2"]).conditions == (("gain", 2.0), ("spike", 2.0))


def test_a_named_strength_wins_over_a_plain_one_in_any_order() -> None:
    for given in (["1", "drift=4"], ["drift=4", "1"]):
        assert InjectionSettings.of("spike,drift", given).conditions == (("spike", 1.0), ("drift", 4.0))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kinds": "rust"}, "expected kinds of fault among spike, .*, got 'rust'"),
        ({"kinds": ","}, "at least one of spike"),
        ({"strength": ["0"]}, "above 0 .standard deviations., got 0"),
        ({"strength": ["-1,3"]}, "above 0 .standard deviations., got -1"),
        ({"strength": ["stuck=120"]}, "at most 100 .% of the episode., got 120"),
        ({"strength": ["lag=2.5,3,0.2"]}, "above 0 .whole points., got 2.5, 0.2"),
        ({"strength": ["much"]}, "numbers separated by commas.*got 'much'"),
        ({"strength": ["nan"]}, "separated by commas"),
        ({"strength": ["rust=1"]}, "among spike"),
        ({"kinds": "spike", "strength": ["lag=1"]}, "add lag to kinds"),
        ({"kinds": "lag", "strength": ["1,3"]}, "lag=3,10,30"),
        ({"share": 1.0}, "share"),
        ({"duration": 0.0}, "duration"),
        ({"trials": 0}, "trials"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        InjectionSettings.of(**wrong)
