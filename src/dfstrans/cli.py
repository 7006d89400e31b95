"""The command line: parse, call, print. Results go to stdout, progress and remarks to stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

from dfstrans import (
    __version__,
    cli_compare,
    cli_data,
    cli_demo,
    cli_diagnose,
    cli_encoding,
    cli_evaluate,
    cli_export,
    cli_inject,
    cli_predict,
    cli_reproduce,
    cli_simulate,
    cli_summary,
    cli_train,
)
from dfstrans.cli_output import remark
from dfstrans.errors import DfstransError, Remark, settings_as_options

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.add_typer(cli_data.app, name="data")
app.add_typer(cli_simulate.app, name="simulate")
app.command("compare", epilog=cli_compare.EXAMPLE)(cli_compare.compare)
app.command("reproduce", epilog=cli_reproduce.EXAMPLE)(cli_reproduce.reproduce)
app.command("encoding", epilog=cli_encoding.EXAMPLE)(cli_encoding.encoding)
app.command("inject", epilog=cli_inject.EXAMPLE)(cli_inject.inject)
app.command("train", epilog=cli_train.EXAMPLE)(cli_train.train)
app.command("evaluate", epilog=cli_evaluate.EXAMPLE)(cli_evaluate.evaluate)
app.command("predict", epilog=cli_predict.EXAMPLE)(cli_predict.predict)
app.command("diagnose", epilog=cli_diagnose.EXAMPLE)(cli_diagnose.diagnose)
app.command("export", epilog=cli_export.EXAMPLE)(cli_export.export)
app.command("summary", epilog=cli_summary.EXAMPLE)(cli_summary.summary)
app.command("demo", epilog=cli_demo.EXAMPLE)(cli_demo.demo)


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
