"""From normal episodes to a labelled set in which a share of them has a known fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError
from dfstrans.injection.drawing import PlantedFault, Values, draw_fault, require_fits, with_fault
from dfstrans.injection.kinds import KINDS
from dfstrans.injection.normal import COUPLED, NormalSensors
from dfstrans.injection.settings import Cell, InjectionSettings

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Planting:
    """Which normal episodes get which fault; the episodes themselves are read and changed when they are wanted.

    `rows[i]` is the row of `source` that episode i is made from, `faults[i]` its fault, or None where it stays normal.
    """

    source: Episodes
    normal: NormalSensors
    rows: tuple[int, ...]
    faults: tuple[PlantedFault | None, ...]
    statements: tuple[str, ...] = ()

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
        """Ids, labels and truth of the set, with the values still as they were without faults."""
        chosen = self.source[list(self.rows)]
        names = [
            str(name) if fault is None else planted_id(str(name), fault.kind, fault.strength)
            for name, fault in zip(chosen.ids, self.faults, strict=True)
        ]
        return replace(
            chosen,
            ids=np.asarray(names, dtype=np.str_),
            labels=np.array([fault is not None for fault in self.faults], dtype=np.int8),
            faults=tuple(() if fault is None else (fault.truth(chosen.sensors),) for fault in self.faults),
            truth=None,  # exact windows and sensors are known; a graded truth would hide faults that change little
        )

    def changed(self, row: int, values: Values) -> Values:
        """The values of an episode of the set, (n_sensors, length), from those of its source."""
        fault = self.faults[row]
        return values if fault is None else with_fault(values, fault, self.normal, self.source)

    def in_memory(self) -> Episodes:
        """The set, with all its values."""
        described = self.described().in_memory()
        values = np.array(described.values, dtype=np.float32)
        for row, length in enumerate(described.lengths):
            values[row, :, :length] = self.changed(row, values[row, :, :length])
        return replace(described, values=values)

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
    return normal, [f"{left_out} episodes labelled anomalous are left out"] if left_out else []


def plant(normal: Episodes, settings: InjectionSettings, advance: Advance = lambda _: None) -> Planting:
    """Plant a fault into a share of the episodes; each episode is used once, with its fault or without.

    Kinds and strengths take turns, so that each gets as many episodes as another.
    """
    if len(normal) < 2:
        raise DfstransError(
            f"expected at least two normal episodes, of which one gets a fault, got {len(normal)}; record more, or cut "
            "long recordings into episodes"
        )
    sensors = NormalSensors.measure(normal)
    cells, statements = _possible(settings, sensors, int(normal.lengths.min()))
    rng = np.random.default_rng(settings.seed)
    n_faulty = min(max(round(settings.share * len(normal)), 1), len(normal) - 1)
    chosen = rng.permutation(len(normal))[:n_faulty]
    turns = [cells[i] for i in rng.permutation(len(cells))]
    wanted = {int(row): turns[number % len(turns)] for number, row in enumerate(chosen)}
    if n_faulty < len(cells):
        statements.append(
            f"only {n_faulty} episodes get a fault, fewer than the {len(cells)} kinds and strengths, so not every "
            "one of them is seen in training"
        )
    faults = _drawn(normal, sensors, [(row, wanted.get(row)) for row in range(len(normal))], settings, advance)
    kept = [row for row, fault in enumerate(faults) if fault is not None or row not in wanted]
    if len(kept) < len(normal):
        statements.append(
            f"{len(normal) - len(kept)} episodes are left out: their fault would have changed nothing (signals that "
            "stand still or are missing)"
        )
    return Planting(normal, sensors, tuple(kept), tuple(faults[row] for row in kept), tuple(statements))


def plant_each(
    normal: Episodes,
    cells: Sequence[Cell],
    sensors: NormalSensors,
    settings: InjectionSettings,
    advance: Advance = lambda _: None,
) -> Planting:
    """Plant every kind and strength into every one of the episodes, for a test; those that change nothing stay away."""
    requests = [(row, cell) for cell in cells for row in range(len(normal))]
    faults = _drawn(normal, sensors, requests, settings, advance)
    made = [(row, fault) for (row, _), fault in zip(requests, faults, strict=True) if fault is not None]
    return Planting(normal, sensors, tuple(row for row, _ in made), tuple(fault for _, fault in made))


def _drawn(
    normal: Episodes,
    sensors: NormalSensors,
    requests: Iterable[tuple[int, Cell | None]],
    settings: InjectionSettings,
    advance: Advance,
) -> list[PlantedFault | None]:
    """A fault of the wanted kind and strength for each episode that is to get one, and in which one is possible."""
    found: list[PlantedFault | None] = []
    for row, cell in requests:
        fault = None
        if cell is not None:
            (episode,) = normal[row]
            kind, strength = cell
            fault = draw_fault(
                row, episode.values, kind, strength, sensors, normal, duration=settings.duration, seed=settings.seed
            )
        found.append(fault)
        advance(1)
    return found


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
