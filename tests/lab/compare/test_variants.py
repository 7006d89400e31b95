"""Models by name, with settings in the name."""

from __future__ import annotations

import pytest

from dfstrans import Diagnoser
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.variants import PLAIN, VARIANTS, check_models, detector_for, settings_of_model, variant


def test_setting_in_a_name_is_typed_and_beats_overrides() -> None:
    name = "dfstrans+mixup=0+filters=6+schedule=constant"
    assert variant(name).named == {"mixup": 0.0, "filters": 6, "schedule": "constant"}
    settings = settings_of_model(name, {"mixup": 0.9, "epochs": 3})
    assert (settings["mixup"], settings["epochs"]) == (0.0, 3)
    assert settings_of_model("boosting+trees=7", {})["trees"] == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dfstrans+mixu=0", r"expected a setting of dfstrans.*got 'mixu=0'.*did you mean mixup\?"),
        ("dfstrans+mixup", r"and its value after \+.*got 'mixup'"),
        ("dfstrans+mixup=much", "in 'dfstrans.mixup=much': expected mixup to be"),
        ("dfstrans+mixup=0+mixup=1", r"each setting once after \+, got mixup twice in .*; keep one"),
        ("boosting+mixup=0", r"expected a setting of boosting.*trees"),
        ("dfstran+mixup=0", r"got dfstran; did you mean dfstrans\?"),
    ],
)
def test_impossible_change_is_refused(name: str, message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        check_models(["dfstrans", name])


def test_repeated_model_is_refused_but_variants_are_not() -> None:
    assert check_models(["dfstrans", "dfstrans+mixup=0"])
    with pytest.raises(DfstransError, match="once"):
        check_models(["dfstrans+mixup=0", "dfstrans+mixup=0"])


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_network_changes_nothing_at_random(name: str) -> None:
    plain, usual = (settings_of_model(one, {}) for one in (f"{name}-plain", name))
    random = {"time_shift", "mixup", "sensor_dropout", "noise"} & set(usual)
    assert {plain[change] for change in random} == {0.0}
    assert all(plain[setting] == value for setting, value in usual.items() if setting not in random)


@pytest.mark.parametrize("name", [name for name, chosen in VARIANTS.items() if chosen.kind == "dfstrans"])
def test_only_the_committee_has_other_members_than_the_network(name: str) -> None:
    detector = detector_for(name, {"epochs": 1}, planted_episodes(4, 4, n_sensors=2, n_timepoints=48))
    assert isinstance(detector, Diagnoser)
    assert (detector.members == "network") == (name != "committee")
