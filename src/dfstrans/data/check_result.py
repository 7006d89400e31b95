"""What a check of episodes tells: counts, ranges, suspicious sensors and episodes, findings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """Something worth knowing, with what to do about it; an error keeps one from training."""

    level: Literal["error", "warning", "info"]
    message: str


@dataclass(frozen=True)
class SensorRange:
    """What a sensor measured; None when it never did."""

    min: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True)
class DataCheck:
    """What was read. Sensors are named worst first in `missing_by_sensor`; fractions are between 0 and 1.

    `units` holds the sensors that have one; `fault_kinds` counts the episodes with a fault of each known kind; `gaps`
    counts the points at which no sensor has a value, by episode; `empty_episodes` consist of such points;
    `slower_episodes` have a value at every so many points only, unlike others, and no gaps are counted there;
    `telltale_sensors` peak at one value in all normal and at another in all anomalous episodes; `label_like_sensors`
    are 0 throughout some episodes and 1 throughout the others; of `rounded_sensors` and `offset_sensors` 32 bits tell a
    few values, or a single one.
    """

    episodes: int
    anomalous: int
    normal: int
    unlabelled: int
    sensors: tuple[str, ...]
    units: dict[str, str]
    shortest: int
    median_length: float
    longest: int
    interval: float | None
    groups: int | None
    fault_kinds: dict[str, int]
    missing: float
    missing_by_sensor: dict[str, float]
    ranges: dict[str, SensorRange]
    constant_sensors: tuple[str, ...]
    empty_sensors: tuple[str, ...]
    stuck_sensors: dict[str, int]
    duplicated_sensors: tuple[tuple[str, ...], ...]
    infinite_values: dict[str, int]
    duplicated_episodes: tuple[tuple[str, ...], ...]
    gaps: dict[str, int]
    slower_episodes: dict[str, int]
    empty_episodes: tuple[str, ...]
    rounded_sensors: tuple[str, ...]
    offset_sensors: tuple[str, ...]
    label_like_sensors: tuple[str, ...]
    telltale_sensors: tuple[str, ...]
    partly_anomalous: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing keeps one from training."""
        return all(finding.level != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and texts, for JSON."""
        return {**asdict(self), "ok": self.ok}
