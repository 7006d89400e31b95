"""Entry point of the command line. Commands load on demand; results go to stdout, progress and remarks to stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dfstrans import __version__
from dfstrans.errors import DfstransError, Note, require_package, settings_as_options

COMMANDS = {  # short help by command; each command is the `app` of the module of that name
    "train": "Train a detector on labelled recordings, test it, and save it.",
    "evaluate": "Evaluate a saved model on labelled recordings.",
    "predict": "Predict anomaly probabilities for new recordings.",
    "diagnose": "Show which sensors deviate from normal, and when.",
    "score": "Score the recordings of a fleet, on many processes or computers.",
    "watch": "Score recordings as they arrive in a folder.",
    "serve": "Serve recordings, cases and models over HTTP.",
    "commission": "Learn what is normal for a machine, without labels or training.",
    "data": "Check and convert recordings.",
    "export": "Export a model to ONNX for prediction without torch.",
    "summary": "Summarise a saved model, or a network built from given settings.",
    "demo": "Run the whole workflow on simulated elevator journeys.",
    "simulate": "Simulate recordings of a machine, with known faults.",
    "inject": "Inject known faults into normal recordings, and measure how well they are found.",
    "compare": "Compare detectors on the same splits, with significance tests.",
    "reproduce": "Reproduce a table or a figure of the paper.",
    "experiments": "Compute a queue of runs for the paper's tables, or show its progress.",
    "encoding": "Analyse positional encodings.",
}


PATHS = {  # what the first arguments of a command are, checked before its module is loaded
    **dict.fromkeys(("train", "inject", "compare"), ("recordings",)),
    **dict.fromkeys(("evaluate", "predict", "diagnose", "commission"), ("a saved model", "recordings")),
    **dict.fromkeys(("export", "score"), ("a saved model",)),
}


class LazyCommands(TyperGroup):
    """Imports a command's module only when it is called, so that `--help` does not wait for torch."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all commands, everyday ones first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in that carries the short help."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command itself."""
        name, found, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            _require_paths(name, rest)
            found = typer.main.get_command(import_module(f"dfstrans.cli.{name}").app)
            found.name = name
            import_module("dfstrans.cli.options").refuse_settings_as_options(found, rest)
        return name, found, rest


def _require_paths(command: str, arguments: list[str]) -> None:
    """Reject paths that do not exist within a second, since loading a command that trains or predicts takes longer."""
    if "--help" in arguments:
        return
    missing = []
    for what, given in zip(PATHS.get(command, ()), arguments, strict=False):
        if given.startswith("-"):  # the command itself checks paths that follow options
            break
        if not Path(given).exists():
            missing.append(f"expected {what} at {given}, got nothing there")
        elif _mostly_tdms(Path(given)):
            require_package("nptdms", "tdms", f"reading {given}")
    if missing:
        raise DfstransError(f"{'; '.join(missing)}; check the path{'s' if len(missing) > 1 else ''}")


def _mostly_tdms(path: Path) -> bool:
    files = path.rglob("*") if path.is_dir() else [path]
    suffixes = Counter(file.suffix.lower() for file in files if file.suffix != ".tdms_index")
    return bool(suffixes) and suffixes.most_common(1)[0][0] == ".tdms"


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main() -> None:
    """Run the command line. Exit codes: 0 success, 1 negative result or internal error, 2 bad input, 130 Ctrl-C."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    warnings.showwarning = _Warnings()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: names of files may have any characters
    try:
        with settings_as_options():
            app(arguments, prog_name="dfstrans")
    except DfstransError as error:
        if debug:
            traceback.print_exc()
            sys.exit(2)
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)  # shell convention for Ctrl-C
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        _fail(
            f"the operating system reports: {error}; check disk space, permissions and paths, then try again "
            "(--debug shows where it happened)",
            2,
        )
    except Exception as error:
        if debug:
            raise
        _fail(f"internal error ({type(error).__name__}: {error}); run again with --debug for the traceback", 1)


@app.callback(epilog="Every command accepts --debug, which shows the full traceback of an error.")
def dfstrans(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda on: _version(on))
    ] = False,
) -> None:
    """Detect and diagnose anomalies in multi-sensor recordings: what went wrong, when and where."""


def _version(on: bool) -> None:
    if on:
        print(__version__)
        raise typer.Exit


def _fail(message: str, code: int) -> Any:
    print(f"dfstrans: {message}", file=sys.stderr)
    sys.exit(code)


class _Warnings:
    """Prints each warning once, however often it is raised."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in self._said:
            self._said.add(str(message))
            print(message if isinstance(message, Note) else f"warning: {message}", file=sys.stderr)
