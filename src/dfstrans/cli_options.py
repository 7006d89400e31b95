"""Arguments that commands share, and options made from settings: each is defined, explained and checked once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from dfstrans.data.readers.options import ReadOptions

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
