"""Arguments and warnings shared by commands, and options generated from settings classes."""

from __future__ import annotations

import functools
import inspect
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dfstrans.cli.output import remark
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.detectors.recipe import without_unreadable_labels
from dfstrans.errors import DfstransError, list_few
from dfstrans.settings import DFSTRANS, OPTIONS, NetworkSettings, TrainingSettings
from dfstrans.training.evaluation import ChanceCheck

if TYPE_CHECKING:  # commands without a model need no torch
    from dfstrans.data.scaling import SensorScaler
    from dfstrans.detectors.base import EpisodeClassifier

Data = Annotated[Path, typer.Argument(help="A file or folder of recordings.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A saved model's folder.", show_default=False)]


def options_from(
    model: type[BaseModel], into: str, exclude: tuple[str, ...] = (), panel: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one option per field of `model`; it receives those that were set as a dict named `into`."""
    fields = {name: field for name, field in model.model_fields.items() if name not in exclude}
    options = [_option(name, field, panel) for name, field in fields.items()]
    return _add_options(options, into, lambda given: given)


def setting_options(
    only: tuple[str, ...] = OPTIONS, defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options for detector settings; the command receives them as a dict named `settings`.

    Settings in `only` have their own options; all can be given with `--set` or in a file. An option overrides --set,
    which overrides the file. Values may be text or typed; `from_settings` checks them. `defaults` holds the defaults
    that the command changes, for the help.
    """
    fields = {**NetworkSettings.model_fields, **TrainingSettings.model_fields}
    options = [_option(name, fields[name], SETTINGS_PANEL, defaults) for name in only]
    return _add_options([*options, _SET, _FILE], "settings", _merge_settings)


SETTINGS_PANEL = "Settings"
READING_PANEL = "Reading the recordings"


def _parameter(name: str, kind: Any, flag: str, text: str, panel: str | None, **more: Any) -> inspect.Parameter:
    """Return an option as a parameter of a command, None if it is not given."""
    declared = typer.Option(flag, help=text, rich_help_panel=panel, show_default=False, **more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, declared])


_SET = _parameter(
    "set_values",
    list[str] | None,
    "--set",
    "Any other setting, such as mixup=0; `dfstrans summary --list-settings` lists them. May be repeated.",
    SETTINGS_PANEL,
    metavar="NAME=VALUE",
)
_FILE = _parameter(
    "settings_file",
    Path | None,
    "--settings",
    "A TOML file with one NAME = VALUE line per setting; --set and options override it.",
    SETTINGS_PANEL,
    metavar="FILE.toml",
)
_RECIPE = _parameter(
    "recipe",
    Path | None,
    "--recipe",
    "A TOML file with these options, as `dfstrans data recipe` prints it; options override it.",
    READING_PANEL,
    metavar="FILE.toml",
)


def _merge_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Merge the settings given as options, with `--set` and in a file."""
    file, texts = given.pop("settings_file", None), given.pop("set_values", [])
    merged = {} if file is None else _read_toml(file, "--settings")
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise DfstransError(f"expected --set NAME=VALUE, got {text!r}; write for example --set mixup=0")
        merged[name.strip().replace("-", "_")] = value.strip()
    return merged | given


def refuse_settings_as_options(command: Any, arguments: list[str]) -> None:
    """Reject a setting given as an option that does not exist, such as `--heads 4` instead of `--set heads=4`."""
    given = arguments[: arguments.index("--")] if "--" in arguments else arguments
    options = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    unknown = [n for n, text in enumerate(given) if text.startswith("--") and text.split("=")[0] not in options]
    if "--set" not in options or not unknown:
        return
    model = next((name for flag, name in pairwise(given) if flag == "--model"), DFSTRANS)
    settings = _setting_names(model)
    for n in unknown:
        option, equals, value = given[n].partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if name in settings:
            following = given[n + 1] if n + 1 < len(given) and not given[n + 1].startswith("--") else "…"
            raise DfstransError(
                f"expected an option, got {option}, which is a setting without its own option; use --set "
                f"{name}={value if equals else following}"
            )


def _setting_names(model: str) -> set[str]:
    """Return the names of the settings of a kind of detector, without loading torch for the default one."""
    if model == DFSTRANS:
        return {*NetworkSettings.model_fields, *TrainingSettings.model_fields}
    from dfstrans.detectors.registry import detector_kind, detector_names  # commands without a model need no torch

    return set(detector_kind(model).default_settings()) if model in detector_names() else set()


def _read_toml(path: Path, option: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DfstransError(f"expected a TOML file for {option}, got nothing at {path}; check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DfstransError(f"expected a TOML file for {option}, got {path}: {error}; correct it") from None
    tables = [name for name, value in content.items() if isinstance(value, dict)]
    if tables:
        raise DfstransError(
            f"expected lines NAME = VALUE in {path}, got the table [{tables[0]}]; write its settings without a table"
        )
    return content


def _add_options(
    options: list[inspect.Parameter], into: str, collect: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command; `collect` turns those that were set into the command's argument `into`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> Any:
            values = {option.name: given.pop(option.name) for option in options}
            chosen = {name: value for name, value in values.items() if value not in (None, [])}
            return command(**given, **{into: collect(chosen)})

        own = inspect.signature(command, eval_str=True)
        kept = [parameter for name, parameter in own.parameters.items() if name != into]
        wrapper.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *options)}
        return wrapper

    return decorate


def _option(
    name: str, field: FieldInfo, panel: str | None, defaults: Mapping[str, Any] = MappingProxyType({})
) -> inspect.Parameter:
    annotation: Any = field.annotation
    text = field.description or ""
    flag = "--" + name.replace("_", "-")
    default = defaults.get(name, None if field.is_required() else field.default)
    if annotation == tuple[str, ...]:
        annotation = list[str] | None
        text = f"{text} May be repeated.".strip()
    elif annotation is bool:
        annotation = bool | None
    elif not field.is_required():
        annotation = annotation | None
        text = text if default is None else f"{text} (default {default})".strip()
    extra = field.json_schema_extra
    metavar = str(extra["metavar"]) if isinstance(extra, dict) and "metavar" in extra else None
    parser = None
    if annotation in (int, int | None):
        parser, metavar = _whole_number, metavar or "<int>"
    return _parameter(name, annotation, flag, text, panel, metavar=metavar, parser=parser)


def _whole_number(text: str) -> int:
    """Like `int`, with an error that repeats the text."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, got {text!r}") from None


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of reading; it receives those that were set, or are in a recipe, as `read`."""
    options = [_option(name, field, READING_PANEL) for name, field in ReadOptions.model_fields.items()]
    return _add_options([*options, _RECIPE], "read", _merge_recipe)(command)


def _merge_recipe(given: dict[str, Any]) -> dict[str, Any]:
    file = given.pop("recipe", None)
    return given if file is None else {**_read_toml(file, "--recipe"), **given}


def with_or_without_labels(detector: EpisodeClassifier, data: Path, read: dict[str, Any]) -> Episodes:
    """Read recordings for a command that does not need labels; unreadable labels are ignored with a remark."""
    load = functools.partial(detector.load_episodes, data, need_labels=False)
    return without_unreadable_labels(load, detector.reading_, read, remark)


def warn_out_of_range(detector: EpisodeClassifier, episodes: Episodes) -> dict[str, float]:
    """Return the share of values outside the training range by sensor, and warn where it exceeds 1 %.

    For a sensor that was constant in training, any such value causes a warning, since the model ignores that sensor.
    """
    shares = detector.out_of_range(episodes)
    for text in range_warnings(shares, detector.scaler_, lambda far: _about_units(detector, episodes, far)):
        warnings.warn(text, stacklevel=2)
    return shares


def range_warnings(
    shares: Mapping[str, float], scaler: SensorScaler, advice: Callable[[set[str]], Iterable[str]]
) -> Iterator[str]:
    """Yield the warnings about these shares of values; `advice` is about sensors of which most are out of range."""
    unmoved = {name for name, hit in zip(scaler.sensors, scaler.constant, strict=True) if hit}
    new = [f"{name} ({share:.2g} of its values)" for name, share in shares.items() if name in unmoved]
    much = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share > 0.01 and name not in unmoved]
    if much:
        far = {name for name, share in shares.items() if share > 0.5} - unmoved
        words = "".join(f"; {one}" for one in advice(far))
        yield f"values outside the range seen in training: {list_few(much)}{words}"
    if new:
        yield (
            f"constant in training, but not here: {list_few(new)}; the model ignores such sensors, so check them "
            "yourself, or retrain with recordings in which they vary"
        )


def _about_units(detector: EpisodeClassifier, episodes: Episodes, far: set[str]) -> Iterator[str]:
    """Say what to do about sensors of which most values are out of range; another unit is told by its factor."""
    if not far:
        return
    factors = dict(zip(detector.sensors_, detector.scaler_.unit_factors(detector.check_input(episodes)), strict=True))
    by_factor: dict[float, list[str]] = {}
    for name in detector.sensors_:
        if name in far and np.isfinite(factors[name]):
            by_factor.setdefault(float(factors[name]), []).append(name)
    for factor, names in by_factor.items():
        how = f"divided by {factor:g}" if factor > 1 else f"multiplied by {1 / factor:g}"
        yield f"{how}, the values of {list_few(names)} are within it"
    if by_factor:
        yield "if this is another unit, convert the recordings to that of training; until then, decisions are useless"
    else:
        yield "do not rely on the decisions: check these sensors; a machine with another level has to be commissioned"


def warn_of_guessing(chance_check: ChanceCheck) -> None:
    """Warn that a detector is not shown to be better than guessing, or that there are too few episodes to tell."""
    if not chance_check.better_than_guessing:
        remark(f"warning: {chance_check.sentence}")
