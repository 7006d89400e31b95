"""The command line: parse, call, print. Results go to stdout, progress and remarks to stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dfstrans import __version__
from dfstrans.cli.output import remark
from dfstrans.errors import DfstransError, Remark, settings_as_options

COMMANDS = {  # each is the `app` of the file of its name
    "train": "Train a detector on labelled recordings, test it, and save it.",
    "evaluate": "Evaluate a saved model on labelled recordings.",
    "predict": "Predict anomaly probabilities for new recordings.",
    "diagnose": "Show which sensors and moments are unlike normal.",
    "data": "Look at recordings, and convert them.",
    "export": "Export a model to ONNX, to predict without torch.",
    "summary": "Summarise a saved model, or the network that settings give.",
    "demo": "Run everything once on simulated elevator journeys.",
    "simulate": "Simulate recordings of a machine, with known faults.",
    "inject": "Plant known faults into normal recordings, and measure how well they are found.",
    "compare": "Compare detectors on the same splits, with significance tests.",
    "reproduce": "Reproduce a table or a figure of the paper.",
    "encoding": "Analyse positional encodings.",
}


class LazyCommands(TyperGroup):
    """Loads the file of a command when it is called: the list of commands must not wait for torch."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, the everyday ones first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A stand-in with the help that the list shows."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself."""
        name, found, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            found = typer.main.get_command(import_module(f"dfstrans.cli.{name}").app)
            found.name = name
        return name, found, rest


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main() -> None:
    """Run the command line. Exit code 0: done; 1: done, with a negative result, or interrupted; 2: bad input."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    warnings.showwarning = _Warnings()
    try:
        with settings_as_options():
            app(arguments)
    except DfstransError as error:
        if debug:
            traceback.print_exc()
            sys.exit(2)
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        _fail(
            f"the system refused: {error}; see to the disk, the permissions or where the output goes, and try again "
            "(with --debug, it tells where)",
            2,
        )
    except Exception as error:
        if debug:
            raise
        _fail(f"something went wrong inside dfstrans ({type(error).__name__}: {error}); run again with --debug", 1)


@app.callback(epilog="Every command takes --debug, for the full traceback of an error.")
def dfstrans(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda on: _version(on))
    ] = False,
) -> None:
    """What went wrong, when and where: detect and diagnose anomalies in recordings of many sensors."""


def _version(on: bool) -> None:
    if on:
        print(__version__)
        raise typer.Exit


def _fail(message: str, code: int) -> Any:
    print(f"dfstrans: {message}", file=sys.stderr)
    sys.exit(code)


class _Warnings:
    """Says each warning once, however many steps of a command come upon it."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in self._said:
            self._said.add(str(message))
            remark(str(message) if isinstance(message, Remark) else f"warning: {message}")
