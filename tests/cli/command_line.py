"""The command as tests give it, and the settings of a network small enough to train in a second."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest

from dfstrans.cli.app import main

SMALL = ["--set", "width=8", "--set", "heads=2", "--set", "feedforward=16", "--set", "head_width=8"]
SMALL += ["--segment-length", "16", "--precision", "32", "--batch-size", "8"]


def run(*arguments: Any) -> tuple[int, str, str]:
    """Run the command inside this process, which saves the seconds that imports take: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["dfstrans", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stopped,
    ):
        main()
    code = stopped.value.code
    return (code if isinstance(code, int) else 0), out.getvalue(), err.getvalue()


def output_of(*arguments: Any) -> tuple[str, str]:
    """The standard output and the error output of a command that succeeds."""
    code, out, err = run(*arguments)
    assert code == 0, err
    return out, err


def result_of(*arguments: Any) -> Any:
    """The JSON of a command that succeeds."""
    return json.loads(output_of(*arguments, "--json")[0])


def refused(*arguments: Any) -> str:
    """The error output of a command that refuses its input."""
    code, _, err = run(*arguments)
    assert code == 2, err
    return err
