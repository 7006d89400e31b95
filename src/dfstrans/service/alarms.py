"""Alarm policies in an engineer's words, and what they would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, time
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AwareDatetime, Field, model_validator
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from dfstrans.service.database import Asset, Policy, Recording, now
from dfstrans.settings import Settings
from dfstrans.training.calibration import false_alarm_threshold
from dfstrans.training.false_alarms import PERIODS

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LOOKED_AT = 2000  # latest recordings of an asset, for its weekly rule
PREVIEWED = 5000  # latest recordings
TOO_FEW = "not enough in a row"
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class QuietSensor(Settings):
    """No alarms while the median of a sensor is below or above a value, such as while the machine is off."""

    kind: Literal["sensor"] = "sensor"
    sensor: Name
    below: float | None = None
    above: float | None = None

    @model_validator(mode="after")
    def _has_bound(self) -> QuietSensor:
        if self.below is None and self.above is None:
            raise ValueError("expected `below` or `above`, got neither; give one of them")
        return self

    def covers(self, recording: Recording) -> bool:
        """Return whether the policy is quiet for a recording."""
        median = recording.medians.get(self.sensor)
        if median is None:
            return False
        return (self.below is not None and median < self.below) or (self.above is not None and median > self.above)


class QuietHours(Settings):
    """No alarms at these hours, on these days or, without any, every day; an end before the start is the next day."""

    kind: Literal["hours"] = "hours"
    days: tuple[Literal[DAYS], ...] = ()  # type: ignore[valid-type]
    start: time
    end: time

    def covers(self, recording: Recording) -> bool:
        """Return whether the policy is quiet for a recording."""
        moment = _clock(recording)
        at, day = moment.time(), moment.weekday()
        if self.start > self.end and at < self.end:
            day = (day - 1) % 7  # the night began on the day before
        inside = self.start <= at < self.end if self.start <= self.end else at >= self.start or at < self.end
        return inside and (not self.days or DAYS[day] in self.days)


class QuietPeriod(Settings):
    """No alarms in this period, such as a maintenance."""

    kind: Literal["period"] = "period"
    start: AwareDatetime
    end: AwareDatetime

    def covers(self, recording: Recording) -> bool:
        """Return whether the policy is quiet for a recording."""
        moment = _clock(recording)
        return self.start.replace(tzinfo=None) <= moment < self.end.replace(tzinfo=None)


def _clock(recording: Recording) -> datetime:
    """Return when a recording started, as its own clock showed it, or else when it came."""
    if recording.started is not None:
        return datetime.fromisoformat(recording.started)
    return (recording.created or now()).replace(tzinfo=None)


Quiet = Annotated[QuietSensor | QuietHours | QuietPeriod, Field(discriminator="kind")]


class AlarmPolicy(Settings):
    """When an anomalous recording is an alarm."""

    false_alarms_per_week: float | None = Field(
        default=None, ge=0, description="Most false alarms of a machine in a week of recording; learned from feedback."
    )
    min_probability: float = Field(default=0.0, ge=0, le=1, description="Least anomaly probability of an alarm.")
    in_a_row: int = Field(default=1, ge=1, le=100, description="Anomalous recordings in a row that make an alarm.")
    quiet: tuple[Quiet, ...] = Field(default=(), max_length=100, description="When there are no alarms.")

    def held_back(self, recording: Recording, limit: float, before: Sequence[Recording]) -> str | None:
        """Return why an anomalous recording is no alarm; None if it is one.

        `limit` is what `weekly_limit` returned; `before` are the recordings before it, latest first.
        """
        probability = recording.probability or 0.0
        if any(one.covers(recording) for one in self.quiet):
            return "quiet"
        if probability < self.min_probability:
            return "below the minimum probability"
        if probability < limit:
            return "within the allowed false alarms"
        counted = before[: self.in_a_row - 1]
        whole_run = len(counted) == self.in_a_row - 1 and all(in_run(one) for one in counted)
        return None if whole_run else TOO_FEW


def in_run(recording: Recording) -> bool:
    """Return whether a recording counts for a run of anomalous ones."""
    return recording.alarm or recording.held_back == TOO_FEW


def policy_of(session: Session, asset_id: int | None) -> tuple[AlarmPolicy, Policy | None]:
    """Return the policy of an asset, or that of all assets, or the default one; and the row that holds it."""
    own = select(Policy).where(or_(Policy.asset_id == asset_id, Policy.asset_id.is_(None)))
    row = session.scalars(own.order_by(Policy.asset_id.is_(None), Policy.id.desc()).limit(1)).first()
    return (AlarmPolicy(), None) if row is None else (AlarmPolicy(**row.settings), row)


def set_policy(session: Session, asset: Asset | None, policy: AlarmPolicy, author: str) -> Policy:
    """Switch a policy on, for an asset or for all without their own; earlier ones are kept."""
    settings = policy.model_dump(mode="json")
    row = Policy(asset_id=None if asset is None else asset.id, settings=settings, author=author)
    session.add(row)
    session.flush()
    return row


def weekly_limit(session: Session, asset_id: int, version_id: int | None, policy: AlarmPolicy) -> float:
    """Return the lowest probability of an alarm of an asset under its weekly rule; 0 while the rule is not broken.

    False alarms are recordings that reach the threshold of the model and were rejected by people, or never in a case.
    """
    if policy.false_alarms_per_week is None:
        return 0.0
    no_case = Recording.case_id.is_(None) & Recording.label.is_(None)
    found = select(Recording.probability, Recording.seconds, Recording.threshold).where(
        Recording.asset_id == asset_id,
        Recording.version_id == version_id,
        Recording.seconds.is_not(None),
        or_(Recording.label == "no anomaly", no_case),
    )
    rows = session.execute(found.order_by(Recording.id.desc()).limit(LOOKED_AT)).all()
    if not rows:
        return 0.0
    probabilities, seconds, thresholds = np.array(rows, dtype=np.float64).T
    allowed = policy.false_alarms_per_week * seconds.sum() / PERIODS["week"]
    if (probabilities >= thresholds).sum() <= allowed:
        return 0.0
    return false_alarm_threshold(probabilities, min(1.0, allowed / len(rows))).value


def preview(session: Session, asset_id: int | None, policy: AlarmPolicy) -> dict[str, Any]:
    """Return what a policy would have done on the latest recordings of an asset, or of all, beside what was done."""
    wanted = select(Recording).where(Recording.probability.is_not(None))
    if asset_id is not None:
        wanted = wanted.where(Recording.asset_id == asset_id)
    latest = session.scalars(wanted.order_by(Recording.id.desc()).limit(PREVIEWED)).all()
    reasons: Counter[str] = Counter()
    alarms: list[int] = []
    for one_asset in sorted({one.asset_id for one in latest}):
        recordings = [one for one in reversed(latest) if one.asset_id == one_asset]
        for recording, reason in _judged(session, one_asset, recordings, policy):
            if reason is None:
                alarms.append(recording.id)
            else:
                reasons[reason] += 1
    seconds = sum(one.seconds or 0.0 for one in latest)
    return {
        "recordings": len(latest),
        "anomalous": sum(bool(one.anomalous) for one in latest),
        "alarms": len(alarms),
        "alarms_now": sum(one.alarm for one in latest),
        "alarms_per_week": len(alarms) * PERIODS["week"] / seconds if seconds else None,
        "missed": sum(one.label == "anomaly" and one.id not in alarms for one in latest),
        "held_back": dict(reasons),
        "alarm_recordings": sorted(alarms)[-100:],
    }


def _judged(
    session: Session, asset_id: int, recordings: Sequence[Recording], policy: AlarmPolicy
) -> Iterable[tuple[Recording, str | None]]:
    """Yield each anomalous recording of an asset, with the reason why it would not have been an alarm."""
    limits = {
        version: weekly_limit(session, asset_id, version, policy)
        for version in {recording.version_id for recording in recordings}
    }
    before: list[Recording] = []  # what the policy would have made of them
    for one in recordings:
        judged = Recording(alarm=False, held_back=None)
        if one.anomalous:
            reason = policy.held_back(one, limits[one.version_id], before[::-1][: policy.in_a_row - 1])
            judged.alarm, judged.held_back = reason is None, reason
            yield one, reason
        before.append(judged)
