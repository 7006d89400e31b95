"""Options that benchmarks share."""

from __future__ import annotations

import argparse

from benchmarks.workload import SHAPES


def new_parser(benchmark: str, what: str | None) -> argparse.ArgumentParser:
    """A parser that knows `--json`."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}", description=what)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def add_shapes(parser: argparse.ArgumentParser, *default: str) -> None:
    """Which of the paper's four shapes are measured; all, unless some are named."""
    chosen = list(default or SHAPES)
    text = f"of {', '.join(SHAPES)} ({'all' if not default else ', '.join(default)})"
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=chosen, metavar="NAME", help=text)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How many threads compute."""
    parser.add_argument("--threads", type=int, default=1, help="with 1, processor time is measured; else the clock (1)")


def parsed(parser: argparse.ArgumentParser, arguments: list[str] | None, *counts: str) -> argparse.Namespace:
    """The options that were given; `counts` are refused below 1."""
    options = parser.parse_args(arguments)
    for name in counts:
        if (given := getattr(options, name)) < 1:
            parser.error(f"expected --{name} to be at least 1, got {given}; correct it")
    return options
