"""Planted sets as HDF5 files, written batch by batch, with the recipe that each follows from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py

from dfstrans.data.writers import fixed_text, write_hdf5
from dfstrans.errors import DfstransError
from dfstrans.files import written_atomically
from dfstrans.injection.planting import Planting
from dfstrans.injection.settings import InjectionSettings

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
        write_hdf5(planting.described(), temporary, planting.changed)
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
