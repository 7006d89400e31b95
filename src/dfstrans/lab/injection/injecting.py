"""From normal episodes to a labelled set: the episodes themselves, and copies of them with known faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.storage import ChangedRows, StoredValues
from dfstrans.data.writers import fixed_text, write_hdf5
from dfstrans.errors import DfstransError, counted, option_name
from dfstrans.files import atomic_write
from dfstrans.lab.injection.faults import (
    COUPLED,
    TRIALS,
    TWINS,
    InjectedFault,
    NormalSensors,
    Values,
    draw_fault,
    require_fits,
    with_fault,
)
from dfstrans.lab.injection.settings import KINDS, Condition, InjectionSettings

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Injection:
    """Which normal episodes get which fault; values are read and changed on demand.

    `rows[i]` is the row of `source` that episode i is made from, `faults[i]` its fault, None for a normal one. An
    episode and its copies form a group; with `by_group` they belong to the group of the source.
    """

    source: Episodes
    normal: NormalSensors
    rows: tuple[int, ...]
    faults: tuple[InjectedFault | None, ...]
    statements: tuple[str, ...] = ()
    by_group: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def conditions(self) -> dict[Condition, int]:
        """Number of episodes of each kind and strength."""
        return Counter((fault.kind, fault.strength) for fault in self.faults if fault is not None)

    def described(self) -> Episodes:
        """The set with its ids, labels and truth, but with the unchanged values of the source, not copied."""
        chosen = replace(self.source, values=StoredValues.join([self.source.values]))[list(self.rows)]
        names = [
            str(name) if fault is None else injected_id(str(name), fault.kind, fault.strength)
            for name, fault in zip(chosen.ids, self.faults, strict=True)
        ]
        return replace(
            chosen,
            ids=np.asarray(names, dtype=np.str_),
            groups=chosen.groups if self.by_group else chosen.ids,
            labels=np.array([fault is not None for fault in self.faults], dtype=np.int8),
            faults=tuple(() if fault is None else (fault.truth(chosen.sensors),) for fault in self.faults),
            truth=None,  # windows and sensors are exact; a graded truth would hide weak faults
        )

    def changed(self, row: int, values: Values) -> Values:
        """The values of an episode, (n_sensors, length or more), from those of its source."""
        fault = self.faults[row]
        return values if fault is None else with_fault(values, fault, self.normal, self.source)

    def on_demand(self) -> Episodes:
        """The set, with faults injected as values are read; it needs no more memory than its source."""
        described = self.described()
        return replace(described, values=StoredValues.whole(ChangedRows(described.values, self.changed)))

    def in_memory(self) -> Episodes:
        """The set with all values in memory."""
        return self.on_demand().load()

    def summary(self, settings: InjectionSettings) -> dict[str, Any]:
        """How many episodes the set has, and how many of each kind and strength; for JSON."""
        found = self.conditions
        return {
            "episodes": len(self),
            "injected": sum(found.values()),
            "seed": settings.seed,
            "injected_conditions": [
                {"kind": kind, "strength": strength, "episodes": found[kind, strength]}
                for kind, strength in settings.conditions
                if (kind, strength) in found
            ],
        }

    def recipes(self) -> list[dict[str, Any]]:
        """How each episode was made."""
        return [
            {"source": str(self.source.ids[row]), "fault": fault and fault.recipe(self.normal, self.source)}
            for row, fault in zip(self.rows, self.faults, strict=True)
        ]


def injected_id(source: str, kind: str, strength: float) -> str:
    """The id of an episode with a fault, which contains that of its source.

    >>> injected_id("run_7", "stuck", 10.0)
    'run_7+stuck@10'
    """
    return f"{source}+{kind}@{strength:g}"


def normal_episodes(episodes: Episodes) -> tuple[Episodes, list[str]]:
    """The episodes that count as normal, and remarks about the choice."""
    if episodes.labels is None:
        return episodes, [f"the {len(episodes)} episodes have no labels; all are taken as normal"]
    normal = episodes[episodes.labels == 0]
    if len(normal) == 0:
        raise DfstransError(
            f"expected normal episodes to inject faults into, got {len(episodes)} episodes that are all labelled "
            "anomalous; give recordings of normal operation"
        )
    skipped = len(episodes) - len(normal)
    are = "is" if skipped == 1 else "are"
    return normal, [f"{counted(skipped, 'episode')} labelled anomalous {are} skipped"] if skipped else []


def inject_faults(
    normal: Episodes, settings: InjectionSettings, *, by_group: bool = False, advance: Advance = lambda _: None
) -> Injection:
    """Plan a set of all episodes and enough faulty copies to reach the share of the settings.

    Each kind and strength gets the same number of episodes, as far as possible. `by_group` keeps the groups of the
    episodes; otherwise an episode and its copies form a group, which a split by group never separates.
    """
    if len(normal) < 2:
        raise DfstransError(
            f"expected at least two normal episodes to inject faults into, got {len(normal)}; record more, or cut long "
            "recordings into episodes"
        )
    if by_group and normal.groups is None:
        raise DfstransError(
            f"expected episodes with a group (machine, channel) for {option_name('split', 'grouped')}, got none; name "
            f"the column with the group ({option_name('group_column', ...)}), or use {option_name('split', 'random')}"
        )
    sensors = NormalSensors.measure(normal)
    conditions, statements = _possible(settings, sensors, int(normal.lengths.min()))
    requests = _turns(len(normal), conditions, settings)
    if len(requests) < len(conditions):
        statements.append(
            f"only {len(requests)} episodes get a fault, fewer than the {len(conditions)} kinds and strengths, so "
            "training does not see all of them"
        )
    drawn = _drawn(normal, sensors, requests, settings, TWINS, advance)
    statements += _skipped("faults", len(drawn), len(requests))
    set_rows: list[tuple[int, InjectedFault | None]] = [*((row, None) for row in range(len(normal))), *drawn]
    set_rows.sort(key=lambda one: one[0])  # copies next to their source in the file
    rows, faults = zip(*set_rows, strict=True)
    return Injection(normal, sensors, rows, faults, tuple(statements), by_group)


def _turns(n_normal: int, conditions: list[Condition], settings: InjectionSettings) -> list[tuple[int, Condition]]:
    """Assign kinds and strengths to episodes in turn, none twice to the same episode."""
    n_faulty = max(round(n_normal * settings.share / (1 - settings.share)), 1)
    rounds, n = -(-n_faulty // n_normal), len(conditions)
    if rounds > n:
        raise DfstransError(
            f"expected at most {n} faulty copies of an episode, one of each kind and strength, got {rounds} with "
            f"{option_name('share', settings.share)}; use a share of at most {n / (1 + n):.2f}, or more "
            "kinds or strengths"
        )
    rng = np.random.default_rng(settings.seed)
    rows, order = rng.permutation(n_normal), rng.permutation(n)
    places = [(number % n_normal, number // n_normal) for number in range(n_faulty)]
    return [(int(rows[place]), conditions[order[(place + turn) % n]]) for place, turn in places]


def inject_each(
    normal: Episodes,
    conditions: Sequence[Condition],
    sensors: NormalSensors,
    settings: InjectionSettings,
    advance: Advance = lambda _: None,
) -> Injection:
    """Plan a test set: each kind and strength in each episode, except faults that would not be visible.

    Positions are independent of those that `inject_faults` draws from the same seed.
    """
    requests = [(row, condition) for condition in conditions for row in range(len(normal))]
    drawn = _drawn(normal, sensors, requests, settings, TRIALS, advance)
    statements = _skipped("trials", len(drawn), len(requests))
    return Injection(normal, sensors, tuple(row for row, _ in drawn), tuple(fault for _, fault in drawn), statements)


def _drawn(
    normal: Episodes,
    sensors: NormalSensors,
    requests: Sequence[tuple[int, Condition]],
    settings: InjectionSettings,
    stream: int,
    advance: Advance,
) -> list[tuple[int, InjectedFault]]:
    """Draw the requested faults; skip rows where none is visible."""
    found = []
    for row, (kind, strength) in requests:
        (episode,) = normal[row]
        seed = (settings.seed, stream)
        fault = draw_fault(row, episode.values, kind, strength, sensors, normal, duration=settings.duration, seed=seed)
        if fault is not None:
            found.append((row, fault))
        advance(1)
    return found


def _skipped(what: str, n_drawn: int, n_wanted: int) -> tuple[str, ...]:
    """A remark about faults that are visible nowhere."""
    if n_drawn == n_wanted:
        return ()
    why = "they would change almost nothing (signals at rest or missing)"
    return (f"{n_wanted - n_drawn} of {n_wanted} {what} are skipped: {why}",)


def _possible(settings: InjectionSettings, sensors: NormalSensors, shortest: int) -> tuple[list[Condition], list[str]]:
    """The kinds and strengths that these sensors allow, and remarks about the others."""
    statements = []
    if sensors.constant:
        some = ", ".join(sensors.constant[:5]) + (" …" if len(sensors.constant) > 5 else "")
        statements.append(f"sensors that never move get no fault ({len(sensors.constant)}): {some}")
    impossible = [kind for kind in settings.kinds if len(sensors.suited(kind)) == 0]
    for kind in impossible:
        why = (
            f"no two sensors move together (a correlation of at least {COUPLED:g})"
            if KINDS[kind].coupled
            else "no sensor varies enough"
        )
        statements.append(f"{kind} is skipped: {why}")
    conditions = [condition for condition in settings.conditions if condition[0] not in impossible]
    if not conditions:
        raise DfstransError(
            f"expected sensors in which a fault of the kinds {', '.join(settings.kinds)} can be injected, got none: "
            f"{'; '.join(statements)}; choose other kinds, or give recordings in which sensors move"
        )
    for kind, strength in conditions:
        require_fits(kind, strength, shortest, settings.duration)
    return conditions, statements


MARK = "injection"  # key of a recipe that marks injected faults
TRIALS_FILE = "trials.h5"  # in the folder of a study
VERSION = 3  # of the draws: the same recipe and version give the same set


def require_replaceable(path: Path) -> None:
    """Refuse to overwrite anything but injected faults, above all the recordings themselves."""
    if path.exists() and MARK not in (_recipe_at(path) or {}):
        raise DfstransError(
            f"expected nothing or injected faults at {path}, got something else; choose another name, or another folder"
        )


def save_injection(injection: Injection, path: Path, recipe: dict[str, Any]) -> Path:
    """Write the episodes, the recipe of the set, and the recipe of each episode."""
    require_replaceable(path)
    with atomic_write(path) as temporary:
        write_hdf5(injection.on_demand(), temporary)
        with h5py.File(temporary, "a", libver="v110") as file:
            file.attrs["recipe"] = json.dumps(recipe)
            file.create_dataset("recipes", data=fixed_text([json.dumps(one) for one in injection.recipes()]))
    return path


def save_injected(injection: Injection, path: Path, settings: InjectionSettings, *, keep: bool = False) -> bool:
    """Write an injected set, unless `keep` and a set of the same recipe exists; return whether it was written."""
    recipe = {
        MARK: VERSION,
        "source": injection.source.fingerprint(),
        "by_group": injection.by_group,
        **settings.model_dump(mode="json", exclude={"trials"}),
    }
    if keep and _recipe_at(path) == recipe:
        return False
    save_injection(injection, path, recipe)
    return True


def _recipe_at(path: Path) -> dict[str, Any] | None:
    """The recipe of an injected set, None if there is none."""
    try:
        with h5py.File(path, "r") as file:
            found: dict[str, Any] = json.loads(file.attrs["recipe"])
            return found
    except (OSError, KeyError, json.JSONDecodeError):
        return None
