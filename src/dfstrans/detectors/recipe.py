"""The recipe of a model: the options its recordings were read with, remembered for later recordings."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import applicable_options, load_episodes
from dfstrans.data.readers.labels import UnreadableLabelsError
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.errors import DfstransError, Note, option_name

Recipe = dict[str, Any]
# about what new recordings need not have
LABELLING = frozenset({"label_column", "anomalous_value", "normal_value", "label_map"})
GROUPING = frozenset({"group_column"})
_TOGETHER = {"length": "stride"}  # an option and another that means nothing without it


def recipe_of(read: ReadOptions | Mapping[str, Any] | None) -> Recipe:
    """Return the options that were set, as plain values, without paths: those belong to one set of recordings.

    >>> recipe_of({"length": 50, "labels": "labels.csv", "drop_sensors": ["a"]})
    {'length': 50, 'drop_sensors': ['a']}
    """
    options = read if isinstance(read, ReadOptions) else ReadOptions(**dict(read or {}))
    found = options.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in found.items() if not _is_path(name)}


def recipe_as_toml(recipe: Recipe) -> str:
    """Return a recipe as the text of a TOML file, which `--recipe` takes.

    >>> print(recipe_as_toml({"length": 50, "time_column": "t", "sort_time": True, "drop_sensors": ["a", "b"]}), end="")
    length = 50
    time_column = "t"
    sort_time = true
    drop_sensors = ["a", "b"]
    """
    return "".join(f"{name} = {_toml(value)}\n" for name, value in recipe.items())


def load_with_recipe(
    recipe: Recipe,
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any],
    *,
    need_labels: bool = True,
) -> Episodes:
    """Read recordings with the remembered options, except those that `overrides` gives anew.

    Options that do not apply to the format of the recordings are left out, and so are those about labels and groups if
    the recordings have none and `need_labels` is false; notes name the options that were used, and missing groups.
    """
    place = Path(path)
    replaced = {*overrides, *(_TOGETHER[name] for name in overrides if name in _TOGETHER)}
    remembered = {name: value for name, value in recipe.items() if name not in replaced}
    if remembered:
        applicable = applicable_options(place)
        remembered = {name: value for name, value in remembered.items() if name in applicable}
    try:
        episodes = load_episodes(place, **remembered, **overrides)
    except DfstransError as error:
        found = None if need_labels else _without_labels(place, remembered, overrides)
        if found is None:
            raise
        episodes, kept = found
        dropped = {name: value for name, value in remembered.items() if name not in {*kept, *LABELLING}}
        if dropped:  # nobody needs the labels
            options = ", ".join(option_name(name, value) for name, value in dropped.items())
            reason = ", which they lack" if "\n" in str(error) else f": {error}"
            warnings.warn(f"the recordings are read without {options}{reason}", Note, stacklevel=3)
        remembered = kept
    if remembered:
        options = ", ".join(option_name(name, _shown(value)) for name, value in remembered.items())
        warnings.warn(f"read as the model's training recordings: {options}", Note, stacklevel=3)
    if "length" in recipe and "length" not in {*remembered, *overrides}:
        _require_length(episodes, recipe["length"], place)
    return episodes


def without_unreadable_labels(
    load: Callable[..., Episodes], recipe: Recipe, read: Mapping[str, Any], remark: Callable[[str], None]
) -> Episodes:
    """Read recordings with `load(**read)`; if their labels are unreadable, read them without labels, with a remark."""
    try:
        return load(**read)
    except UnreadableLabelsError as error:
        if error.column is None:
            raise
        remark(f"the recordings are read without their labels: {error}")
        dropped = read.get("drop_sensors") or recipe.get("drop_sensors") or ()
        return load(**{**read, "drop_sensors": [*dropped, error.column]})


def _without_labels(path: Path, remembered: Recipe, overrides: Mapping[str, Any]) -> tuple[Episodes, Recipe] | None:
    """Read recordings without options about labels, groups and ids; return the recordings and the other options.

    The id column may have been that of a label table. None if that fails as well, so that the first error is shown.
    """
    tried = [LABELLING, GROUPING, LABELLING | GROUPING]
    for dropped in [*tried, *(without | {"id_column"} for without in tried)]:
        kept = {name: value for name, value in remembered.items() if name not in dropped}
        if kept == remembered:
            continue
        try:
            return load_episodes(path, **kept, **overrides), kept
        except DfstransError:
            continue
    return None


def _require_length(episodes: Episodes, length: int, path: Path) -> None:
    if len(episodes) and length not in episodes.lengths:
        shortest, longest = int(episodes.lengths.min()), int(episodes.lengths.max())
        raise DfstransError(
            f"expected recordings that can be cut into episodes of {length} points, as in training, got episodes of "
            f"{shortest if shortest == longest else f'{shortest} to {longest}'} points in {path}, which are not cut; "
            "cut them in the same way, or give the recordings as a table or a folder of tables"
        )


def _is_path(name: str) -> bool:
    annotation = ReadOptions.model_fields[name].annotation
    return Path in (annotation, *get_args(annotation))


def _shown(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {_toml(one)}" for key, one in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # text, numbers and booleans are written alike in JSON and TOML
