"""From normal episodes to a labelled set: each of them as it is, and twins of them with known faults."""

from __future__ import annotations

import json
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
from dfstrans.files import written_atomically
from dfstrans.lab.injection.drawing import TRIALS, TWINS, PlantedFault, Values, draw_fault, require_fits, with_fault
from dfstrans.lab.injection.normal import COUPLED, NormalSensors
from dfstrans.lab.injection.settings import KINDS, Cell, InjectionSettings

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Planting:
    """Which normal episodes get which fault; the episodes themselves are read and changed when they are wanted.

    `rows[i]` is the row of `source` that episode i is made from, `faults[i]` its fault, or None where it stays normal.
    An episode and its twins are one group; with `by_group` the groups are those of the source, each of which holds all
    twins of its episodes, too.
    """

    source: Episodes
    normal: NormalSensors
    rows: tuple[int, ...]
    faults: tuple[PlantedFault | None, ...]
    statements: tuple[str, ...] = ()
    by_group: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cells(self) -> dict[Cell, int]:
        """How many episodes have each kind and strength."""
        found: dict[Cell, int] = {}
        for fault in self.faults:
            if fault is not None:
                cell = (fault.kind, fault.strength)
                found[cell] = found.get(cell, 0) + 1
        return found

    def described(self) -> Episodes:
        """Ids, labels and truth of the set, with the values still as they were without faults, and not copied."""
        chosen = replace(self.source, values=StoredValues.join([self.source.values]))[list(self.rows)]
        names = [
            str(name) if fault is None else planted_id(str(name), fault.kind, fault.strength)
            for name, fault in zip(chosen.ids, self.faults, strict=True)
        ]
        return replace(
            chosen,
            ids=np.asarray(names, dtype=np.str_),
            groups=chosen.groups if self.by_group else chosen.ids,
            labels=np.array([fault is not None for fault in self.faults], dtype=np.int8),
            faults=tuple(() if fault is None else (fault.truth(chosen.sensors),) for fault in self.faults),
            truth=None,  # exact windows and sensors are known; a graded truth would hide faults that change little
        )

    def changed(self, row: int, values: Values) -> Values:
        """The values of an episode of the set, (n_sensors, length or more), from those of its source."""
        fault = self.faults[row]
        return values if fault is None else with_fault(values, fault, self.normal, self.source)

    def on_demand(self) -> Episodes:
        """The set, whose faults are planted as its values are read: it takes no more memory than its source."""
        described = self.described()
        return replace(described, values=StoredValues.whole(ChangedRows(described.values, self.changed)))

    def in_memory(self) -> Episodes:
        """The set, with all its values."""
        return self.on_demand().load()

    def recipes(self) -> list[dict[str, Any]]:
        """How each episode was made."""
        return [
            {"source": str(self.source.ids[row]), "fault": None if fault is None else self._recipe(fault)}
            for row, fault in zip(self.rows, self.faults, strict=True)
        ]

    def _recipe(self, fault: PlantedFault) -> dict[str, Any]:
        donor = {"donor": str(self.source.ids[fault.donor])} if fault.kind == "coupling-loss" else {}
        recipe = {name: value for name, value in fault.recipe(self.normal).items() if name != "donor"}
        return {**recipe, **donor}


def planted_id(source: str, kind: str, strength: float) -> str:
    """The id of an episode with a fault, which tells the one that it was made from.

    >>> planted_id("run_7", "stuck", 10.0)
    'run_7+stuck@10'
    """
    return f"{source}+{kind}@{strength:g}"


def normal_episodes(episodes: Episodes) -> tuple[Episodes, list[str]]:
    """The episodes that count as normal, and what has to be said about it."""
    if episodes.labels is None:
        return episodes, [f"the {len(episodes)} episodes have no labels; all are taken for normal"]
    normal = episodes[episodes.labels == 0]
    if len(normal) == 0:
        raise DfstransError(
            f"expected normal episodes to plant faults into, got {len(episodes)} episodes that are all labelled "
            "anomalous; give recordings of normal work"
        )
    left_out = len(episodes) - len(normal)
    are = "is" if left_out == 1 else "are"
    return normal, [f"{counted(left_out, 'episode')} labelled anomalous {are} left out"] if left_out else []


def plant(
    normal: Episodes, settings: InjectionSettings, *, by_group: bool = False, advance: Advance = lambda _: None
) -> Planting:
    """All episodes as they are, and as many faulty twins of them that these are the wanted share of the set.

    Kinds and strengths take turns, so that each gets as many episodes as another. `by_group` keeps the episodes' own
    groups, else an episode and its twins are a group: a split by group never parts them.
    """
    if len(normal) < 2:
        raise DfstransError(
            f"expected at least two normal episodes to plant faults into, got {len(normal)}; record more, or cut long "
            "recordings into episodes"
        )
    if by_group and normal.groups is None:
        raise DfstransError(
            f"expected episodes with a group (machine, channel) for {option_name('split', 'grouped')}, got none; name "
            f"the column with the group ({option_name('group_column', ...)}), or use {option_name('split', 'random')}"
        )
    sensors = NormalSensors.measure(normal)
    cells, statements = _possible(settings, sensors, int(normal.lengths.min()))
    requests = _turns(len(normal), cells, settings)
    if len(requests) < len(cells):
        statements.append(
            f"only {len(requests)} episodes get a fault, fewer than the {len(cells)} kinds and strengths, so not every "
            "one of them is seen in training"
        )
    drawn = _drawn(normal, sensors, requests, settings, TWINS, advance)
    statements += _left_out("faults", len(drawn), len(requests))
    twins: list[tuple[int, PlantedFault | None]] = [*((row, None) for row in range(len(normal))), *drawn]
    twins.sort(key=lambda one: one[0])  # beside each other in the file
    rows, faults = zip(*twins, strict=True)
    return Planting(normal, sensors, rows, faults, tuple(statements), by_group)


def _turns(n_normal: int, cells: list[Cell], settings: InjectionSettings) -> list[tuple[int, Cell]]:
    """Which episodes get a twin of which kind and strength: all of them in turn, none twice the same."""
    n_faulty = max(round(n_normal * settings.share / (1 - settings.share)), 1)
    rounds = -(-n_faulty // n_normal)
    if rounds > len(cells):
        raise DfstransError(
            f"expected at most {len(cells)} twins of an episode, one of each kind and strength, got {rounds} with "
            f"{option_name('share', settings.share)}; use a share of at most {len(cells) / (1 + len(cells)):.2f}, or "
            "more kinds or strengths"
        )
    rng = np.random.default_rng(settings.seed)
    rows, order = rng.permutation(n_normal), rng.permutation(len(cells))
    places = [(number % n_normal, number // n_normal) for number in range(n_faulty)]
    return [(int(rows[place]), cells[order[(place + turn) % len(cells)]]) for place, turn in places]


def plant_each(
    normal: Episodes,
    cells: Sequence[Cell],
    sensors: NormalSensors,
    settings: InjectionSettings,
    advance: Advance = lambda _: None,
) -> Planting:
    """Plant every kind and strength into every one of the episodes, for a test; those that would not show stay away.

    Where a fault is has nothing to do with where `plant` puts those of the same seed.
    """
    requests = [(row, cell) for cell in cells for row in range(len(normal))]
    drawn = _drawn(normal, sensors, requests, settings, TRIALS, advance)
    statements = _left_out("trials", len(drawn), len(requests))
    return Planting(normal, sensors, tuple(row for row, _ in drawn), tuple(fault for _, fault in drawn), statements)


def _drawn(
    normal: Episodes,
    sensors: NormalSensors,
    requests: Sequence[tuple[int, Cell]],
    settings: InjectionSettings,
    stream: int,
    advance: Advance,
) -> list[tuple[int, PlantedFault]]:
    """A fault of the wanted kind and strength for each row in which one is possible."""
    found = []
    for row, (kind, strength) in requests:
        (episode,) = normal[row]
        seed = (settings.seed, stream)
        fault = draw_fault(row, episode.values, kind, strength, sensors, normal, duration=settings.duration, seed=seed)
        if fault is not None:
            found.append((row, fault))
        advance(1)
    return found


def _left_out(what: str, n_drawn: int, n_wanted: int) -> tuple[str, ...]:
    """What has to be said of faults for which no place was found."""
    if n_drawn == n_wanted:
        return ()
    why = "they would have changed next to nothing (signals that stand still or are missing)"
    return (f"{n_wanted - n_drawn} of {n_wanted} {what} are left out: {why}",)


def _possible(settings: InjectionSettings, sensors: NormalSensors, shortest: int) -> tuple[list[Cell], list[str]]:
    """The kinds and strengths that these sensors allow, and what has to be said of the others."""
    statements = []
    if sensors.constant:
        some = ", ".join(sensors.constant[:5]) + (" …" if len(sensors.constant) > 5 else "")
        statements.append(f"sensors that never move get no fault ({len(sensors.constant)}): {some}")
    impossible = [kind for kind in settings.kinds if len(sensors.suited(kind)) == 0]
    for kind in impossible:
        why = (
            f"no two sensors move together (a correlation of at least {COUPLED:g})"
            if KINDS[kind].coupled
            else "no sensor varies as it would have to"
        )
        statements.append(f"{kind} is left out: {why}")
    cells = [cell for cell in settings.cells if cell[0] not in impossible]
    if not cells:
        raise DfstransError(
            f"expected sensors in which a fault of the kinds {', '.join(settings.kinds)} can be planted, got none: "
            f"{'; '.join(statements)}; choose other kinds, or give recordings in which sensors move"
        )
    for kind, strength in cells:
        require_fits(kind, strength, shortest, settings.duration)
    return cells, statements


MARK = "injection"  # in a recipe: who made it
TRIALS_FILE = "trials.h5"  # in the folder of a study
VERSION = 3  # of how faults are drawn: the same recipe gives the same set


def require_replaceable(path: Path) -> None:
    """Refuse a place that holds anything but planted faults: above all the recordings themselves."""
    if path.exists() and MARK not in (_recipe_at(path) or {}):
        raise DfstransError(
            f"expected a free place, or planted faults to replace, at {path}, got something else; choose another name, "
            "or another folder"
        )


def save_planting(planting: Planting, path: Path, recipe: dict[str, Any]) -> Path:
    """Write the episodes, the recipe of the whole and that of each episode (`data.growing.read_recipes`)."""
    require_replaceable(path)
    with written_atomically(path) as temporary:
        write_hdf5(planting.on_demand(), temporary)
        with h5py.File(temporary, "a", libver="v110") as file:
            file.attrs["recipe"] = json.dumps(recipe)
            file.create_dataset("recipes", data=fixed_text([json.dumps(one) for one in planting.recipes()]))
    return path


def save_planted(planting: Planting, path: Path, settings: InjectionSettings, *, keep: bool = False) -> bool:
    """Write a planted set; one of the same recipe that is there already may be kept. Whether it was written."""
    recipe = {
        MARK: VERSION,
        "source": planting.source.fingerprint(),
        "by_group": planting.by_group,
        **settings.model_dump(mode="json", exclude={"trials"}),
    }
    if keep and _recipe_at(path) == recipe:
        return False
    save_planting(planting, path, recipe)
    return True


def _recipe_at(path: Path) -> dict[str, Any] | None:
    """The recipe of a planted set, or None where there is none."""
    try:
        with h5py.File(path, "r") as file:
            found: dict[str, Any] = json.loads(file.attrs["recipe"])
            return found
    except (OSError, KeyError, json.JSONDecodeError):
        return None
