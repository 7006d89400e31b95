"""Arguments that commands share, and options made from settings: each is defined, explained and checked once."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from dfstrans.cli.output import remark
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.training.evaluation import ChanceCheck

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes
    from dfstrans.detectors.base import EpisodeClassifier


Data = Annotated[Path, typer.Argument(help="A file or folder of recordings.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A saved model's folder.", show_default=False)]


def options_from(
    model: type[BaseModel],
    into: str,
    exclude: tuple[str, ...] = (),
    panel: str | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one option per field of `model`; those that were set reach the command as a dict named `into`.

    `defaults` are shown where they differ from the model's own; the command sees to them.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        names = [name for name in model.model_fields if name not in exclude]

        @functools.wraps(command)
        def wrapper(**given: Any) -> Any:
            values = {name: given.pop(name) for name in names}
            chosen = {name: value for name, value in values.items() if value not in (None, [])}
            return command(**given, **{into: chosen})

        own = inspect.signature(command, eval_str=True)
        kept = [parameter for name, parameter in own.parameters.items() if name != into]
        added = [_option(name, model, panel, defaults) for name in names]
        wrapper.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
        return wrapper

    return decorate


def _option(name: str, model: type[BaseModel], panel: str | None, defaults: Mapping[str, Any]) -> inspect.Parameter:
    field = model.model_fields[name]
    annotation: Any = field.annotation
    text = field.description or ""
    flag = "--" + name.replace("_", "-")
    if annotation == tuple[str, ...]:
        annotation = list[str] | None
        text = f"{text} May be repeated.".strip()
    elif annotation is bool:
        annotation = bool | None
    elif not field.is_required() and field.default is not None:
        default = defaults.get(name, field.default)
        text = f"{text} (default {'chosen from the data' if default is None else default})".strip()
        annotation = annotation | None
    extra = field.json_schema_extra
    metavar = str(extra["metavar"]) if isinstance(extra, dict) and "metavar" in extra else None
    parser = None
    if annotation in (int, int | None):
        parser, metavar = _whole_number, metavar or "<int>"
    declared = typer.Option(flag, help=text, rich_help_panel=panel, show_default=False, metavar=metavar, parser=parser)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, declared]
    )


def _whole_number(text: str) -> int:
    """As `int`, with an error that repeats what was given."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, got {text!r}") from None


reading = options_from(ReadOptions, into="read", panel="Reading the recordings")


def with_or_without_labels(data: Path, read: dict[str, Any]) -> Episodes:
    """The recordings for a command that can do without labels: those that cannot be read are left out, aloud."""
    from dfstrans.data.readers import load_episodes
    from dfstrans.data.readers.columns import UnreadableLabelsError

    try:
        return load_episodes(data, **read)
    except UnreadableLabelsError as error:
        if error.column is None:
            raise
        remark(f"the recordings are read without their labels: {error}")
        return load_episodes(data, **{**read, "drop_sensors": [*read.get("drop_sensors", ()), error.column]})


def warn_of_silent_sensors(detector: EpisodeClassifier, episodes: Episodes) -> None:
    """Say which sensors have no value in any of these recordings: the model takes their training mean for one."""
    import numpy as np

    from dfstrans.data.inputs import match_sensors
    from dfstrans.errors import shortlist

    silent = np.ones(len(detector.sensors_), dtype=np.bool_)
    for episode in match_sensors(episodes, detector.sensors_):
        silent[silent] = np.isnan(episode.values[silent]).all(axis=1)
        if not silent.any():
            return
    names = [name for name, hit in zip(detector.sensors_, silent, strict=True) if hit]
    if len(episodes):
        warnings.warn(
            f"no value of {shortlist(names)} in these recordings: such a sensor stands at its training mean, and what "
            "it would tell is lost; record it, or train without it",
            stacklevel=2,
        )


def warn_out_of_range(detector: EpisodeClassifier, episodes: Episodes) -> dict[str, float]:
    """The share of values outside the training range; said aloud where it is more than a hundredth.

    Of a sensor that never moved in training any such value is told: the model is blind to it.
    """
    from dfstrans.detectors.workflow import out_of_range
    from dfstrans.errors import shortlist

    shares = out_of_range(detector, episodes)
    unmoved = {name for name, hit in zip(detector.sensors_, detector.scaler_.constant, strict=True) if hit}
    new = [f"{name} ({share:.2g} of its values)" for name, share in shares.items() if name in unmoved]
    much = [f"{name} ({share:.0%})" for name, share in shares.items() if share > 0.01 and name not in unmoved]
    if much:
        shown = ", ".join(much[:5]) + (f" and {len(much) - 5} more" if len(much) > 5 else "")
        warnings.warn(f"values outside the range seen in training: {shown}", stacklevel=2)
    if new:
        warnings.warn(
            f"one value throughout training, another one here: {shortlist(new)}; the model leaves such a sensor out of "
            "account, so look at it yourself, or train again with recordings in which it moves",
            stacklevel=2,
        )
    return shares


def warn_of_guessing(chance_check: ChanceCheck) -> None:
    """Say that a detector is not shown to be better than guessing, or that nobody can tell."""
    if not chance_check.better_than_guessing:
        remark(f"warning: {chance_check.sentence}")
