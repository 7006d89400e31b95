"""Alarm policies hold alarms back as they say, and their preview says what they do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from dfstrans.service.alarms import (
    TOO_FEW,
    AlarmPolicy,
    QuietHours,
    QuietPeriod,
    QuietSensor,
    preview,
    set_policy,
    weekly_limit,
)
from dfstrans.service.database import Asset, ModelVersion, Recording
from dfstrans.service.workspace import Workspace

HOUR = 3600.0


def recording(probability: float = 0.9, **known: Any) -> Recording:
    about = {"medians": {}, "started": None, "alarm": False, "anomalous": probability >= 0.5, "threshold": 0.5}
    return Recording(probability=probability, **{**about, **known})


@pytest.mark.parametrize(
    ("bounds", "speed", "quiet"),
    [
        ({"below": 1.0}, 0.5, True),
        ({"below": 1.0}, 1.0, False),
        ({"above": 1.0}, 1.5, True),
        ({"below": 1.0, "above": 2.0}, 1.5, False),
        ({"below": 1.0}, None, False),
    ],
)
def test_sensor_tells_when_the_machine_is_off(bounds: dict[str, float], speed: float | None, quiet: bool) -> None:
    assert QuietSensor(sensor="speed", **bounds).covers(recording(medians={"speed": speed})) is quiet


@pytest.mark.parametrize(
    ("moment", "quiet"),
    [
        ("2026-03-06T21:59", False),  # a Friday
        ("2026-03-06T22:00", True),
        ("2026-03-07T05:59", True),  # the night of Friday
        ("2026-03-07T06:00", False),
        ("2026-03-07T22:30", False),
        ("2026-03-06T05:00", False),  # the night of Thursday
    ],
)
def test_hours_may_pass_midnight(moment: str, quiet: bool) -> None:
    night = QuietHours.model_validate({"days": ["friday"], "start": "22:00", "end": "06:00"})
    assert night.covers(recording(started=moment)) is quiet


def test_period_is_compared_with_the_clock_of_the_recording() -> None:
    period = QuietPeriod.model_validate({"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T10:00:00Z"})
    assert [period.covers(recording(started=f"2026-03-01T{hour}:00")) for hour in ("07", "08", "09", "10")] == [
        False, True, True, False,
    ]  # fmt: skip


def test_reasons_are_told_in_order() -> None:
    policy = AlarmPolicy(min_probability=0.8, in_a_row=2, quiet=(QuietSensor(sensor="speed", below=1),))
    alarm_before = [recording(alarm=True)]
    assert policy.held_back(recording(medians={"speed": 0}), 0.0, alarm_before) == "quiet"
    assert policy.held_back(recording(0.7), 0.0, alarm_before) == "below the minimum probability"
    assert policy.held_back(recording(0.9), 0.95, alarm_before) == "within the allowed false alarms"
    assert policy.held_back(recording(0.9), 0.0, [recording(0.1)]) == TOO_FEW
    assert policy.held_back(recording(0.9), 0.0, []) == TOO_FEW
    assert policy.held_back(recording(0.9), 0.0, [recording(held_back=TOO_FEW)]) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"in_a_row": 0},
        {"false_alarms_per_week": float("nan")},
        {"quiet": [{"kind": "sensor", "sensor": "speed"}]},
        {"quiet": [{"kind": "hours", "days": ["someday"], "start": "00:00", "end": "01:00"}]},
        {"unknown": 1},
    ],
)
def test_policy_that_says_nothing_clear_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AlarmPolicy.model_validate(settings)


def fill(workspace: Workspace, probabilities: Sequence[float], seconds: float = HOUR, **known: Any) -> None:
    """Store recordings of an asset as if they had been scored."""
    with workspace.writing() as session:
        asset, version = Asset(name="lift-1"), ModelVersion(checksum="x", origin="registered", author="a")
        session.add_all([asset, version])
        session.flush()
        for number, one in enumerate(probabilities):
            row = recording(one, episode=f"e{number}", content="c", points=10, seconds=seconds, **known)
            row.asset_id, row.version_id = asset.id, version.id
            session.add(row)


def test_weekly_rule_raises_the_limit_only_when_it_is_broken(workspace: Workspace) -> None:
    probabilities = [0.1] * 330 + [0.9, 0.8, 0.7, 0.6, 0.55, 0.52]  # two weeks of hours, with six false alarms
    fill(workspace, probabilities, label="no anomaly")
    with workspace.reading() as session:
        for allowed, false_alarms in ((3, 6), (2.5, 5), (1, 2), (0, 0)):
            limit = weekly_limit(session, 1, 1, AlarmPolicy(false_alarms_per_week=allowed))
            assert sum(one >= max(limit, 0.5) for one in probabilities) == false_alarms
        assert weekly_limit(session, 1, 1, AlarmPolicy()) == 0.0


def test_confirmed_anomalies_are_no_false_alarms(workspace: Workspace) -> None:
    fill(workspace, [0.1] * 100 + [0.9] * 20, label="anomaly")
    with workspace.reading() as session:
        assert weekly_limit(session, 1, 1, AlarmPolicy(false_alarms_per_week=0)) == 0.0


def test_preview_counts_alarms_and_what_is_held_back(workspace: Workspace) -> None:
    fill(workspace, [0.9, 0.1, 0.9, 0.9, 0.9, 0.6], seconds=7 * 24 * HOUR, alarm=True)
    with workspace.reading() as session:
        found = preview(session, 1, AlarmPolicy(in_a_row=2, min_probability=0.7))
        assert preview(session, 2, AlarmPolicy())["recordings"] == 0
    assert (found["recordings"], found["anomalous"], found["alarms"], found["alarms_now"]) == (6, 5, 2, 6)
    assert found["held_back"] == {TOO_FEW: 2, "below the minimum probability": 1}
    assert found["alarms_per_week"] == pytest.approx(2 / 6)


def test_own_policy_comes_before_that_of_all(workspace: Workspace) -> None:
    from dfstrans.service.alarms import policy_of

    with workspace.writing() as session:
        session.add_all([asset := Asset(name="lift-1"), other := Asset(name="lift-2")])
        session.flush()
        set_policy(session, asset, AlarmPolicy(in_a_row=2), "a")
        set_policy(session, None, AlarmPolicy(in_a_row=3), "a")
    with workspace.reading() as session:
        assert policy_of(session, asset.id)[0].in_a_row == 2
        assert policy_of(session, other.id)[0].in_a_row == 3
        assert policy_of(session, None)[0].in_a_row == 3


def test_times_of_a_policy_survive_the_database(workspace: Workspace) -> None:
    quiet = QuietHours.model_validate({"start": "22:00", "end": "06:00"})
    with workspace.writing() as session:
        row = set_policy(session, None, AlarmPolicy(quiet=(quiet,)), "a")
    assert AlarmPolicy(**row.settings).quiet == (quiet,)
    assert datetime.fromisoformat("2026-01-01T00:00").time() < quiet.start
