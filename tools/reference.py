"""Generate the reference of the command line, the settings and the JSON of a diagnosis from the code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from dfstrans.cli.app import COMMANDS
from dfstrans.diagnosis.schema import diagnosis_schema

SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "reference" / "diagnosis.schema.json"


def command_reference() -> str:
    """The reference of the command line as Markdown: usage, help and options of every command."""
    parts = ["# Command line", "Every command accepts `--json` for programs and `--debug` for tracebacks.", ""]
    for name in COMMANDS:
        command = typer.main.get_command(import_module(f"dfstrans.cli.{name}").app)
        for full_name, one in _leaves(f"dfstrans {name}", command):
            parts += _command(full_name, one)
    return "\n".join(parts) + "\n"


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or each command of a group."""
    if hasattr(command, "commands"):
        for inner, one in command.commands.items():
            yield from _leaves(f"{name} {inner}", one)
    else:
        yield name, command


def _command(name: str, command: Any) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    usage = " ".join([name, *(one.name.upper() for one in arguments), "[OPTIONS]"])
    rows = [f"| `{one.name.upper()}` | {_cell(one.help)} |" for one in arguments]
    rows += [f"| `{_flags(one)}` | {_cell(one.help)}{_default(one)} |" for one in options]
    panels = ["| argument or option | meaning |", "|---|---|", *rows]
    example = (command.epilog or "").removeprefix("Example: ")
    shown = ["```sh", example, "```", ""] if example else []
    return [f"## `{name}`", "", "```text", usage, "```", "", command.help or "", "", *shown, *panels, ""]


def _flags(option: Any) -> str:
    return " / ".join([*option.opts, *option.secondary_opts])


def _default(option: Any) -> str:
    plain = option.default is None or option.default is False or not option.show_default or callable(option.default)
    return "" if plain or option.required else f" Default: `{option.default}`."


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def settings_reference(title: str, *groups: type[BaseModel]) -> str:
    """The reference of settings as Markdown, one table per group."""
    parts = [f"# {title}", ""]
    for group in groups:
        parts += [f"## {group.__name__}", "", (group.__doc__ or "").strip(), ""]
        parts += ["| name | default | meaning |", "|---|---|---|"]
        for name, field in group.model_fields.items():
            default = "required" if field.is_required() else f"`{field.default}`"
            parts.append(f"| `{name}` | {default} | {_cell(field.description)} |")
        parts.append("")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(diagnosis_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
